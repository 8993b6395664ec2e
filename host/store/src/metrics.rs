//! Metrics of a run per step: lines of `metrics.jsonl`, and the same numbers as TensorBoard events.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_record::StepMetrics;
use gymkhana_registry::{Digest, read_regular_file};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::StoreError;
use crate::fs::{names_in, write};
use crate::names::METRICS_FILE;
use crate::tensorboard::EventFile;

/// Schema number of the lines.
pub const METRICS_SCHEMA: u32 = 1;

const TENSORBOARD: &str = "tensorboard";

/// One line: metrics of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsLine {
    /// [`METRICS_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Index of the stage in the run file, from 0.
    pub stage: u32,
    /// Step within the stage.
    pub step: u64,
    /// Time of writing, in seconds since 1970.
    pub time: f64,
    /// Values by name; `null` for a number that is not finite.
    pub values: Map<String, Value>,
}

/// The first lines of `metrics.jsonl`. By default none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsExtent {
    /// Length of the lines in bytes.
    pub bytes: u64,
    /// Digest of the lines.
    pub digest: Digest,
}

impl MetricsExtent {
    fn of(lines: &[u8]) -> Self {
        Self { bytes: lines.len() as u64, digest: Digest::of(lines) }
    }
}

impl Default for MetricsExtent {
    fn default() -> Self {
        Self::of(&[])
    }
}

/// Writer of a run's metrics.
#[derive(Debug)]
pub struct Metrics {
    run: PathBuf,
    lines: File,
    /// Length of the lines in bytes.
    bytes: u64,
    /// Hasher of the lines.
    hasher: Sha256,
    /// Event file for TensorBoard and the stage that it belongs to.
    events: Option<(u32, EventFile)>,
}

impl Metrics {
    /// Opens the metrics of the run in this folder and cuts off an incomplete last line.
    pub(crate) fn open(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(METRICS_FILE);
        let whole = whole_lines(&path)?;
        let bytes = whole.len() as u64;
        let failed = |source| StoreError::io(&path, source);
        let lines = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        lines.set_len(bytes).map_err(failed)?;
        Ok(Self { run: run.to_owned(), lines, bytes, hasher: Sha256::new_with_prefix(&whole), events: None })
    }

    /// The lines written so far.
    #[must_use]
    pub fn extent(&self) -> MetricsExtent {
        MetricsExtent { bytes: self.bytes, digest: Digest::from_hasher(self.hasher.clone()) }
    }

    /// Writes the metrics of one step and flushes them to disk.
    ///
    /// # Errors
    /// If a file cannot be written. An incomplete line is cut off when the metrics are opened again.
    pub fn append(&mut self, stage: u32, step: u64, values: &StepMetrics) -> Result<(), StoreError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = since.as_secs_f64();
        let line = MetricsLine {
            schema: METRICS_SCHEMA,
            stage,
            step,
            time,
            values: values.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect(),
        };
        let path = self.run.join(METRICS_FILE);
        let mut text = serde_json::to_string(&line).map_err(|source| StoreError::json(&path, source))?;
        text.push('\n');
        let written = self.lines.write_all(text.as_bytes()).and_then(|()| self.lines.sync_data());
        written.map_err(|source| StoreError::io(&path, source))?;
        self.bytes += text.len() as u64;
        self.hasher.update(&text);
        let folder = stage_folder(&self.run, stage);
        let failed = |source| StoreError::io(&folder, source);
        let file = match &mut self.events {
            Some((of, file)) if *of == stage => file,
            other => {
                fs::create_dir_all(&folder).map_err(failed)?;
                // TensorBoard reads a folder's files in the order of their names.
                let name = format!("events.out.tfevents.{:010}.{:09}.gymkhana", since.as_secs(), since.subsec_nanos());
                let file = EventFile::create(&folder.join(name), time, step).map_err(failed)?;
                &mut other.insert((stage, file)).1
            }
        };
        file.scalars(time, step, &values.iter().collect::<Vec<_>>()).map_err(failed)
    }

    /// Removes the lines after `kept`, and the TensorBoard events of the stages after `stage`. A resumed run repeats
    /// them.
    ///
    /// # Errors
    /// If the kept lines differ from their digest, or the files cannot be read or rewritten.
    pub fn rewind(&mut self, stage: u32, kept: &MetricsExtent) -> Result<(), StoreError> {
        let path = self.run.join(METRICS_FILE);
        write(&path, &verified(&path, kept)?)?;
        // The next event file of this stage tells TensorBoard which points to drop. Later stages start with new
        // folders.
        let board = self.run.join(TENSORBOARD);
        if board.is_dir() {
            for name in names_in(&board)? {
                if name.strip_prefix("stage-").and_then(|number| number.parse().ok()).is_some_and(|it: u32| it > stage)
                {
                    let later = board.join(name);
                    fs::remove_dir_all(&later).map_err(|source| StoreError::io(&later, source))?;
                }
            }
        }
        *self = Self::open(&self.run)?;
        Ok(())
    }
}

fn stage_folder(run: &Path, stage: u32) -> PathBuf {
    run.join(TENSORBOARD).join(format!("stage-{stage}"))
}

/// Reads the complete lines.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<MetricsLine>, StoreError> {
    parsed_lines(path, &whole_lines(path)?)
}

/// Reads the lines of an extent; none if the file is empty or does not exist.
pub(crate) fn lines_before(path: &Path, extent: &MetricsExtent) -> Result<Vec<MetricsLine>, StoreError> {
    parsed_lines(path, &verified(path, extent)?)
}

/// Bytes of an extent, after verifying its digest. Empty if the file is empty or does not exist, because users may move
/// it away.
fn verified(path: &Path, extent: &MetricsExtent) -> Result<Vec<u8>, StoreError> {
    let mut bytes = read(path)?;
    if !bytes.is_empty() {
        bytes.truncate(usize::try_from(extent.bytes).unwrap_or(usize::MAX));
        if MetricsExtent::of(&bytes) != *extent {
            let what = "its lines before the last checkpoint do not match the digest in state.json";
            return Err(StoreError::Altered { path: path.to_owned(), what });
        }
    }
    Ok(bytes)
}

/// Bytes of the file; empty if it does not exist.
fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    match read_regular_file(path) {
        Ok(bytes) => Ok(bytes),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(StoreError::io(path, source)),
    }
}

/// Bytes of the file up to its last line end.
fn whole_lines(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = read(path)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    bytes.truncate(end);
    Ok(bytes)
}

fn parsed_lines(path: &Path, bytes: &[u8]) -> Result<Vec<MetricsLine>, StoreError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    let json = |source| StoreError::json(path, source);
    let parsed = bytes.split_inclusive(|byte| *byte == b'\n').map(|text| {
        let Schema { schema: found } = serde_json::from_slice(text).map_err(json)?;
        if found != METRICS_SCHEMA {
            return Err(StoreError::Schema { path: path.to_owned(), found, known: METRICS_SCHEMA });
        }
        serde_json::from_slice(text).map_err(json)
    });
    parsed.collect()
}
