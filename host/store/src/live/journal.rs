//! The open journal of episodes in progress.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gymkhana_record::{Added, EpisodeId, EpisodeRecord};

use super::{Line, path_of};
use crate::StoreError;

/// Size in bytes after which the next file begins.
pub(super) const FILE_BYTES: u64 = 64 << 20;

/// The open journal.
#[derive(Debug)]
pub struct LiveJournal {
    root: PathBuf,
    pub(super) state: Mutex<JournalState>,
}

#[derive(Debug)]
pub(super) struct JournalState {
    number: u64,
    pub(super) file: File,
    /// Bytes of the whole lines in the file.
    pub(super) bytes: u64,
    /// Lines that could not be written yet, in their order.
    unwritten: VecDeque<Vec<u8>>,
    /// Unfinished episodes, by folder and id, with the number of the file in which each began.
    open: HashMap<(String, EpisodeId), u64>,
    /// Number of unfinished episodes that began in each file that exists.
    unfinished: BTreeMap<u64, u64>,
}

fn create(root: &Path, number: u64) -> Result<File, StoreError> {
    let path = path_of(root, number);
    let created = OpenOptions::new().create_new(true).append(true).open(&path);
    created.map_err(|source| StoreError::io(&path, source))
}

impl LiveJournal {
    /// An empty journal in a folder without one; [`recover`](super::recover) removes an earlier one.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(root: &Path) -> Result<Self, StoreError> {
        let state = JournalState {
            number: 0,
            file: create(root, 0)?,
            bytes: 0,
            unwritten: VecDeque::new(),
            open: HashMap::new(),
            unfinished: BTreeMap::from([(0, 0)]),
        };
        Ok(Self { root: root.to_owned(), state: Mutex::new(state) })
    }

    /// Writes the start of an episode: its record so far.
    ///
    /// # Errors
    /// If it cannot be written yet; see [`LiveJournal::flush`].
    pub fn began(&self, folder: &str, episode: &EpisodeRecord) -> Result<(), StoreError> {
        let line = Line::Began { folder: Cow::Borrowed(folder), episode: Cow::Borrowed(episode) };
        let line = self.encoded(&line)?;
        let mut state = self.state();
        let file = state.number;
        state.open.insert((folder.to_owned(), episode.id), file);
        *state.unfinished.entry(file).or_default() += 1;
        self.write(&mut state, line)
    }

    /// Writes what a turn added to an episode, which then survives the end of the process.
    ///
    /// # Errors
    /// If it cannot be written yet; see [`LiveJournal::flush`].
    pub fn added(&self, folder: &str, record: EpisodeId, added: &Added<'_>) -> Result<(), StoreError> {
        let line = self.encoded(&Line::Turn { folder: Cow::Borrowed(folder), record, added: Cow::Borrowed(added) })?;
        let mut state = self.state();
        if state.open.contains_key(&(folder.to_owned(), record)) { self.write(&mut state, line) } else { Ok(()) }
    }

    /// Writes that the record of an episode is stored, or that it will have none.
    ///
    /// # Errors
    /// If it cannot be written yet; see [`LiveJournal::flush`].
    pub fn ended(&self, folder: &str, record: EpisodeId) -> Result<(), StoreError> {
        let line = self.encoded(&Line::Ended { folder: Cow::Borrowed(folder), record })?;
        let mut state = self.state();
        if !state.close(&(folder.to_owned(), record)) {
            return Ok(());
        }
        self.write(&mut state, line)
    }

    /// Writes the lines that could not be written so far: they are kept, and every line is written behind those before it.
    ///
    /// # Errors
    /// If one still cannot be written.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.write_all(&mut self.state())
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encoded(&self, line: &Line<'_>) -> Result<Vec<u8>, StoreError> {
        let mut bytes = serde_json::to_vec(line).map_err(|source| StoreError::json(&self.root, source))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn write(&self, state: &mut JournalState, line: Vec<u8>) -> Result<(), StoreError> {
        state.unwritten.push_back(line);
        self.write_all(state)
    }

    fn write_all(&self, state: &mut JournalState) -> Result<(), StoreError> {
        while let Some(line) = state.unwritten.front() {
            let length = line.len() as u64;
            if state.bytes >= FILE_BYTES {
                self.begin_file(state)?;
                continue;
            }
            if let Err(source) = state.file.write_all(line) {
                // The part of a line that was written would damage the next one.
                let _ = state.file.set_len(state.bytes);
                return Err(StoreError::io(&path_of(&self.root, state.number), source));
            }
            state.bytes += length;
            state.unwritten.pop_front();
        }
        Ok(())
    }

    fn begin_file(&self, state: &mut JournalState) -> Result<(), StoreError> {
        let next = state.number + 1;
        state.file = create(&self.root, next)?;
        (state.number, state.bytes) = (next, 0);
        state.unfinished.insert(next, 0);
        self.remove_finished(state)
    }

    /// Removes the oldest files as long as no unfinished episode began in them.
    fn remove_finished(&self, state: &mut JournalState) -> Result<(), StoreError> {
        while let Some(oldest) = state.unfinished.first_entry() {
            if *oldest.key() == state.number || *oldest.get() > 0 {
                break;
            }
            let path = path_of(&self.root, *oldest.key());
            std::fs::remove_file(&path).map_err(|source| StoreError::io(&path, source))?;
            oldest.remove();
        }
        Ok(())
    }
}

impl JournalState {
    /// Ends an episode. Returns false if it is not open.
    fn close(&mut self, key: &(String, EpisodeId)) -> bool {
        let Some(file) = self.open.remove(key) else { return false };
        if let Some(unfinished) = self.unfinished.get_mut(&file) {
            *unfinished -= 1;
        }
        true
    }
}
