//! Names of the files in a run's folder.

use std::path::{Path, PathBuf};

/// The resolved run file.
pub(crate) const RUN_FILE: &str = "run.toml";
/// The run's progress.
pub(crate) const STATE_FILE: &str = "state.json";
/// The run's summary.
pub(crate) const SUMMARY_FILE: &str = "summary.json";
/// The metrics, a line per step.
pub(crate) const METRICS_FILE: &str = "metrics.jsonl";
/// Prefix of the names of journals.
pub(crate) const JOURNAL: &str = "journal-";

/// Whether a file of this name is a journal.
pub(crate) fn is_journal(name: &str) -> bool {
    name.starts_with(JOURNAL)
}

/// Path of the part of this number.
pub(crate) fn part_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("part-{number:06}.parquet"))
}

/// Path of the journal of this number, which becomes the part of the same number.
pub(crate) fn journal_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{JOURNAL}{number:06}.log"))
}
