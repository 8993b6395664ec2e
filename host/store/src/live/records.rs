//! Records of episodes that are served: turns in a journal, records in their folders, and what a full disk refuses.
//!
//! What cannot be written is kept and written as soon as there is room. Until then the owner sends no answer that promises
//! it and begins nothing new; [`LiveRecords::problem`] is the reason, which is reported when it begins and when it ends.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gymkhana_record::{Added, EpisodeId, EpisodeRecord};

use super::LiveJournal;
use crate::StoreError;

/// Bytes that must find room before records count as writable again.
const ROOM: usize = 256 << 10;
/// The file that looks for room.
const ROOM_FILE: &str = ".room";

/// Appends a record to its folder.
pub type Append = Box<dyn Fn(&EpisodeRecord) -> Result<(), StoreError> + Send>;

/// Receiver of the reason why records cannot be written, and of `None` when they can be again.
pub type ReportWrites = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// The records of served episodes.
pub struct LiveRecords {
    root: PathBuf,
    journal: LiveJournal,
    unstored: Mutex<Vec<Unstored>>,
    problem: Mutex<Option<String>>,
    report: ReportWrites,
}

/// A record that could not be stored yet.
struct Unstored {
    folder: String,
    record: EpisodeRecord,
    append: Append,
}

impl LiveRecords {
    /// Records with an empty journal in a folder without one.
    ///
    /// # Errors
    /// If the journal cannot be created.
    pub fn create(root: &Path, report: ReportWrites) -> Result<Self, StoreError> {
        Ok(Self {
            root: root.to_owned(),
            journal: LiveJournal::create(root)?,
            unstored: Mutex::default(),
            problem: Mutex::default(),
            report,
        })
    }

    /// Notes the start of an episode: its record so far. Returns whether it is written.
    pub fn began(&self, folder: &str, episode: &EpisodeRecord) -> bool {
        self.note(self.journal.began(folder, episode))
    }

    /// Notes what a turn added to an episode, which then survives the end of the process. Returns whether it is written.
    pub fn added(&self, folder: &str, episode: EpisodeId, added: &Added<'_>) -> bool {
        self.note(self.journal.added(folder, episode, added))
    }

    /// Notes the end of an episode without a record. Returns whether it is written.
    pub fn ended(&self, folder: &str, episode: EpisodeId) -> bool {
        self.note(self.journal.ended(folder, episode))
    }

    /// Stores the record of an episode, and notes its end. Returns whether it is written.
    pub fn store(&self, folder: &str, record: EpisodeRecord, append: Append) -> bool {
        let stored = self.note(append(&record));
        if !stored {
            self.unstored().push(Unstored { folder: folder.to_owned(), record, append });
            return false;
        }
        self.ended(folder, record.id)
    }

    /// Writes what could not be written so far. Returns whether nothing is left and there is room.
    pub fn flush(&self) -> bool {
        let is_written = self.note(self.write_rest());
        if is_written && self.problem_mut().take().is_some() {
            (self.report)(None);
        }
        is_written
    }

    /// Why records cannot be written now.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem_mut().clone()
    }

    fn write_rest(&self) -> Result<(), StoreError> {
        if self.problem_mut().is_some() {
            self.find_room()?;
        }
        self.journal.flush()?;
        let mut unstored = self.unstored();
        while let Some(Unstored { folder, record, append }) = unstored.last() {
            append(record)?;
            self.journal.ended(folder, record.id)?;
            unstored.pop();
        }
        Ok(())
    }

    fn find_room(&self) -> Result<(), StoreError> {
        let path = self.root.join(ROOM_FILE);
        let found = fs::write(&path, vec![0; ROOM]).map_err(|source| StoreError::io(&path, source));
        // It may not exist.
        let _ = fs::remove_file(&path);
        found
    }

    /// Keeps the reason of the first failure. Returns whether there was none.
    fn note(&self, written: Result<(), StoreError>) -> bool {
        let Err(error) = written else { return true };
        let mut problem = self.problem_mut();
        if problem.is_none() {
            let text = error.to_string();
            (self.report)(Some(&text));
            *problem = Some(text);
        }
        false
    }

    fn unstored(&self) -> MutexGuard<'_, Vec<Unstored>> {
        self.unstored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn problem_mut(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LiveRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRecords")
            .field("root", &self.root)
            .field("problem", &self.problem())
            .finish_non_exhaustive()
    }
}
