//! A table of a run's episodes: a short row of each in memory, and records read on demand, one row of Parquet at a time.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Segment};
use gymkhana_registry::open_regular_file;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::file::metadata::PageIndexPolicy;

use crate::StoreError;
use crate::episodes::cells::{BoxError, text};
use crate::episodes::journal;
use crate::episodes::part::{decode_outline, decode_row, read_columns};
use crate::episodes::reader::{numbers_of_journals, numbers_of_parts};
use crate::episodes::sharing::SharedPrefix;
use crate::names::{journal_path, part_path};

/// Columns of a part that a row is made of.
const COLUMNS: [&str; 8] = ["id", "task_split", "task_index", "ending", "success", "reward", "calls", "sampled_tokens"];
/// Columns of a part that an outline is made of.
const OUTLINE: [&str; 2] = ["transcript", "record"];

/// Row of an episode: the values to filter and sort by.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeRow {
    /// The episode.
    pub id: EpisodeId,
    /// Split of its task.
    pub split: Arc<str>,
    /// Index of its task in the split.
    pub task: u64,
    /// Reason why it ended.
    pub ending: Ending,
    /// Whether it met the run's success rule.
    pub success: bool,
    /// Total reward of the first seat; `None` without rewards.
    pub reward: Option<f64>,
    /// Number of calls of all seats.
    pub calls: u64,
    /// Number of sampled tokens of all seats.
    pub sampled_tokens: u64,
}

impl EpisodeRow {
    fn of(record: &EpisodeRecord, split: Arc<str>) -> Self {
        Self {
            id: record.id,
            split,
            task: record.task.index,
            ending: record.ending,
            success: record.success,
            reward: record.rewards.first().copied(),
            calls: record.calls() as u64,
            sampled_tokens: record.sampled_tokens() as u64,
        }
    }
}

/// Size and time of a file. A file that differs in either is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl FileStamp {
    /// Stamp of a file; `None` if it does not exist.
    fn of(path: &Path) -> Result<Option<Self>, StoreError> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(Self { bytes: found.len(), modified: found.modified().ok() })),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::io(path, source)),
        }
    }
}

/// Source of the records behind rows.
#[derive(Debug)]
enum RowSource {
    /// A part, with its footer and its index of pages.
    Part(ArrowReaderMetadata),
    /// A journal, whose records are in memory.
    Journal(Vec<EpisodeRecord>),
}

/// Rows of one file.
#[derive(Debug)]
struct Rows {
    path: PathBuf,
    stamp: FileStamp,
    source: RowSource,
    rows: Vec<EpisodeRow>,
}

/// Episodes of a run at one moment, in the order in which they were stored. Rows are addressed by their position.
///
/// About 100 bytes per episode of the parts are in memory; a clone shares them.
#[derive(Debug, Clone)]
pub struct EpisodeTable {
    folder: PathBuf,
    files: Vec<Arc<Rows>>,
    /// Position of each file's first row.
    starts: Vec<usize>,
    len: usize,
}

impl EpisodeTable {
    /// Reads the rows of all episodes in a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        Self { folder: folder.to_owned(), files: vec![], starts: vec![], len: 0 }.refreshed()
    }

    /// The table as it is now. Only files that changed are read.
    ///
    /// # Errors
    /// If a file of episodes is damaged or newer than this host.
    pub fn refreshed(&self) -> Result<Self, StoreError> {
        let mut files = Vec::new();
        // Journals first: episodes that move into a part in the meantime are then found twice, and not missed.
        let mut journals = Vec::new();
        for number in numbers_of_journals(&self.folder)? {
            let path = journal_path(&self.folder, number);
            let Some(stamp) = FileStamp::of(&path)? else { continue };
            if let Some(rows) =
                self.known(&path, stamp).map_or_else(|| read_journal(path, stamp), |rows| Ok(Some(rows)))?
            {
                journals.push(rows);
            }
        }
        for number in numbers_of_parts(&self.folder)? {
            let path = part_path(&self.folder, number);
            let Some(stamp) = FileStamp::of(&path)? else { continue };
            files.push(self.known(&path, stamp).map_or_else(|| read_part_rows(path, stamp), Ok)?);
        }
        for journal in journals {
            let journal = without_stored(journal, &files);
            files.extend(journal);
        }
        let (mut starts, mut len) = (Vec::with_capacity(files.len()), 0);
        for file in &files {
            starts.push(len);
            len += file.rows.len();
        }
        Ok(Self { folder: self.folder.clone(), files, starts, len })
    }

    /// Rows that were read from this file when it had this stamp.
    fn known(&self, path: &Path, stamp: FileStamp) -> Option<Arc<Rows>> {
        self.files.iter().find(|file| file.path == path && file.stamp == stamp).cloned()
    }

    /// Number of episodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the run has zero episodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All rows, in the order of their positions.
    pub fn rows(&self) -> impl Iterator<Item = &EpisodeRow> {
        self.files.iter().flat_map(|file| &file.rows)
    }

    /// Row at a position.
    #[must_use]
    pub fn row(&self, position: usize) -> Option<&EpisodeRow> {
        let (file, place) = self.place(position)?;
        file.rows.get(place)
    }

    /// Position of an episode.
    #[must_use]
    pub fn position(&self, id: EpisodeId) -> Option<usize> {
        self.rows().position(|row| row.id == id)
    }

    fn place(&self, position: usize) -> Option<(&Arc<Rows>, usize)> {
        let at = self.starts.partition_point(|start| *start <= position).checked_sub(1)?;
        // Files without rows share their start with the next one, which the partition point prefers.
        Some((self.files.get(at)?, position - self.starts.get(at)?))
    }

    /// Reads the record at a position.
    ///
    /// # Errors
    /// If the table has no such position, or its file cannot be read or was changed.
    pub fn record(&self, position: usize) -> Result<Option<EpisodeRecord>, StoreError> {
        let Some((file, place)) = self.place(position).filter(|(file, place)| *place < file.rows.len()) else {
            return Ok(None);
        };
        match &file.source {
            RowSource::Journal(records) => Ok(records.get(place).cloned()),
            RowSource::Part(metadata) => read_row(file, metadata, place).map(Some),
        }
    }

    /// Reads records without their segments and, of forks, without the turns that the parent's row holds; in the order of
    /// the positions. Positions outside of the table are left out.
    ///
    /// # Errors
    /// If a file cannot be read or was changed.
    pub fn outlines(&self, positions: &[usize]) -> Result<Vec<(usize, EpisodeRecord)>, StoreError> {
        let mut found: Vec<(usize, EpisodeRecord)> = Vec::with_capacity(positions.len());
        for (at, file) in self.files.iter().enumerate() {
            let start = self.starts[at];
            let mut places: Vec<usize> = positions
                .iter()
                .filter_map(|position| position.checked_sub(start))
                .filter(|place| *place < file.rows.len())
                .collect();
            places.sort_unstable();
            places.dedup();
            if places.is_empty() {
                continue;
            }
            let records = match &file.source {
                RowSource::Journal(records) => {
                    places.iter().filter_map(|place| records.get(*place)).map(outline).collect()
                }
                RowSource::Part(metadata) => read_outlines(file, metadata, &places)?,
            };
            found.extend(places.into_iter().map(|place| start + place).zip(records));
        }
        let order = |position: usize| positions.iter().position(|wanted| *wanted == position);
        found.sort_by_key(|(position, _)| order(*position));
        Ok(found)
    }
}

/// A record without its segments.
fn outline(record: &EpisodeRecord) -> EpisodeRecord {
    EpisodeRecord { segments: Vec::<Segment>::new(), ..record.clone() }
}

/// Reads a journal. `None` if it was removed in the meantime.
fn read_journal(path: PathBuf, stamp: FileStamp) -> Result<Option<Arc<Rows>>, StoreError> {
    let recovered = match journal::recover(&path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        recovered => recovered?,
    };
    let records: Vec<EpisodeRecord> = recovered.entries.into_iter().map(|entry| entry.record).collect();
    Ok(Some(journal_rows(path, stamp, records)))
}

fn journal_rows(path: PathBuf, stamp: FileStamp, records: Vec<EpisodeRecord>) -> Arc<Rows> {
    let mut splits = Splits::default();
    let rows = records.iter().map(|record| EpisodeRow::of(record, splits.of(&record.task.split))).collect();
    Arc::new(Rows { path, stamp, source: RowSource::Journal(records), rows })
}

/// The journal's rows without those that a part holds too. `None` if none is left.
fn without_stored(journal: Arc<Rows>, parts: &[Arc<Rows>]) -> Option<Arc<Rows>> {
    let mut own: HashSet<EpisodeId> = journal.rows.iter().map(|row| row.id).collect();
    let count = own.len();
    for row in parts.iter().flat_map(|part| &part.rows) {
        own.remove(&row.id);
    }
    if own.len() == count {
        return Some(journal);
    }
    let RowSource::Journal(records) = &journal.source else { return Some(journal) };
    let left: Vec<EpisodeRecord> = records.iter().filter(|record| own.contains(&record.id)).cloned().collect();
    // Another stamp, so that the journal is read again when its part is gone.
    let stamp = FileStamp { bytes: 0, modified: None };
    (!left.is_empty()).then(|| journal_rows(journal.path.clone(), stamp, left))
}

/// Reads the rows of a part after verifying its checksum.
fn read_part_rows(path: PathBuf, stamp: FileStamp) -> Result<Arc<Rows>, StoreError> {
    let failed = |source| StoreError::Parquet { path: path.clone(), source };
    let (mut rows, mut splits) = (Vec::new(), Splits::default());
    for batch in read_columns(&path, &COLUMNS)? {
        let batch = batch.map_err(|source| failed(source.into()))?;
        append_rows(&batch, &mut splits, &mut rows).map_err(failed)?;
    }
    let file = open_regular_file(&path).map_err(|source| StoreError::io(&path, source))?;
    let options =
        ArrowReaderOptions::new().with_skip_arrow_metadata(true).with_offset_index_policy(PageIndexPolicy::Optional);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(|source| failed(source.into()))?;
    Ok(Arc::new(Rows { path, stamp, source: RowSource::Part(metadata), rows }))
}

fn append_rows(batch: &RecordBatch, splits: &mut Splits, rows: &mut Vec<EpisodeRow>) -> Result<(), BoxError> {
    let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("column `{name}` is missing"));
    let whole = |name: &str| -> Result<_, BoxError> {
        Ok(column(name)?.as_primitive_opt::<UInt64Type>().ok_or_else(|| format!("column `{name}` is not uint64"))?)
    };
    let success = column("success")?.as_boolean_opt().ok_or("column `success` does not hold booleans")?;
    let rewards = column("reward")?.as_primitive_opt::<Float64Type>().ok_or("column `reward` is not float64")?;
    let (tasks, calls, tokens) = (whole("task_index")?, whole("calls")?, whole("sampled_tokens")?);
    for row in 0..batch.num_rows() {
        rows.push(EpisodeRow {
            id: text(batch, "id", row)?.parse()?,
            split: splits.of(text(batch, "task_split", row)?),
            task: tasks.value(row),
            ending: text(batch, "ending", row)?.parse()?,
            success: success.value(row),
            reward: (!rewards.is_null(row)).then(|| rewards.value(row)),
            calls: calls.value(row),
            sampled_tokens: tokens.value(row),
        });
    }
    Ok(())
}

/// Names of splits, each stored once. A run has few.
#[derive(Default)]
struct Splits(Vec<Arc<str>>);

impl Splits {
    fn of(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.iter().find(|known| &***known == name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        self.0.push(Arc::clone(&new));
        new
    }
}

/// Reads some rows of a part, by their ascending places, with all columns or some. Only the pages that hold them are
/// read.
fn read_selected(
    file: &Rows,
    metadata: &ArrowReaderMetadata,
    places: &[usize],
    columns: Option<&[&str]>,
) -> Result<Vec<RecordBatch>, StoreError> {
    let failed = |source: BoxError| StoreError::Parquet { path: file.path.clone(), source };
    if FileStamp::of(&file.path)? != Some(file.stamp) {
        return Err(failed("the file was changed after it was indexed".into()));
    }
    let open = open_regular_file(&file.path).map_err(|source| StoreError::io(&file.path, source))?;
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(open, metadata.clone());
    if let Some(columns) = columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    let reader = builder.with_row_selection(selection(places)).with_batch_size(places.len().max(1)).build();
    let batches: Result<Vec<_>, _> = reader.map_err(|source| failed(source.into()))?.collect();
    batches.map_err(|source| failed(source.into()))
}

/// The selection of rows at ascending places.
fn selection(places: &[usize]) -> RowSelection {
    let mut selectors = Vec::with_capacity(2 * places.len());
    let mut next = 0;
    for place in places {
        if *place > next {
            selectors.push(RowSelector::skip(place - next));
        }
        selectors.push(RowSelector::select(1));
        next = place + 1;
    }
    RowSelection::from(selectors)
}

/// Reads a whole record, and for a fork the records that hold its beginning.
fn read_row(file: &Rows, metadata: &ArrowReaderMetadata, place: usize) -> Result<EpisodeRecord, StoreError> {
    let failed = |source: BoxError| StoreError::Parquet { path: file.path.clone(), source };
    // The row, its parent's row, and so on.
    let (mut chain, mut next) = (Vec::new(), Some(place));
    while let Some(place) = next {
        let batches = read_selected(file, metadata, &[place], None)?;
        let batch = batches.into_iter().next().filter(|batch| batch.num_rows() == 1);
        let batch = batch.ok_or_else(|| failed("the file has fewer rows than its index".into()))?;
        next = match SharedPrefix::read(&batch, 0).map_err(failed)? {
            Some(shared) => {
                file.rows.get(..place).and_then(|above| above.iter().rposition(|row| row.id == shared.parent))
            }
            None => None,
        };
        chain.push(batch);
    }
    let mut above: Vec<EpisodeRecord> = Vec::new();
    for batch in chain.iter().rev() {
        above = vec![decode_row(batch, 0, &above).map_err(failed)?];
    }
    above.pop().ok_or_else(|| failed("the row is missing".into()))
}

fn read_outlines(
    file: &Rows,
    metadata: &ArrowReaderMetadata,
    places: &[usize],
) -> Result<Vec<EpisodeRecord>, StoreError> {
    let failed = |source: BoxError| StoreError::Parquet { path: file.path.clone(), source };
    let mut records = Vec::with_capacity(places.len());
    for batch in read_selected(file, metadata, places, Some(&OUTLINE))? {
        for row in 0..batch.num_rows() {
            records.push(decode_outline(&batch, row).map_err(failed)?);
        }
    }
    Ok(records)
}
