//! Training as a library: from a run file and plugins to a trained model and its record.
//!
//! ```text
//! RunRequest ── prepare() ──► Prepared ── train() ──► Finished
//! ```
//!
//! [`prepare`] runs all checks and writes nothing. [`Prepared::train`] runs the stages of the run file; a pipeline
//! plays later steps during training, within the staleness bound. A [`Reporter`] receives progress. Evaluation, replay
//! and rescoring of recorded episodes share the set-up in [`setup`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agreement;
mod checkpoint_name;
mod checks;
mod error;
pub mod evaluate;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host_io;
mod metrics;
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

pub use gymkhana_store::StageSummary;

pub use error::{Classify, ErrorKind, RunError, RunResult};
pub use metrics::metrics_page;
pub use recorded_groups::groups;
pub use report::{Later, Progress, ProgressFigures, Reporter, Silent, SuccessRate, Work};
pub use session::{Finished, describe};
pub use start::{Prepared, RunRequest, prepare};
