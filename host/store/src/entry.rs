//! An episode as it is stored: the record, and the texts of it that journal and parts hold, written once for both.
//!
//! In the journal stand the lengths of the two texts, four little-endian bytes each, the texts, and the segments'
//! columns as they are in memory, so that of the many numbers about tokens none is ever printed or parsed.

use std::io::{self, Write};

use gymkhana_record::{EPISODE_SCHEMA, EpisodeRecord, Segment, Turn};
use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use crate::StoreError;

/// A record with its texts.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The whole record.
    pub record: EpisodeRecord,
    /// Its turns, as JSON.
    pub transcript: String,
    /// The rest of it without the segments, as JSON.
    pub rest: String,
}

/// Why bytes are no entry.
#[derive(Debug)]
pub(crate) enum BadEntry {
    /// They are JSON of another shape, or none.
    Json(serde_json::Error),
    /// The record has another schema number.
    Schema(u32),
    /// They end too early or too late.
    Length,
}

impl Entry {
    /// Writes a record's texts.
    ///
    /// # Errors
    /// If it would not be read back as it is.
    pub fn new(record: &EpisodeRecord) -> Result<Self, StoreError> {
        let refused = |why| StoreError::Unstorable(record.id, why);
        if !record.segments.iter().all(is_even) {
            return Err(refused("the columns of a segment are not of one length"));
        }
        let mut numbers = record.segments.iter().flat_map(|segment| segment.log_probs.iter().chain(&segment.entropies));
        if !numbers.all(|number| number.is_finite()) {
            return Err(refused(NOT_FINITE));
        }
        let mut rest = record.clone();
        let (turns, segments) = (std::mem::take(&mut rest.turns), std::mem::take(&mut rest.segments));
        let texts = json_of(&turns).and_then(|transcript| Some((transcript, json_of(&rest)?)));
        let (transcript, text) = texts.ok_or_else(|| refused(NOT_FINITE))?;
        Ok(Self { record: EpisodeRecord { turns, segments, ..rest }, transcript, rest: text })
    }

    /// How many bytes it takes in the journal.
    pub fn len(&self) -> usize {
        let tokens: usize = self.record.segments.iter().map(Segment::len).sum();
        8 + self.rest.len() + self.transcript.len() + 4 * self.record.segments.len() + TOKEN * tokens
    }

    /// Adds its bytes to a frame of the journal.
    pub fn encode(&self, frame: &mut Vec<u8>) {
        frame.reserve(self.len());
        for text in [&self.rest, &self.transcript] {
            frame.extend((text.len() as u32).to_le_bytes());
        }
        for text in [&self.rest, &self.transcript] {
            frame.extend(text.as_bytes());
        }
        for segment in &self.record.segments {
            let Segment { tokens, sampled, log_probs, entropies, versions, seats, turns } = segment;
            frame.extend((tokens.len() as u32).to_le_bytes());
            for column in [tokens, versions, seats, turns] {
                frame.extend(column.iter().flat_map(|number| number.to_le_bytes()));
            }
            for column in [log_probs, entropies] {
                frame.extend(column.iter().flat_map(|number| number.to_le_bytes()));
            }
            frame.extend(sampled.iter().map(|sampled| u8::from(*sampled)));
        }
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadEntry> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let mut reader = Reader(bytes);
        let (rest, transcript) = (reader.count()?, reader.count()?);
        let (rest, transcript) = (reader.take(rest)?, reader.take(transcript)?);
        let Schema { schema } = serde_json::from_slice(rest)?;
        if schema != EPISODE_SCHEMA {
            return Err(BadEntry::Schema(schema));
        }
        let mut record: EpisodeRecord = serde_json::from_slice(rest)?;
        record.turns = serde_json::from_slice::<Vec<Turn>>(transcript)?;
        while !reader.0.is_empty() {
            record.segments.push(reader.segment()?);
        }
        // JSON that was parsed is UTF-8, so nothing is replaced.
        let [rest, transcript] = [rest, transcript].map(|text| String::from_utf8_lossy(text).into_owned());
        Ok(Self { record, transcript, rest })
    }
}

/// Whether all columns of a segment are of one length.
pub(crate) fn is_even(segment: &Segment) -> bool {
    let Segment { tokens, sampled, log_probs, entropies, versions, seats, turns } = segment;
    let lengths = [sampled.len(), log_probs.len(), entropies.len(), versions.len(), seats.len(), turns.len()];
    lengths.iter().all(|length| *length == tokens.len())
}

/// The bytes of one token in the columns.
const TOKEN: usize = 6 * 4 + 1;
const NOT_FINITE: &str = "it holds a number that is not finite";

impl From<serde_json::Error> for BadEntry {
    fn from(source: serde_json::Error) -> Self {
        Self::Json(source)
    }
}

/// Takes bytes off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], BadEntry> {
        let (taken, left) = self.0.split_at_checked(length).ok_or(BadEntry::Length)?;
        self.0 = left;
        Ok(taken)
    }

    fn column<T>(&mut self, length: usize, number: impl Fn([u8; 4]) -> T) -> Result<Vec<T>, BadEntry> {
        let bytes = self.take(length.checked_mul(4).ok_or(BadEntry::Length)?)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| number(*bytes)).collect())
    }

    fn count(&mut self) -> Result<usize, BadEntry> {
        Ok(self.column(1, u32::from_le_bytes)?[0] as usize)
    }

    fn segment(&mut self) -> Result<Segment, BadEntry> {
        let length = self.count()?;
        Ok(Segment {
            tokens: self.column(length, u32::from_le_bytes)?,
            versions: self.column(length, u32::from_le_bytes)?,
            seats: self.column(length, u32::from_le_bytes)?,
            turns: self.column(length, u32::from_le_bytes)?,
            log_probs: self.column(length, f32::from_le_bytes)?,
            entropies: self.column(length, f32::from_le_bytes)?,
            sampled: self.take(length)?.iter().map(|sampled| *sampled != 0).collect(),
        })
    }
}

/// A value as JSON, or none if it would not be read back as it is: NaN and infinities become `null`.
///
/// What may be absent is left out of records and not written as `null`, so that the look at what was written, which
/// costs more than the writing, is rarely needed.
fn json_of<T: Serialize + PartialEq + serde::de::DeserializeOwned>(value: &T) -> Option<String> {
    let (mut bytes, mut nulls) = (Vec::with_capacity(4096), false);
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, Watching { nulls: &mut nulls });
    value.serialize(&mut writer).ok()?;
    let sound = !nulls || serde_json::from_slice::<T>(&bytes).is_ok_and(|again| again == *value);
    String::from_utf8(bytes).ok().filter(|_| sound)
}

/// Compact JSON, with a mark where a `null` was written.
struct Watching<'a> {
    nulls: &'a mut bool,
}

impl Formatter for Watching<'_> {
    fn write_null<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        *self.nulls = true;
        writer.write_all(b"null")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::record;

    #[test]
    fn what_is_absent_is_not_written_and_what_is_null_is_looked_at() {
        let absent = EpisodeRecord { guidance: None, hint: None, ..record(0) };
        assert!(!Entry::new(&absent).unwrap().rest.contains("null"));
        assert_eq!(json_of(&[Some(1.0), None]).as_deref(), Some("[1.0,null]"));
        assert_eq!(json_of(&[Some(1.0), Some(f64::NAN)]), None);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_no_piece_of_it_is() {
        for number in 0..20 {
            let entry = Entry::new(&record(number)).unwrap();
            let mut bytes = vec![];
            entry.encode(&mut bytes);
            assert_eq!(bytes.len(), entry.len());
            let again = Entry::decode(&bytes).unwrap();
            assert_eq!(again.record, entry.record);
            assert_eq!((again.rest, again.transcript), (entry.rest, entry.transcript));
            bytes.push(1);
            assert!(matches!(Entry::decode(&bytes), Err(BadEntry::Length)), "a byte too many");
            bytes.truncate(bytes.len() - 2);
            assert!(Entry::decode(&bytes).is_err(), "a byte is missing");
            assert!(matches!(Entry::decode(&bytes[..6]), Err(BadEntry::Length)));
        }
    }
}
