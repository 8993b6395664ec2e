//! Write environments, tools and rewards for Gymkhana.
