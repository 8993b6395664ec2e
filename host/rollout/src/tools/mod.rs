//! Tool sessions: those of an episode, and those that a reward opens for itself.

pub(crate) mod for_rewards;
pub(crate) mod session;
