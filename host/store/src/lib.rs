//! Files of a run on disk.
//!
//! A process that is killed or a machine that stops at any moment never leaves a partial file that looks complete, or
//! an episode twice. Complete files are renamed to their final name. Files that grow (journal, metrics) are framed, so
//! that an incomplete end is detected and cut off. A run folder has one writer, which holds its lock, and any number of
//! readers, which change nothing. Files that are read back hold a checksum, or `state.json` names their digest.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clear;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod comparison;
mod episodes;
mod error;
mod folder;
mod fs;
mod live;
mod metrics;
mod names;
mod seal;
mod sealed;
mod summary;
mod tensorboard;

pub use comparison::{ComparedEpisode, RewardComparison, ScoreOutcome, Sides, SummaryStats};
pub use episodes::EpisodeStore;
pub use episodes::part::PART_SCHEMA;
pub use episodes::reader::EpisodeReader;
pub use episodes::table::{EpisodeRow, EpisodeTable};
pub use episodes::wire::{BadEpisodes, decode_episodes, encode_episodes};
pub use error::StoreError;
pub use folder::{RunFolder, RunReader, STATE_SCHEMA};
pub use live::{Append, LiveJournal, LiveRecords, Recovered, ReportWrites, recover};
pub use metrics::{METRICS_SCHEMA, Metrics, MetricsExtent, MetricsLine};
pub use summary::{
    EnvironmentSuccess, EnvironmentSummary, RunSummary, SUMMARY_SCHEMA, StageSummary, StepEvaluation, best_evaluation,
};
