//! Scoring: a group's episodes are scored together, by one call of each reward where nothing fails.

pub(crate) mod group;
pub(crate) mod rescore;
pub(crate) mod reward_call;
