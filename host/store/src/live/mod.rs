//! Episodes in progress: what a killed process leaves of them, as records.
//!
//! Each event is one line of JSON, which is written with one call of the system before the client gets its answer: the end
//! of the process loses at most the turn in progress, and a last line that is not whole is that turn. Lines go to numbered
//! files. A file is removed once every episode that began in it or before it has ended. The next start turns the episodes
//! that have not ended into records.

mod journal;
mod records;
mod recovery;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use gymkhana_record::{Added, EpisodeId, EpisodeRecord};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::fs::names_in;

pub use journal::LiveJournal;
pub use records::{Append, LiveRecords, ReportWrites};
pub use recovery::{Recovered, recover};

/// Prefix and suffix of the files' names.
const NAME: (&str, &str) = ("live-", ".jsonl");

/// A line of the journal. `folder` is the name of the folder of records, in a journal for several.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
#[allow(clippy::large_enum_variant, reason = "one line at a time is in memory")]
enum Line<'a> {
    /// An episode began, with this record so far.
    Began { folder: Cow<'a, str>, episode: Cow<'a, EpisodeRecord> },
    /// A turn was taken.
    Turn {
        folder: Cow<'a, str>,
        record: EpisodeId,
        #[serde(flatten)]
        added: Cow<'a, Added<'a>>,
    },
    /// The record is stored.
    Ended { folder: Cow<'a, str>, record: EpisodeId },
}

/// Whether a name is that of a file of the journal.
pub(crate) fn is_live(name: &str) -> bool {
    number_of(name).is_some()
}

/// Paths of the journal's files in a folder, in their order.
fn files(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let names = names_in(root)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| path_of(root, number)).collect())
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?.parse().ok()?;
    // Only names that the journal writes: `live-07.jsonl` is not one of them.
    (name == name_of(number)).then_some(number)
}

fn name_of(number: u64) -> String {
    format!("{}{number}{}", NAME.0, NAME.1)
}

fn path_of(root: &Path, number: u64) -> PathBuf {
    root.join(name_of(number))
}
