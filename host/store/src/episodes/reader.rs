//! Index of the stored episodes: those in parts, then those that only a journal holds.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gymkhana_record::{EpisodeId, EpisodeRecord};

use crate::StoreError;
use crate::episodes::entry::SerializedRecord;
use crate::episodes::journal::{self, Recovered};
use crate::episodes::part::{read_ids, read_part};
use crate::fs::names_in;
use crate::names::{JOURNAL, journal_path, part_path};

/// Reader of a run's episodes. Each episode occurs once.
#[derive(Debug, Clone)]
pub struct EpisodeReader {
    folder: PathBuf,
    /// Number and episode ids of each part, sorted by number.
    pub(crate) parts: Vec<(u32, Vec<EpisodeId>)>,
    /// Episodes that are not in a part yet, in the order in which they ended.
    pub(crate) journalled: Vec<SerializedRecord>,
    pub(crate) ids: HashSet<EpisodeId>,
}

/// A journal file and its state.
pub(crate) struct FoundJournal {
    pub number: u32,
    pub end: u64,
    pub torn: u64,
    /// Whether all its episodes are in parts.
    pub spent: bool,
}

impl EpisodeReader {
    /// Indexes the folder of episodes without changing it.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self::scan(folder)?.0)
    }

    /// Like `open`, and also returns the journals found.
    ///
    /// If a crash fell between writing a part and removing its journal, both hold the same episodes. The part takes
    /// precedence, so that each episode counts once.
    pub(crate) fn scan(folder: &Path) -> Result<(Self, Vec<FoundJournal>), StoreError> {
        let mut reader =
            Self { folder: folder.to_owned(), parts: Vec::new(), journalled: Vec::new(), ids: HashSet::new() };
        for number in numbers_of_parts(folder)? {
            let mut ids = read_ids(&part_path(folder, number))?;
            ids.retain(|id| reader.ids.insert(*id));
            reader.parts.push((number, ids));
        }
        let mut journals = Vec::new();
        for number in numbers_of_journals(folder)? {
            let Recovered { mut entries, end, torn } = journal::recover(&journal_path(folder, number))?;
            entries.retain(|entry| reader.ids.insert(entry.record.id));
            journals.push(FoundJournal { number, end, torn, spent: entries.is_empty() });
            reader.journalled.append(&mut entries);
        }
        Ok((reader, journals))
    }

    /// Number of episodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the run has zero episodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether this episode is stored.
    #[must_use]
    pub fn contains(&self, id: EpisodeId) -> bool {
        self.ids.contains(&id)
    }

    /// The ids of all episodes, sorted: by stage, phase, step, group, member and attempt.
    #[must_use]
    pub fn ids(&self) -> Vec<EpisodeId> {
        let mut ids: Vec<EpisodeId> = self.ids.iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Reads one episode.
    ///
    /// # Errors
    /// If it is not stored or its file cannot be read.
    pub fn read(&self, id: EpisodeId) -> Result<EpisodeRecord, StoreError> {
        if let Some(entry) = self.journalled.iter().find(|entry| entry.record.id == id) {
            return Ok(entry.record.clone());
        }
        let (number, _) = self.parts.iter().find(|(_, ids)| ids.contains(&id)).ok_or(StoreError::NoEpisode(id))?;
        let records = read_part(&part_path(&self.folder, *number))?;
        records.into_iter().find(|record| record.id == id).ok_or(StoreError::NoEpisode(id))
    }

    /// Reads all episodes, a part at a time, in the order in which they were stored.
    pub fn read_all(&self) -> impl Iterator<Item = Result<EpisodeRecord, StoreError>> + '_ {
        self.read_where(|_| true)
    }

    /// Reads the episodes whose ids meet a condition, in the order in which they were stored. Parts without such an
    /// episode are not opened.
    pub fn read_where<'a>(
        &'a self,
        is_wanted: impl Fn(&EpisodeId) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = Result<EpisodeRecord, StoreError>> + 'a {
        let wanted_parts = self.parts.iter().filter(move |(_, ids)| ids.iter().any(is_wanted));
        let stored = wanted_parts.flat_map(move |(number, ids)| match read_part(&part_path(&self.folder, *number)) {
            Ok(mut records) => {
                records.retain(|record| is_wanted(&record.id) && ids.contains(&record.id));
                records.into_iter().map(Ok).collect()
            }
            Err(error) => vec![Err(error)],
        });
        let journalled = self.journalled.iter().map(|entry| &entry.record).filter(move |record| is_wanted(&record.id));
        stored.chain(journalled.map(|record| Ok(record.clone())))
    }
}

/// Sorted numbers of the parts in a folder.
pub(crate) fn numbers_of_parts(folder: &Path) -> Result<Vec<u32>, StoreError> {
    numbers(folder, "part-", ".parquet")
}

/// Sorted numbers of the journals in a folder.
pub(crate) fn numbers_of_journals(folder: &Path) -> Result<Vec<u32>, StoreError> {
    numbers(folder, JOURNAL, ".log")
}

/// Sorted numbers of the files named `{before}NUMBER{after}`. Other files are ignored.
fn numbers(folder: &Path, before: &str, after: &str) -> Result<Vec<u32>, StoreError> {
    let names = names_in(folder)?;
    let middles = names.iter().filter_map(|name| name.strip_prefix(before)?.strip_suffix(after));
    let mut numbers: Vec<u32> = middles.filter_map(|middle| middle.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
