//! Stores episodes exactly once: first in a journal, then in immutable Parquet parts.

mod cells;
mod columns;
mod entry;
mod journal;
mod old_record;
pub(crate) mod part;
pub(crate) mod reader;
mod sharing;
pub(crate) mod table;
pub(crate) mod wire;

use std::fs;
use std::path::{Path, PathBuf};

use gymkhana_record::{EpisodeId, EpisodeRecord};

use crate::StoreError;
use crate::episodes::entry::SerializedRecord;
use crate::episodes::journal::Journal;
use crate::episodes::part::{read_part, write_part};
use crate::episodes::reader::EpisodeReader;
use crate::names::{journal_path, part_path};

/// Writer of a run's episodes.
#[derive(Debug)]
pub struct EpisodeStore {
    folder: PathBuf,
    stored: EpisodeReader,
    /// Journal for appended episodes. `None` between a commit and the next append.
    journal: Option<Journal>,
    torn_bytes: u64,
    /// Largest size of a part, in bytes of the journal. A single larger episode gets a part of its own.
    part_bytes: u64,
    /// Bytes of the episodes in the journal, which are in memory as well.
    journalled_bytes: u64,
}

/// Default of `part_bytes`. Arrow's offsets of a text column have 31 bits, and a reader holds a whole part in memory.
const PART_BYTES: u64 = 256 << 20;

/// Bytes of journalled episodes above which they are committed early, so that their number does not bound memory.
const JOURNALLED_BYTES: u64 = 256 << 20;

impl EpisodeStore {
    /// Opens the folder of episodes and repairs it after a crash: cuts off torn frames and removes duplicates.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        let (stored, journals) = EpisodeReader::scan(folder)?;
        let journalled_bytes = stored.journalled.iter().map(|entry| entry.len() as u64).sum();
        let mut store = Self {
            folder: folder.to_owned(),
            stored,
            journal: None,
            torn_bytes: 0,
            part_bytes: PART_BYTES,
            journalled_bytes,
        };
        for found in journals {
            store.torn_bytes += found.torn;
            let path = journal_path(folder, found.number);
            if found.spent {
                remove(&path)?;
            } else if store.journal.is_some() {
                // The host creates the next journal only after it has removed the last, so two are the work of another
                // program.
                return Err(StoreError::Damaged { path, offset: 0, what: "the folder has two journals" });
            } else {
                store.journal = Some(Journal::open(&path, Some(found.end))?);
            }
        }
        Ok(store)
    }

    /// Reader of the episodes stored so far.
    #[must_use]
    pub fn stored(&self) -> &EpisodeReader {
        &self.stored
    }

    /// Number of bytes of unfinished episodes that were cut off when the store was opened.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Stores an episode and returns `true`. Returns `false` and stores nothing if its id is stored already.
    ///
    /// After the return, the episode survives the end of the process. It survives a crash of the machine after
    /// [`sync`](Self::sync) or [`commit`](Self::commit).
    ///
    /// # Errors
    /// If the journal or a part cannot be written, or the record holds a number that is not finite or exceeds 1 GiB.
    pub fn append(&mut self, record: &EpisodeRecord) -> Result<bool, StoreError> {
        if self.stored.contains(record.id) {
            return Ok(false);
        }
        let entry = SerializedRecord::new(record)?;
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(Journal::open(&journal_path(&self.folder, self.stored.next_number()), None)?),
        };
        journal.append(&entry)?;
        self.stored.ids.insert(record.id);
        self.journalled_bytes += entry.len() as u64;
        self.stored.journalled.push(entry);
        if self.journalled_bytes >= JOURNALLED_BYTES {
            self.commit()?;
        }
        Ok(true)
    }

    /// Stores and commits episodes, and returns the number of those that were not stored before.
    ///
    /// # Errors
    /// As [`append`](Self::append) and [`commit`](Self::commit).
    pub fn append_all(&mut self, records: &[EpisodeRecord]) -> Result<usize, StoreError> {
        let mut new = 0;
        for record in records {
            new += usize::from(self.append(record)?);
        }
        self.commit()?;
        Ok(new)
    }

    /// Flushes the journal to disk, so that the episodes so far survive a crash of the machine.
    ///
    /// # Errors
    /// If the journal cannot be synced.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.journal.as_ref().map_or(Ok(()), Journal::sync)
    }

    /// Moves the journalled episodes into Parquet parts and returns the paths of the parts. Very large steps need
    /// several parts; without journalled episodes the list is empty.
    ///
    /// # Errors
    /// If a part cannot be written; its episodes then stay in the journal, and the next commit tries again.
    pub fn commit(&mut self) -> Result<Vec<PathBuf>, StoreError> {
        let Some(journal) = &self.journal else { return Ok(vec![]) };
        let mut written = Vec::new();
        while !self.stored.journalled.is_empty() {
            let number = self.stored.next_number();
            let path = part_path(&self.folder, number);
            let count = fitting(&self.stored.journalled, self.part_bytes);
            write_part(&path, &self.stored.journalled[..count])?;
            // The part now holds these episodes. A journal that survives a crash here is recognised as a duplicate.
            let ids = self.stored.journalled.drain(..count).map(|entry| entry.record.id).collect();
            self.stored.parts.push((number, ids));
            written.push(path);
        }
        self.journalled_bytes = 0;
        let spent = journal.path().to_owned();
        self.journal = None;
        remove(&spent)?;
        Ok(written)
    }

    /// Removes the episodes for which `gone` returns true, and returns their number. A run that resumes from an older
    /// checkpoint plays and stores them again. Safe to repeat after a crash.
    ///
    /// # Errors
    /// If a part cannot be read, rewritten or removed.
    pub fn discard(&mut self, gone: impl Fn(&EpisodeId) -> bool) -> Result<usize, StoreError> {
        let before = self.stored.len();
        // With the journal empty, only parts have to be searched.
        self.commit()?;
        for (number, ids) in &self.stored.parts {
            if !ids.iter().any(&gone) {
                continue;
            }
            let path = part_path(&self.folder, *number);
            let mut kept = read_part(&path)?;
            kept.retain(|record| !gone(&record.id));
            let kept = kept.iter().map(SerializedRecord::new).collect::<Result<Vec<_>, _>>()?;
            if kept.is_empty() { remove(&path)? } else { write_part(&path, &kept)? }
        }
        self.stored = EpisodeReader::open(&self.folder)?;
        Ok(before - self.stored.len())
    }
}

/// Number of leading entries that fit into a part of `limit` bytes; at least one.
fn fitting(entries: &[SerializedRecord], limit: u64) -> usize {
    let sums = entries.iter().scan(0, |sum, entry| {
        *sum += entry.len() as u64;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= limit).count().max(1)
}

impl EpisodeReader {
    /// Number of the next part.
    fn next_number(&self) -> u32 {
        self.parts.last().map_or(1, |(number, _)| number + 1)
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    fs::remove_file(path).map_err(|source| StoreError::io(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    fn store(folder: &Path) -> EpisodeStore {
        EpisodeStore { part_bytes: 20_000, ..EpisodeStore::open(folder).unwrap() }
    }

    fn assert_holds(folder: &Path, count: u64) {
        let read: Vec<_> = EpisodeReader::open(folder).unwrap().read_all().map(Result::unwrap).collect();
        assert_eq!(read, (0..count).map(common::record).collect::<Vec<_>>());
    }

    #[test]
    fn many_bytes_become_several_parts() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = store(folder.path());
        for number in 0..60 {
            writer.append(&common::record(number)).unwrap();
        }
        let journal = fs::read(journal_path(folder.path(), 1)).unwrap();
        let parts = writer.commit().unwrap();
        assert!(parts.len() > 2, "{parts:?}");
        assert_holds(folder.path(), 60);
        assert!(read_part(&parts[0]).unwrap().len() > 1, "a part holds several episodes");
        // After a crash that follows the first part, the journal of the same number still holds the other episodes.
        parts[1..].iter().for_each(|part| remove(part).unwrap());
        fs::write(journal_path(folder.path(), 1), journal).unwrap();
        let mut again = store(folder.path());
        again.append(&common::record(60)).unwrap();
        assert!(again.commit().unwrap().len() >= parts.len() - 1);
        assert_holds(folder.path(), 61);
    }

    #[test]
    fn an_episode_larger_than_a_part_gets_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = EpisodeStore { part_bytes: 1, ..EpisodeStore::open(folder.path()).unwrap() };
        (0..3).for_each(|number| assert!(writer.append(&common::record(number)).unwrap()));
        assert_eq!(writer.commit().unwrap().len(), 3);
        assert_holds(folder.path(), 3);
    }
}
