//! Replays and forks: overrides of timing-dependent results, comparison, and copies of episodes.

pub(crate) mod agent_play;
pub(crate) mod compare;
pub(crate) mod fork;
pub(crate) mod overrides;
pub(crate) mod transcript;
