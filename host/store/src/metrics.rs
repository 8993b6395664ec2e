//! Metrics of a run per step: lines of `metrics.jsonl`, and the same numbers as TensorBoard events.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::StoreError;
use crate::fs::{names_in, write};
use crate::tensorboard::EventFile;

/// Schema number of the lines.
pub const METRICS_SCHEMA: u32 = 1;

pub(crate) const METRICS_FILE: &str = "metrics.jsonl";
const TENSORBOARD: &str = "tensorboard";

/// One line: metrics of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// Writer of a run's metrics.
#[derive(Debug)]
pub struct Metrics {
    run: PathBuf,
    lines: File,
    /// Event file for TensorBoard and the stage that it belongs to.
    events: Option<(u32, EventFile)>,
}

impl Metrics {
    /// Opens the metrics of the run in this folder and cuts off an incomplete last line.
    pub(crate) fn open(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(METRICS_FILE);
        let whole = whole_lines(&path)?.len() as u64;
        let failed = |source| StoreError::io(&path, source);
        let lines = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        lines.set_len(whole).map_err(failed)?;
        Ok(Self { run: run.to_owned(), lines, events: None })
    }

    /// Writes the metrics of one step and flushes them to disk.
    ///
    /// # Errors
    /// If a file cannot be written. An incomplete line is cut off when the metrics are opened again.
    pub fn append(&mut self, stage: u32, step: u64, values: &[(&str, f64)]) -> Result<(), StoreError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = since.as_secs_f64();
        let line = MetricsLine {
            schema: METRICS_SCHEMA,
            stage,
            step,
            time,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect(),
        };
        let path = self.run.join(METRICS_FILE);
        let mut text = serde_json::to_string(&line).map_err(|source| StoreError::json(&path, source))?;
        text.push('\n');
        let written = self.lines.write_all(text.as_bytes()).and_then(|()| self.lines.sync_data());
        written.map_err(|source| StoreError::io(&path, source))?;
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
        file.scalars(time, step, values).map_err(failed)
    }

    /// Removes the metrics of this step, of later steps and of later stages. A resumed run repeats them.
    ///
    /// # Errors
    /// If the files cannot be read or rewritten.
    pub fn rewind_before(&mut self, stage: u32, step: u64) -> Result<(), StoreError> {
        let path = self.run.join(METRICS_FILE);
        let mut kept = Vec::new();
        for (text, line) in parsed_lines(&path, &whole_lines(&path)?)? {
            if (line.stage, line.step) < (stage, step) {
                kept.extend_from_slice(text);
            }
        }
        write(&path, &kept)?;
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
    Ok(parsed_lines(path, &whole_lines(path)?)?.into_iter().map(|(_, line)| line).collect())
}

/// Bytes of the file up to its last line end. Empty if the file does not exist.
fn whole_lines(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(StoreError::io(path, source)),
    };
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    bytes.truncate(end);
    Ok(bytes)
}

fn parsed_lines<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], MetricsLine)>, StoreError> {
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
        Ok((text, serde_json::from_slice(text).map_err(json)?))
    });
    parsed.collect()
}
