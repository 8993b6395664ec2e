//! Stages of a run: batches of groups, prefetching steps, training.

pub(crate) mod batch;
mod best_of_n;
mod demonstrations;
mod failing;
pub(crate) mod groups;
pub(crate) mod pipeline;
mod preferences;
pub(crate) mod replies;
mod rl;
pub(crate) mod run;
mod sft;
pub(crate) mod tally;
pub(crate) mod tasks;
pub(crate) mod watch;
