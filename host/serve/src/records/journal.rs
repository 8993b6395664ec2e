//! The journal of episodes in progress: what a killed server leaves of them.
//!
//! Each event is one line of JSON, which is written with one call of the system before the client gets its answer: the end
//! of the process loses at most the turn in progress, and a last line that is not whole is that turn. Lines go to numbered
//! files. A file is removed once every episode that began in it or before it has ended.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gymkhana_record::{EpisodeId, Exchange, Failure, NamedValue, Opening, Seed, TaskRef, Turn};
use serde::{Deserialize, Serialize};

/// Prefix and suffix of the files' names.
const NAME: (&str, &str) = ("live-", ".jsonl");

/// Size in bytes after which the next file begins.
const FILE_BYTES: u64 = 64 << 20;

/// The start of an episode.
#[derive(Debug, Serialize)]
pub(crate) struct Began<'a> {
    /// Name of the folder of records.
    pub(crate) folder: &'a str,
    pub(crate) record: EpisodeId,
    pub(crate) task: &'a TaskRef,
    pub(crate) seed: Seed,
    pub(crate) opening: &'a Opening,
    /// The first observations, as turns.
    pub(crate) turns: &'a [Turn],
}

/// What one turn added.
#[derive(Debug, Serialize)]
pub(crate) struct Progress<'a> {
    pub(crate) folder: &'a str,
    pub(crate) record: EpisodeId,
    pub(crate) turns: &'a [Turn],
    /// Rewards of each seat, one number for each step that the turn took.
    pub(crate) rewards: Vec<&'a [f64]>,
    pub(crate) extras: &'a [NamedValue],
    pub(crate) failures: &'a [Failure],
    pub(crate) exchanges: &'a [Exchange],
}

/// A line of the journal.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum Line<'a> {
    Began(&'a Began<'a>),
    Turn(&'a Progress<'a>),
    Ended { folder: &'a str, record: EpisodeId },
}

/// A line as it is read back.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(super) enum ReadLine {
    /// [`Began`].
    Began { folder: String, record: EpisodeId, task: TaskRef, seed: Seed, opening: Opening, turns: Vec<Turn> },
    /// [`Progress`].
    Turn {
        folder: String,
        record: EpisodeId,
        turns: Vec<Turn>,
        rewards: Vec<Vec<f64>>,
        extras: Vec<NamedValue>,
        failures: Vec<Failure>,
        exchanges: Vec<Exchange>,
    },
    /// The record is stored.
    Ended { folder: String, record: EpisodeId },
}

/// The open journal.
pub(super) struct Journal {
    root: PathBuf,
    state: Mutex<JournalState>,
}

struct JournalState {
    number: u64,
    file: File,
    bytes: u64,
    /// Number of the file in which each unfinished episode began, by folder and id.
    began: HashMap<(String, EpisodeId), u64>,
    /// Number of unfinished episodes that began in each file that exists.
    unfinished: BTreeMap<u64, u64>,
}

/// Paths of the journal's files in a folder, in their order.
pub(super) fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()).and_then(number_of);
        found.extend(number.map(|number| (number, path)));
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?.parse().ok()
}

fn path_of(root: &Path, number: u64) -> PathBuf {
    root.join(format!("{}{number}{}", NAME.0, NAME.1))
}

fn create(root: &Path, number: u64) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).open(path_of(root, number))
}

impl Journal {
    /// An empty journal in a folder without one.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        let state = JournalState {
            number: 0,
            file: create(root, 0)?,
            bytes: 0,
            began: HashMap::new(),
            unfinished: BTreeMap::from([(0, 0)]),
        };
        Ok(Self { root: root.to_owned(), state: Mutex::new(state) })
    }

    pub(super) fn began(&self, began: &Began<'_>) -> Result<(), String> {
        let line = encoded(&Line::Began(began))?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let number = state.number;
        state.began.insert((began.folder.to_owned(), began.record), number);
        *state.unfinished.entry(number).or_default() += 1;
        self.write(&mut state, &line)
    }

    pub(super) fn progressed(&self, progress: &Progress<'_>) -> Result<(), String> {
        let line = encoded(&Line::Turn(progress))?;
        self.write(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), &line)
    }

    pub(super) fn ended(&self, folder: &str, record: EpisodeId) -> Result<(), String> {
        let line = encoded(&Line::Ended { folder, record })?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(number) = state.began.remove(&(folder.to_owned(), record)) else { return Ok(()) };
        if let Some(unfinished) = state.unfinished.get_mut(&number) {
            *unfinished -= 1;
        }
        self.write(&mut state, &line)
    }

    fn write(&self, state: &mut JournalState, line: &[u8]) -> Result<(), String> {
        let cannot = |error: io::Error| format!("the journal in `{}` cannot be written: {error}", self.root.display());
        state.file.write_all(line).map_err(cannot)?;
        state.bytes += line.len() as u64;
        if state.bytes >= FILE_BYTES {
            state.number += 1;
            state.file = create(&self.root, state.number).map_err(cannot)?;
            state.bytes = 0;
            state.unfinished.insert(state.number, 0);
            self.remove_finished(state).map_err(cannot)?;
        }
        Ok(())
    }

    /// Removes the oldest files as long as no unfinished episode began in them.
    fn remove_finished(&self, state: &mut JournalState) -> io::Result<()> {
        while let Some(oldest) = state.unfinished.first_entry() {
            if *oldest.key() == state.number || *oldest.get() > 0 {
                break;
            }
            std::fs::remove_file(path_of(&self.root, *oldest.key()))?;
            oldest.remove();
        }
        Ok(())
    }
}

fn encoded(line: &Line<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = serde_json::to_vec(line).map_err(|error| format!("a turn cannot be written: {error}"))?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Phase;

    use super::*;

    fn id(group: u32) -> EpisodeId {
        EpisodeId { stage: 0, phase: Phase::Served, step: 0, group, member: 0, attempt: 0 }
    }

    #[test]
    fn files_are_removed_once_their_episodes_have_ended() {
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::create(root.path()).unwrap();
        let (task, opening) = (TaskRef { split: "train".to_owned(), index: 0 }, Opening::default());
        let begin = |group| {
            let (record, seed) = (id(group), Seed(0));
            let began = Began { folder: "e", record, task: &task, seed, opening: &opening, turns: &[] };
            journal.began(&began).unwrap();
        };
        let next_file = || journal.state.lock().unwrap().bytes = FILE_BYTES;
        begin(0);
        next_file();
        begin(1);
        assert_eq!(files(root.path()).unwrap().len(), 2);
        journal.ended("e", id(0)).unwrap();
        next_file();
        // The second episode began at the end of the first file.
        begin(2);
        assert_eq!(files(root.path()).unwrap().len(), 3);
        journal.ended("e", id(1)).unwrap();
        next_file();
        begin(3);
        let left: Vec<_> = files(root.path()).unwrap();
        assert_eq!(left, [path_of(root.path(), 1), path_of(root.path(), 2), path_of(root.path(), 3)]);
        journal.ended("e", id(1)).unwrap();
    }
}
