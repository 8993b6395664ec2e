//! The stages of a run: groups are scheduled, played ahead, and trained on.

pub(crate) mod batch;
pub(crate) mod groups;
pub(crate) mod pipeline;
mod rl;
pub(crate) mod scheduler;
mod sft;
pub(crate) mod tasks;
