//! Which episodes are stored, and where: parts first, then what only a journal holds.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gymkhana_record::{EpisodeId, EpisodeRecord};

use crate::StoreError;
use crate::entry::Entry;
use crate::folder::names_in;
use crate::journal::{self, Recovered};
use crate::part::{read_ids, read_part};

/// How the names of journals begin.
const JOURNAL: &str = "journal-";

/// The episodes of a run, each once, for reading.
#[derive(Debug, Clone)]
pub struct EpisodeReader {
    folder: PathBuf,
    /// Number and episodes of each part, by number.
    pub(crate) parts: Vec<(u32, Vec<EpisodeId>)>,
    /// The episodes that no part holds yet, in the order in which they ended.
    pub(crate) journalled: Vec<Entry>,
    pub(crate) ids: HashSet<EpisodeId>,
}

/// A journal file as it was found.
pub(crate) struct FoundJournal {
    pub number: u32,
    pub end: u64,
    pub torn: u64,
    /// Every episode in it stands in a part.
    pub spent: bool,
}

impl EpisodeReader {
    /// Looks through the folder of episodes, and changes nothing in it.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self::scan(folder)?.0)
    }

    /// As `open`, and says which journals there are.
    ///
    /// A journal whose part was renamed into place before the process could remove it holds nothing new: the part
    /// wins. So an episode counts once, wherever a crash fell between writing the one and removing the other.
    pub(crate) fn scan(folder: &Path) -> Result<(Self, Vec<FoundJournal>), StoreError> {
        let mut reader =
            Self { folder: folder.to_owned(), parts: Vec::new(), journalled: Vec::new(), ids: HashSet::new() };
        for number in numbers(folder, "part-", ".parquet")? {
            let mut ids = read_ids(&part_path(folder, number))?;
            ids.retain(|id| reader.ids.insert(*id));
            reader.parts.push((number, ids));
        }
        let mut journals = Vec::new();
        for number in numbers(folder, JOURNAL, ".log")? {
            let Recovered { mut entries, end, torn } = journal::recover(&journal_path(folder, number))?;
            entries.retain(|entry| reader.ids.insert(entry.record.id));
            journals.push(FoundJournal { number, end, torn, spent: entries.is_empty() });
            reader.journalled.append(&mut entries);
        }
        Ok((reader, journals))
    }

    /// How many episodes there are.
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
        let stored = self.parts.iter().flat_map(|(number, ids)| match read_part(&part_path(&self.folder, *number)) {
            Ok(mut records) => {
                records.retain(|record| ids.contains(&record.id));
                records.into_iter().map(Ok).collect()
            }
            Err(error) => vec![Err(error)],
        });
        stored.chain(self.journalled.iter().map(|entry| Ok(entry.record.clone())))
    }
}

/// Where the part of this number is.
pub(crate) fn part_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("part-{number:06}.parquet"))
}

/// Where the journal of this number is, which becomes the part of the same number.
pub(crate) fn journal_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{JOURNAL}{number:06}.log"))
}

/// Whether a file of this name is a journal.
pub(crate) fn is_journal(name: &str) -> bool {
    name.starts_with(JOURNAL)
}

/// The numbers of the files of this form, sorted. Other files are not ours to read.
fn numbers(folder: &Path, before: &str, after: &str) -> Result<Vec<u32>, StoreError> {
    let names = names_in(folder)?;
    let middles = names.iter().filter_map(|name| name.strip_prefix(before)?.strip_suffix(after));
    let mut numbers: Vec<u32> = middles.filter_map(|middle| middle.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
