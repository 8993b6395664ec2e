//! Loads plugins and calls them inside their limits.
