//! Snapshots as data: those of an episode, and those of its plugins' sessions.

pub(crate) mod episode;
pub(crate) mod session;
