//! Recorded episodes of runs, and those among them that meet a filter.

pub(crate) mod groups;

use std::path::{Path, PathBuf};

use gymkhana_config::{Recorder, RunFile};
use gymkhana_filter::{Episode, EpisodeNames, Filter};
use gymkhana_record::{Ending, EpisodeRecord};
use gymkhana_store::{EpisodeReader, RunReader};

use crate::error::{Classify, RunError, RunResult};

/// The program that recorded a folder without training; `None` for a run.
///
/// # Errors
/// If the run file cannot be read.
pub fn recorder(run: &RunReader) -> RunResult<Option<Recorder>> {
    Ok(run_file_of(run, &[])?.recorder)
}

/// The run file of a folder, with `--set key=value` laid over it.
///
/// # Errors
/// If it cannot be read, or contradicts itself with what is laid over it.
pub fn run_file_of(run: &RunReader, sets: &[String]) -> RunResult<RunFile> {
    let origin = run.path().join("run.toml").display().to_string();
    RunFile::parse_recorded(&run.run_text()?, &origin, sets).user_error()
}

/// A run whose episodes are read.
pub struct RecordedRun {
    path: PathBuf,
    /// The run file with its defaults.
    pub file: RunFile,
    /// The episodes stored so far.
    pub episodes: EpisodeReader,
}

impl RecordedRun {
    /// Opens the folder of a run, a server or a gateway.
    ///
    /// # Errors
    /// If it holds no run, or files that this host cannot read.
    pub fn open(path: &Path) -> RunResult<Self> {
        let run = RunReader::open(path)?;
        let file = run_file_of(&run, &[])?;
        Ok(Self { path: path.to_owned(), file, episodes: run.episodes()? })
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All episodes that were not dropped, in the order in which they were stored.
    pub fn records(&self) -> impl Iterator<Item = RunResult<EpisodeRecord>> + '_ {
        let records = self.episodes.read_all().map(|record| Ok(record?));
        records.filter(|record| record.as_ref().map_or(true, |record| record.ending != Ending::Dropped))
    }

    /// Whether an episode of the run meets a filter.
    #[must_use]
    pub fn meets(&self, record: &EpisodeRecord, filter: Option<&Filter>) -> bool {
        filter.is_none_or(|filter| filter.matches(self.episode(record)))
    }

    fn episode<'a>(&'a self, record: &'a EpisodeRecord) -> Episode<'a> {
        let stage = self.file.stages.get(record.id.stage as usize).map_or("", |stage| stage.name());
        Episode { record, stage }
    }
}

/// Reads the episodes of runs and counts those that meet a filter.
///
/// # Errors
/// If the filter names what no episode has, or an episode cannot be read.
pub fn count_matches(runs: &[RecordedRun], filter: &Filter) -> RunResult<usize> {
    let (mut seen, mut count) = (EpisodeNames::default(), 0);
    for run in runs {
        for record in run.records() {
            let record = record?;
            seen.add(run.episode(&record));
            count += usize::from(run.meets(&record, Some(filter)));
        }
    }
    filter.check(&seen).map_err(|unseen| {
        let hint = "correct the name; the episodes of these runs decide which names there are";
        RunError::user(format!("`{}`: {unseen}", filter.text())).with_hint(hint)
    })?;
    Ok(count)
}
