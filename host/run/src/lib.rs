//! Training as a library: from a run file and plugins to a trained model and its record.
//!
//! ```text
//! RunRequest ── prepare() ──► Prepared ── train() ──► Finished
//! ```
//!
//! [`prepare`] checks everything and writes nothing; [`Prepared::train`] goes through the stages of the run file, each
//! step played ahead by a pipeline as far as the staleness bound allows. Progress goes to a [`Reporter`]. Evaluation,
//! replay and rescoring of recorded episodes share the set-up in [`setup`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checks;
mod error;
pub mod evaluate;
mod metrics;
mod progress;
mod recorded_groups;
mod report;
mod resume;
mod seats;
mod session;
pub mod setup;
mod stages;
mod start;
mod state;
mod trace;

pub use error::{Classify, ErrorKind, RunError, RunResult};
pub use recorded_groups::groups;
pub use report::{Progress, Reporter, Silent};
pub use session::{Finished, describe};
pub use start::{Prepared, RunRequest, prepare};
