//! A Parquet part: a batch of episodes as columns, readable by pandas and convertible back to the exact records.
//!
//! Values to group and plot by have columns of their own. The columns of an episode's segments are joined, with
//! `segment_ends` for the end of each segment. The turns are JSON in `transcript`, and the rest of the record is JSON
//! in `record`.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float32Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use bytes::Bytes;
use gymkhana_record::{EPISODE_SCHEMA, EpisodeId, EpisodeRecord, Segment};
use gymkhana_registry::read_regular_file;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::StoreError;
use crate::episodes::cells::{BoxError, list, text, values};
use crate::episodes::columns::JoinedColumns;
use crate::episodes::entry::SerializedRecord;
use crate::episodes::old_record::{self, BadRecord};
use crate::episodes::sharing::{self, SharedPrefix};
use crate::fs::write;
use crate::seal::PART;

/// Schema number of the parts.
pub const PART_SCHEMA: u32 = 3;

const SCHEMA_KEY: &str = "gymkhana:schema";
const CHECKSUM_KEY: &str = "gymkhana:checksum";

/// Writes a part atomically.
pub(crate) fn write_part(path: &Path, entries: &[SerializedRecord]) -> Result<(), StoreError> {
    let bytes = encode(entries).map_err(|source| StoreError::Parquet { path: path.to_owned(), source })?;
    write(path, &bytes)
}

/// Reads the episodes of a part, in the order of writing.
pub(crate) fn read_part(path: &Path) -> Result<Vec<EpisodeRecord>, StoreError> {
    let mut records: Vec<EpisodeRecord> = Vec::new();
    for batch in open(path, None)? {
        let failed = |source| StoreError::Parquet { path: path.to_owned(), source };
        let batch = batch.map_err(|source| failed(source.into()))?;
        for row in 0..batch.num_rows() {
            records.push(decode_row(&batch, row, &records).map_err(failed)?);
        }
    }
    Ok(records)
}

/// Reads the ids of a part's episodes, in the order of writing.
pub(crate) fn read_ids(path: &Path) -> Result<Vec<EpisodeId>, StoreError> {
    let mut ids = Vec::new();
    for batch in read_columns(path, &["id"])? {
        let failed = |source| StoreError::Parquet { path: path.to_owned(), source };
        let batch = batch.map_err(|source| failed(source.into()))?;
        for row in 0..batch.num_rows() {
            ids.push(text(&batch, "id", row).and_then(|text| Ok(text.parse()?)).map_err(failed)?);
        }
    }
    Ok(ids)
}

/// Opens a part with some of its columns.
pub(crate) fn read_columns(path: &Path, columns: &[&str]) -> Result<ParquetRecordBatchReader, StoreError> {
    open(path, Some(columns))
}

/// Opens a part, with all columns or some, after verifying its checksum and its schema. A damaged file must not reach
/// the Parquet parser, which panics on some damage and does not detect other.
fn open(path: &Path, columns: Option<&[&str]>) -> Result<ParquetRecordBatchReader, StoreError> {
    let failed = |source: BoxError| StoreError::Parquet { path: path.to_owned(), source };
    let bytes = read_regular_file(path).map_err(|source| StoreError::io(path, source))?;
    if PART.verify(&bytes).is_err() {
        return Err(failed("the checksum is missing or wrong: the file was changed after it was written".into()));
    }
    let bytes = Bytes::from(bytes);
    // The columns need only Parquet's schema, not Arrow's.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options);
    let builder = builder.map_err(|source| failed(source.into()))?;
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let schema = pairs.into_iter().flatten().find(|pair| pair.key == SCHEMA_KEY).and_then(|pair| pair.value.as_deref());
    let found: u32 = schema
        .ok_or_else(|| failed(format!("the file's metadata has no `{SCHEMA_KEY}`: it is not a part of a run").into()))?
        .parse()
        .map_err(|source: std::num::ParseIntError| failed(source.into()))?;
    if found != PART_SCHEMA {
        return Err(StoreError::Schema { path: path.to_owned(), found, known: PART_SCHEMA });
    }
    let builder = match columns {
        None => builder,
        Some(columns) => {
            let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
            builder.with_projection(mask)
        }
    };
    builder.build().map_err(|source| failed(source.into()))
}

/// Number of rows per record batch. Bounds the memory for the copies of a part's tokens.
const ROWS: usize = 128;

fn encode(entries: &[SerializedRecord]) -> Result<Vec<u8>, BoxError> {
    let records: Vec<&EpisodeRecord> = entries.iter().map(|entry| &entry.record).collect();
    let shares = sharing::shares(&records);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![
            KeyValue::new(SCHEMA_KEY.to_owned(), PART_SCHEMA.to_string()),
            KeyValue::new(CHECKSUM_KEY.to_owned(), PART.unsealed()),
        ]))
        .build();
    let mut writer = None;
    for ((entries, records), shares) in entries.chunks(ROWS).zip(records.chunks(ROWS)).zip(shares.chunks(ROWS)) {
        let batch = columns(entries, records, shares)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.clone()))?),
        };
        writer.write(&batch)?;
    }
    let mut bytes = writer.ok_or("a part holds at least one episode")?.into_inner()?;
    if PART.seal(&mut bytes) { Ok(bytes) } else { Err("the metadata has no place for a checksum".into()) }
}

/// All columns of a batch of rows.
fn columns(
    entries: &[SerializedRecord],
    records: &[&EpisodeRecord],
    shares: &[Option<SharedPrefix>],
) -> Result<RecordBatch, BoxError> {
    let mut columns = plain_columns(records)?;
    columns.extend(share_columns(shares));
    columns.extend(segment_columns(records, shares));
    columns.extend(text_columns(entries, shares)?);
    let columns = columns.into_iter().map(|(name, array)| (name, array, name == "reward" || name == "parent"));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

/// Columns to group, filter and plot by: one value per episode.
fn plain_columns(records: &[&EpisodeRecord]) -> Result<Vec<(&'static str, ArrayRef)>, BoxError> {
    fn whole(records: &[&EpisodeRecord], of: impl Fn(&EpisodeRecord) -> u32) -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| of(record))))
    }
    fn long(records: &[&EpisodeRecord], of: impl Fn(&EpisodeRecord) -> u64) -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(records.iter().map(|record| of(record))))
    }
    fn word(records: &[&EpisodeRecord], of: impl Fn(&EpisodeRecord) -> String) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(records.iter().map(|record| of(record))))
    }
    let phases = words(records.iter().map(|record| &record.id.phase))?;
    let endings = words(records.iter().map(|record| &record.ending))?;
    Ok(vec![
        ("schema", whole(records, |record| record.schema)),
        ("id", word(records, |record| record.id.to_string())),
        ("stage", whole(records, |record| record.id.stage)),
        ("phase", phases),
        ("step", long(records, |record| record.id.step)),
        ("group", whole(records, |record| record.id.group)),
        ("member", whole(records, |record| record.id.member)),
        ("attempt", whole(records, |record| record.id.attempt)),
        ("task_split", word(records, |record| record.task.split.clone())),
        ("task_index", long(records, |record| record.task.index)),
        ("ending", endings),
        ("success", Arc::new(BooleanArray::from_iter(records.iter().map(|record| Some(record.success))))),
        ("reward", Arc::new(Float64Array::from_iter(records.iter().map(|record| record.rewards.first().copied())))),
        ("calls", long(records, |record| record.calls() as u64)),
        ("sampled_tokens", long(records, |record| record.sampled_tokens() as u64)),
        ("total_ms", Arc::new(Float64Array::from_iter_values(records.iter().map(|record| record.timing.total_ms)))),
    ])
}

/// Enum values as the words of their JSON form.
fn words<'a, T: serde::Serialize + 'a>(values: impl Iterator<Item = &'a T>) -> Result<ArrayRef, BoxError> {
    let words = values
        .map(|value| Ok(serde_json::to_string(value)?.trim_matches('"').to_owned()))
        .collect::<Result<Vec<String>, BoxError>>()?;
    Ok(Arc::new(StringArray::from(words)))
}

/// Columns of shared beginnings: the parent of a fork, and the number of tokens and turns stored in the parent's row.
fn share_columns(shares: &[Option<SharedPrefix>]) -> Vec<(&'static str, ArrayRef)> {
    let count = |of: fn(&SharedPrefix) -> usize| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(shares.iter().map(|share| share.as_ref().map_or(0, of) as u32)))
    };
    let parents: StringArray =
        shares.iter().map(|share| share.as_ref().map(|share| share.parent.to_string())).collect();
    vec![
        ("parent", Arc::new(parents)),
        ("shared_tokens", count(|share| share.tokens)),
        ("shared_turns", count(|share| share.turns)),
    ]
}

/// Columns of the segments: one list per episode, its segments joined, without the tokens shared with the parent.
fn segment_columns(records: &[&EpisodeRecord], shares: &[Option<SharedPrefix>]) -> Vec<(&'static str, ArrayRef)> {
    fn numbers(owns: &[JoinedColumns], of: impl Fn(&JoinedColumns) -> &[u32]) -> ArrayRef {
        let mut list = ListBuilder::new(UInt32Builder::new());
        for own in owns {
            list.values().append_slice(of(own));
            list.append(true);
        }
        Arc::new(list.finish())
    }
    fn floats(owns: &[JoinedColumns], of: impl Fn(&JoinedColumns) -> &[f32]) -> ArrayRef {
        let mut list = ListBuilder::new(Float32Builder::new());
        for own in owns {
            list.values().append_slice(of(own));
            list.append(true);
        }
        Arc::new(list.finish())
    }
    let own = |(record, share): (&&EpisodeRecord, &Option<SharedPrefix>)| {
        JoinedColumns::after(&record.segments, share.as_ref().map_or(0, |share| share.tokens))
    };
    let owns: Vec<JoinedColumns> = records.iter().zip(shares).map(own).collect();
    let mut sampled = ListBuilder::new(BooleanBuilder::new());
    let mut ends = ListBuilder::new(UInt32Builder::new());
    for (record, own) in records.iter().zip(&owns) {
        sampled.values().append_slice(&own.sampled);
        sampled.append(true);
        let mut end = 0;
        for segment in &record.segments {
            end += segment.len() as u32;
            ends.values().append_value(end);
        }
        ends.append(true);
    }
    vec![
        ("tokens", numbers(&owns, |own| &own.tokens)),
        ("sampled", Arc::new(sampled.finish())),
        ("log_probs", floats(&owns, |own| &own.log_probs)),
        ("entropies", floats(&owns, |own| &own.entropies)),
        ("versions", numbers(&owns, |own| &own.versions)),
        ("seats", numbers(&owns, |own| &own.seats)),
        ("turns", numbers(&owns, |own| &own.turns)),
        ("segment_ends", Arc::new(ends.finish())),
    ]
}

/// The turns, and the rest of the record, as JSON.
fn text_columns(
    entries: &[SerializedRecord],
    shares: &[Option<SharedPrefix>],
) -> Result<Vec<(&'static str, ArrayRef)>, BoxError> {
    let mut transcripts = StringBuilder::new();
    for (entry, share) in entries.iter().zip(shares) {
        match share {
            None => transcripts.append_value(&entry.transcript),
            Some(share) => transcripts.append_value(serde_json::to_string(&entry.record.turns[share.turns..])?),
        }
    }
    let rests = StringArray::from_iter_values(entries.iter().map(|entry| &entry.rest));
    Ok(vec![("transcript", Arc::new(transcripts.finish())), ("record", Arc::new(rests))])
}

/// Parses a row's record without turns and segments, and returns it with its schema number.
fn decode_rest(batch: &RecordBatch, row: usize) -> Result<(EpisodeRecord, u32), BoxError> {
    old_record::parse(text(batch, "record", row)?.as_bytes()).map_err(|error| match error {
        BadRecord::Json(source) => BoxError::from(source),
        BadRecord::Schema(found) => {
            format!("row {row} has record schema {found} but this host reads schemas up to {EPISODE_SCHEMA}").into()
        }
    })
}

/// Rebuilds a row's record without its segments and without the turns that its parent's row holds.
pub(crate) fn decode_outline(batch: &RecordBatch, row: usize) -> Result<EpisodeRecord, BoxError> {
    let (mut record, schema) = decode_rest(batch, row)?;
    record.turns = old_record::parse_turns(text(batch, "transcript", row)?.as_bytes(), schema)?;
    Ok(record)
}

/// Rebuilds a row's record; `above` holds the records of the rows before it, or at least its parent's.
pub(crate) fn decode_row(batch: &RecordBatch, row: usize, above: &[EpisodeRecord]) -> Result<EpisodeRecord, BoxError> {
    let (mut record, schema) = decode_rest(batch, row)?;
    let shared = SharedPrefix::read(batch, row)?;
    let parent = match &shared {
        Some(shared) => Some(above.iter().rfind(|record| record.id == shared.parent).ok_or_else(|| {
            format!("row {row} shares its beginning with episode {}, which is not above it", shared.parent)
        })?),
        None => None,
    };
    let (mut turns, mut front) = (vec![], JoinedColumns::default());
    if let (Some(parent), Some(shared)) = (parent, &shared) {
        let beginning = parent.turns.get(..shared.turns);
        turns = beginning.ok_or_else(|| format!("row {row} shares more turns than there are"))?.to_vec();
        front = JoinedColumns::of(&parent.segments);
        if shared.tokens > front.len() {
            return Err(format!("row {row} shares more tokens than there are").into());
        }
        front.truncate(shared.tokens);
    }
    turns.extend(old_record::parse_turns(text(batch, "transcript", row)?.as_bytes(), schema)?);
    record.turns = turns;
    record.segments = decode_segments(batch, row, front)?;
    Ok(record)
}

/// Rebuilds a row's segments; `front` holds the tokens shared with the parent.
fn decode_segments(batch: &RecordBatch, row: usize, front: JoinedColumns) -> Result<Vec<Segment>, BoxError> {
    let sampled = list(batch, "sampled", row)?;
    let sampled = sampled.as_boolean_opt().ok_or("column `sampled` does not hold booleans")?;
    let own = JoinedColumns {
        tokens: values::<UInt32Type>(batch, "tokens", row)?,
        sampled: (0..sampled.len()).map(|place| sampled.value(place)).collect(),
        log_probs: values::<Float32Type>(batch, "log_probs", row)?,
        entropies: values::<Float32Type>(batch, "entropies", row)?,
        versions: values::<UInt32Type>(batch, "versions", row)?,
        seats: values::<UInt32Type>(batch, "seats", row)?,
        turns: values::<UInt32Type>(batch, "turns", row)?,
    };
    if !own.is_even() {
        return Err(format!("row {row} has columns of segments of different length").into());
    }
    let mut whole = front;
    whole.append(own);
    let ends = values::<UInt32Type>(batch, "segment_ends", row)?;
    let mut start = 0;
    let mut segments = Vec::with_capacity(ends.len());
    for end in ends {
        let end = end as usize;
        if end < start || end > whole.len() {
            return Err("column `segment_ends` decreases or exceeds the number of tokens".into());
        }
        let segment = whole.segment(start, end);
        segments.push(segment.ok_or_else(|| format!("row {row} has a segment of several seats"))??);
        start = end;
    }
    if start < whole.len() {
        return Err(format!("row {row} has tokens after its last segment").into());
    }
    Ok(segments)
}
