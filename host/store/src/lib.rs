//! Files of a run on disk.
//!
//! A process that is killed or a machine that stops at any moment never leaves a partial file that looks complete, or
//! an episode twice. Complete files are renamed to their final name. Files that grow (journal, metrics) are framed, so
//! that an incomplete end is detected and cut off. A run folder has one writer, which holds its lock, and any number of
//! readers, which change nothing.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checksum;
mod columns;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod entry;
mod episodes;
mod error;
mod folder;
mod journal;
mod metrics;
mod old_record;
mod part;
mod reader;
mod sharing;
mod summary;
mod tensorboard;

pub use episodes::EpisodeStore;
pub use error::StoreError;
pub use folder::{RunFolder, RunReader, STATE_SCHEMA};
pub use metrics::{METRICS_SCHEMA, Metrics, MetricsLine};
pub use part::PART_SCHEMA;
pub use reader::EpisodeReader;
pub use summary::{SUMMARY_SCHEMA, StageSummary, Summary};
