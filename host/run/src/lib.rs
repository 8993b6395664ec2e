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
pub use stages::tally::FailureTally;
pub use stages::watch::BetterCheckpoint;
pub use stages::{Finished, RunOutcome};
pub use start::{Prepared, RunRequest, prepare};
pub use stop::{StopRequest, Stopped};

/// Entry point of the fuzz target `state`: the position in `state.json`.
#[cfg(fuzzing)]
pub mod fuzzing {
    use crate::state::TrainingState;
    use gymkhana_config::Stage;

    /// Reads a position and checks it against stages; `None` if either refuses it. Returns the position as it would be
    /// written.
    #[must_use]
    pub fn read_state(text: &[u8], stages: &[Stage]) -> Option<String> {
        let state: TrainingState = serde_json::from_slice(text).ok()?;
        state.check(stages).ok()?;
        let _ = state.progress.begun_before(std::time::Instant::now());
        serde_json::to_string(&state).ok()
    }
}
