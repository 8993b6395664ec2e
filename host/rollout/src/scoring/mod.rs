//! Scoring: each reward scores a group's episodes together, with one call if nothing fails.

pub(crate) mod group;
pub(crate) mod hidden_fields;
pub(crate) mod rescore;
pub(crate) mod reward_call;
