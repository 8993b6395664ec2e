//! A run that the page shows: its files, read again when they have changed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gymkhana_finding::Finding;
use gymkhana_health::{Health, HealthError};
use gymkhana_record::EpisodeId;
use gymkhana_store::{EpisodeTable, MetricsLine, RunReader, StageSummary, StoreError};
use serde::Deserialize;
use toml::{Table, Value};

use crate::error::{PageError, PageProblem};

/// Shortest time for which a table of episodes is not looked up again.
const TABLE_AGE: Duration = Duration::from_secs(1);
/// The same time as a multiple of what the last look-up took. It bounds the share of a processor that a page takes from a
/// run with a long journal, which is read as a whole.
const TABLE_REST: u32 = 20;
/// Longest such time.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Length and time of a file.
type FileVersion = Option<(u64, Option<SystemTime>)>;
/// Lines of `metrics.jsonl` with the stamp at which they were read.
type CachedLines = Option<(FileVersion, Arc<Vec<MetricsLine>>)>;

/// A table of episodes, and the time until which it is not looked up again.
struct CachedTable {
    table: EpisodeTable,
    fresh_until: Instant,
}

/// Figures of the episodes, and the time until which they are not read again.
struct CachedHealth {
    findings: Arc<Vec<Finding>>,
    fresh_until: Instant,
}

/// A run.
pub(crate) struct ShownRun {
    /// Position among the runs, which addresses name.
    pub index: usize,
    /// Name for people: the folder's name, or its path if another run has the same one.
    pub name: String,
    /// Read access to the folder.
    pub reader: RunReader,
    table: Mutex<Option<CachedTable>>,
    health: Mutex<Option<CachedHealth>>,
    metrics: Mutex<CachedLines>,
}

impl ShownRun {
    /// Opens runs.
    pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Self>, PageError> {
        for (place, path) in paths.iter().enumerate() {
            if paths[..place].contains(path) {
                return Err(PageError::Twice(path.clone()));
            }
        }
        let names: Vec<String> = paths.iter().map(|path| short_name(path)).collect();
        let open = |(index, path): (usize, &PathBuf)| {
            let is_unique = names.iter().filter(|name| **name == names[index]).count() == 1;
            let name = if is_unique { names[index].clone() } else { path.display().to_string() };
            let reader = RunReader::open(path)?;
            Ok(Self {
                index,
                name,
                reader,
                table: Mutex::new(None),
                health: Mutex::new(None),
                metrics: Mutex::new(None),
            })
        };
        paths.iter().enumerate().map(open).collect()
    }

    /// Address of the run's pages, without a slash at its end.
    pub fn path(&self) -> String {
        format!("/runs/{}", self.index)
    }

    /// Address of an episode's page.
    pub fn episode_path(&self, id: EpisodeId) -> String {
        format!("/runs/{}/episodes/{id}", self.index)
    }

    /// Address of the page of an episode's group.
    pub fn group_path(&self, id: EpisodeId) -> String {
        format!("/runs/{}/groups/{}", self.index, group_name(id))
    }

    /// The episodes stored so far.
    pub fn table(&self) -> Result<EpisodeTable, StoreError> {
        let mut cached = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        let table = match cached.as_ref() {
            Some(known) if start < known.fresh_until => return Ok(known.table.clone()),
            Some(known) => known.table.refreshed()?,
            None => self.reader.episode_table()?,
        };
        *cached = Some(CachedTable { table: table.clone(), fresh_until: fresh_until(start) });
        Ok(table)
    }

    /// A finding of each check of the run's health.
    pub fn health(&self) -> Result<Arc<Vec<Finding>>, HealthError> {
        let mut cached = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        if let Some(known) = cached.as_ref().filter(|known| start < known.fresh_until) {
            return Ok(Arc::clone(&known.findings));
        }
        let findings = Arc::new(Health::read(&self.reader)?.findings());
        *cached = Some(CachedHealth { findings: Arc::clone(&findings), fresh_until: fresh_until(start) });
        Ok(findings)
    }

    /// Lines of `metrics.jsonl`.
    pub fn metrics(&self) -> Result<Arc<Vec<MetricsLine>>, StoreError> {
        let now = stamp(&self.reader.path().join("metrics.jsonl"));
        let mut cached = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lines)) = cached.as_ref().filter(|(read, _)| *read == now) {
            return Ok(Arc::clone(lines));
        }
        let lines = Arc::new(self.reader.metrics()?);
        *cached = Some((now, Arc::clone(&lines)));
        Ok(lines)
    }

    /// The resolved run file.
    pub fn file(&self) -> Result<Table, PageProblem> {
        let text = self.reader.run_text()?;
        toml::from_str(&text).map_err(|source| PageProblem::RunFile { run: self.name.clone(), source })
    }

    /// Names of the stages, in order; a stage without a name has its kind.
    pub fn stages(&self) -> Vec<String> {
        let Ok(file) = self.file() else { return vec![] };
        let stages = file.get("stages").and_then(Value::as_array);
        let name = |stage: &Value| {
            let text = |key: &str| stage.get(key).and_then(Value::as_str);
            text("name").or_else(|| text("kind")).unwrap_or("stage").to_owned()
        };
        stages.map(|stages| stages.iter().map(name).collect()).unwrap_or_default()
    }

    /// Stages that have ended: those of the summary, or of the state of a run that goes on or was stopped.
    pub fn finished_stages(&self) -> Result<Vec<StageSummary>, StoreError> {
        if let Some(summary) = self.reader.summary()? {
            return Ok(summary.stages);
        }
        // A state of another version has no results that this page knows.
        let state = self.reader.state::<ShownState>().ok().flatten();
        Ok(state.map(|state| state.progress.finished).unwrap_or_default())
    }

    /// What a change of the run changes: lengths and times of the files that grow or are replaced.
    pub fn pulse(&self) -> Pulse {
        let folder = self.reader.path();
        let mut files = HashMap::new();
        for name in ["metrics.jsonl", "state.json", "summary.json"] {
            files.insert(PathBuf::from(name), stamp(&folder.join(name)));
        }
        for entry in fs::read_dir(folder.join("episodes")).into_iter().flatten().flatten() {
            files.insert(entry.path(), stamp(&entry.path()));
        }
        Pulse(files)
    }
}

/// End of the time for which what was read since `start` is not read again.
fn fresh_until(start: Instant) -> Instant {
    let now = Instant::now();
    now + ((now - start) * TABLE_REST).clamp(TABLE_AGE, MAX_AGE)
}

/// The part of a run's state that the page shows.
#[derive(Deserialize)]
struct ShownState {
    progress: RunProgress,
}

/// Results of the stages that have ended.
#[derive(Deserialize)]
struct RunProgress {
    finished: Vec<StageSummary>,
}

/// State of a run's files at one moment.
#[derive(PartialEq, Eq)]
pub(crate) struct Pulse(HashMap<PathBuf, FileVersion>);

/// Name of an episode's group: `1.train.12.3`.
pub(crate) fn group_name(id: EpisodeId) -> String {
    format!("{}.{}.{}.{}", id.stage, id.phase.word(), id.step, id.group)
}

/// The first member of the group of this name.
pub(crate) fn first_of_group(name: &str) -> Option<EpisodeId> {
    format!("{name}.0.0").parse().ok()
}

fn stamp(path: &Path) -> FileVersion {
    fs::metadata(path).ok().map(|found| (found.len(), found.modified().ok()))
}

/// Last component of a path.
fn short_name(path: &Path) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    absolute.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
