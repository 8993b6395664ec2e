//! Training as a library: from a run file and plugins to a trained model and its record.
//!
//! ```text
//! RunRequest ── prepare() ──► Prepared ── train() ──► Outcome
//! ```
//!
//! [`prepare`] runs all checks and writes nothing. [`Prepared::train`] runs the stages of the run file; a pipeline
//! plays later steps during training, within the staleness bound. A [`Reporter`] receives progress. Evaluation
//! shares the set-up in [`setup`]; the parts that need no model come from [`gymkhana_orchestration`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agreement;
mod banner;
mod budget;
mod checkpoint_name;
pub mod evaluate;
#[cfg(fuzzing)]
pub mod fuzzing;
mod metrics;
mod oracle;
mod plan;
mod progress;
mod remote;
mod resume;
mod schedule;
mod seats;
pub mod setup;
mod sources;
mod stages;
mod start;
mod state;
mod stop;
mod training_run;
mod workers;

pub use gymkhana_orchestration::{
    Classify, Later, Progress, ProgressFigures, Reporter, RunError, RunErrorKind, RunResult, Silent, SuccessRate, Work,
    describe,
};
pub use gymkhana_store::StageSummary;

#[cfg(feature = "metrics")]
pub use metrics::metrics_page;
pub use plan::{FirstPrompt, RunPlan};
pub use stages::run::{Finished, RunOutcome};
pub use stages::tally::FailureTally;
pub use stages::watch::BetterCheckpoint;
pub use start::{Prepared, RunRequest, prepare};
pub use stop::{StopRequest, Stopped};
