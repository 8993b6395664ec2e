//! Stores episodes: first in a journal, then in immutable Parquet parts, each exactly once.

use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_episode::{EpisodeId, EpisodeRecord};

use crate::StoreError;
use crate::journal::Journal;
use crate::part::{is_even, read_part, write_part};
use crate::reader::{EpisodeReader, journal_path, part_path};

/// The episodes of a run, for writing.
#[derive(Debug)]
pub struct EpisodeStore {
    folder: PathBuf,
    stored: EpisodeReader,
    /// What is appended goes here; none between a commit and the next append.
    journal: Option<Journal>,
    torn_bytes: u64,
}

impl EpisodeStore {
    /// Opens the folder of episodes and mends what a crash left: cuts torn ends off, removes what is there twice.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        let (stored, journals) = EpisodeReader::scan(folder)?;
        let mut store = Self { folder: folder.to_owned(), stored, journal: None, torn_bytes: 0 };
        for found in journals {
            store.torn_bytes += found.torn;
            let path = journal_path(folder, found.number);
            if found.spent {
                remove(&path)?;
            } else if store.journal.is_some() {
                // The next journal is made only when the last is gone, so nothing of ours leaves two.
                return Err(StoreError::Damaged { path, offset: 0, what: "there is another journal beside it" });
            } else {
                store.journal = Some(Journal::open(&path, Some(found.end))?);
            }
        }
        Ok(store)
    }

    /// The episodes stored so far.
    #[must_use]
    pub fn stored(&self) -> &EpisodeReader {
        &self.stored
    }

    /// How many bytes of an unfinished episode were cut off when the store was opened.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Stores an episode, unless one of its id is stored: then nothing happens and `false` comes back.
    ///
    /// When this returns the episode outlives the process; [`sync`](Self::sync) and [`commit`](Self::commit) make it
    /// outlive a crash of the machine.
    ///
    /// # Errors
    /// If it cannot be written, holds a number that is not finite, or a segment's columns are not of one length.
    pub fn append(&mut self, record: &EpisodeRecord) -> Result<bool, StoreError> {
        if self.stored.contains(record.id) {
            return Ok(false);
        }
        if !record.segments.iter().all(is_even) {
            return Err(StoreError::Unstorable(record.id, "the columns of a segment are not of one length"));
        }
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(Journal::open(&journal_path(&self.folder, self.stored.next_number()), None)?),
        };
        journal.append(record)?;
        self.stored.ids.insert(record.id);
        self.stored.journalled.push(record.clone());
        Ok(true)
    }

    /// Makes the episodes so far outlive a crash of the machine.
    ///
    /// # Errors
    /// If the journal cannot be synced.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.journal.as_ref().map_or(Ok(()), Journal::sync)
    }

    /// Turns the journalled episodes into a Parquet part and says which; none when there are no such episodes.
    ///
    /// # Errors
    /// If the part cannot be written; the episodes then stay in the journal, and the next commit tries again.
    pub fn commit(&mut self) -> Result<Option<PathBuf>, StoreError> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let number = self.stored.next_number();
        let path = part_path(&self.folder, number);
        write_part(&path, &self.stored.journalled)?;
        // From here on the part holds the episodes; a journal that outlives a crash is seen to hold nothing new.
        let ids = self.stored.journalled.drain(..).map(|record| record.id).collect();
        self.stored.parts.push((number, ids));
        let spent = journal.path().to_owned();
        self.journal = None;
        remove(&spent)?;
        Ok(Some(path))
    }

    /// Forgets the episodes of which `gone` says so, as a run does that resumes from an older checkpoint: it will
    /// play and store them again. Returns how many they were. Safe to repeat after a crash.
    ///
    /// # Errors
    /// If a part cannot be read, rewritten or removed.
    pub fn discard(&mut self, gone: impl Fn(&EpisodeId) -> bool) -> Result<usize, StoreError> {
        let before = self.stored.len();
        // One home for each episode: with the journal empty, only parts are left to be looked at.
        self.commit()?;
        for (number, ids) in &self.stored.parts {
            if !ids.iter().any(&gone) {
                continue;
            }
            let path = part_path(&self.folder, *number);
            let mut kept = read_part(&path)?;
            kept.retain(|record| !gone(&record.id));
            if kept.is_empty() { remove(&path)? } else { write_part(&path, &kept)? }
        }
        self.stored = EpisodeReader::open(&self.folder)?;
        Ok(before - self.stored.len())
    }
}

impl EpisodeReader {
    /// The number of the next part.
    fn next_number(&self) -> u32 {
        self.parts.last().map_or(1, |(number, _)| number + 1)
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(|source| StoreError::io(path, source))
}
