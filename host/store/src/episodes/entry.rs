//! A stored episode: the record and the JSON texts of it that both journal and parts hold, serialised once.
//!
//! Layout in the journal: the lengths of the two texts (u32, little-endian), the two texts, then the segments' columns
//! in binary, so that numbers per token are never printed or parsed.

use std::io::{self, Write};

use gymkhana_record::{EPISODE_SCHEMA, EpisodeRecord, Segment, SegmentColumns};
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::StoreError;
use crate::episodes::columns::only_seat;
use crate::episodes::old_record::{self, BadRecord};

/// A record with its JSON texts.
#[derive(Debug, Clone)]
pub(crate) struct SerializedRecord {
    /// Complete record.
    pub record: EpisodeRecord,
    /// Turns of the record, as JSON.
    pub transcript: String,
    /// Record without turns and segments, as JSON.
    pub rest: String,
}

/// Reason why bytes are not an entry.
#[derive(Debug)]
pub(crate) enum BadEntry {
    /// A text is not JSON, or has another structure.
    Json(serde_json::Error),
    /// The record has an unsupported schema number.
    Schema(u32),
    /// The bytes are too short, too long, or hold an invalid segment.
    Length,
}

impl SerializedRecord {
    /// Serialises a record's texts.
    ///
    /// # Errors
    /// If the record holds a number that is not finite, which JSON cannot represent.
    pub fn new(record: &EpisodeRecord) -> Result<Self, StoreError> {
        let refused = |why| StoreError::Unstorable(record.id, why);
        let mut numbers =
            record.segments.iter().flat_map(|segment| segment.log_probs().iter().chain(segment.entropies()));
        if !numbers.all(|number| number.is_finite()) {
            return Err(refused(NOT_FINITE));
        }
        let mut rest = record.clone();
        let (turns, segments) = (std::mem::take(&mut rest.turns), std::mem::take(&mut rest.segments));
        let texts = json_of(&turns).and_then(|transcript| Some((transcript, json_of(&rest)?)));
        let (transcript, text) = texts.ok_or_else(|| refused(NOT_FINITE))?;
        Ok(Self { record: EpisodeRecord { turns, segments, ..rest }, transcript, rest: text })
    }

    /// Size in the journal, in bytes.
    pub fn len(&self) -> usize {
        let tokens: usize = self.record.segments.iter().map(Segment::len).sum();
        8 + self.rest.len() + self.transcript.len() + SEGMENT * self.record.segments.len() + TOKEN * tokens
    }

    /// Appends the entry's bytes to a frame of the journal.
    pub fn encode(&self, frame: &mut Vec<u8>) {
        frame.reserve(self.len());
        for text in [&self.rest, &self.transcript] {
            frame.extend((text.len() as u32).to_le_bytes());
        }
        for text in [&self.rest, &self.transcript] {
            frame.extend(text.as_bytes());
        }
        for segment in &self.record.segments {
            frame.extend((segment.len() as u32).to_le_bytes());
            frame.extend(segment.seat().to_le_bytes());
            for column in [segment.tokens(), segment.versions(), segment.turns()] {
                frame.extend(column.iter().flat_map(|number| number.to_le_bytes()));
            }
            for column in [segment.log_probs(), segment.entropies()] {
                frame.extend(column.iter().flat_map(|number| number.to_le_bytes()));
            }
            frame.extend(segment.sampled().iter().map(|sampled| u8::from(*sampled)));
        }
    }

    /// Parses bytes that `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadEntry> {
        let mut reader = ByteReader(bytes);
        let (rest, transcript) = (reader.count()?, reader.count()?);
        let (rest, transcript) = (reader.take(rest)?, reader.take(transcript)?);
        let (mut record, schema) = old_record::parse(rest)?;
        record.turns = old_record::parse_turns(transcript, schema)?;
        while !reader.0.is_empty() {
            record.segments.push(reader.segment(schema)?);
        }
        let (transcript, rest) = if schema == EPISODE_SCHEMA {
            // The parsed JSON is valid UTF-8, so the lossy conversion replaces nothing.
            (String::from_utf8_lossy(transcript).into_owned(), String::from_utf8_lossy(rest).into_owned())
        } else {
            let rest = EpisodeRecord { turns: vec![], segments: vec![], ..record.clone() };
            (serde_json::to_string(&record.turns)?, serde_json::to_string(&rest)?)
        };
        Ok(Self { record, transcript, rest })
    }
}

/// Bytes of a segment's header: its length and its seat.
const SEGMENT: usize = 2 * 4;
/// Bytes per token: five columns of four bytes, and one flag.
const TOKEN: usize = 5 * 4 + 1;
const NOT_FINITE: &str = "it holds a number that is not finite";

impl From<serde_json::Error> for BadEntry {
    fn from(source: serde_json::Error) -> Self {
        Self::Json(source)
    }
}

impl From<BadRecord> for BadEntry {
    fn from(error: BadRecord) -> Self {
        match error {
            BadRecord::Json(source) => Self::Json(source),
            BadRecord::Schema(found) => Self::Schema(found),
        }
    }
}

/// Takes bytes from the front of a slice.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
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

    /// Reads one segment. Records of schema 5 hold the seat once per token, after the versions.
    fn segment(&mut self, schema: u32) -> Result<Segment, BadEntry> {
        let length = self.count()?;
        let current = old_record::has_seat_per_segment(schema);
        let seat = if current { self.column(1, u32::from_le_bytes)?[0] } else { 0 };
        let tokens = self.column(length, u32::from_le_bytes)?;
        let versions = self.column(length, u32::from_le_bytes)?;
        let seats = if current { vec![] } else { self.column(length, u32::from_le_bytes)? };
        let seat = if current { seat } else { only_seat(&seats).ok_or(BadEntry::Length)? };
        let columns = SegmentColumns {
            seat,
            tokens,
            versions,
            turns: self.column(length, u32::from_le_bytes)?,
            log_probs: self.column(length, f32::from_le_bytes)?,
            entropies: self.column(length, f32::from_le_bytes)?,
            sampled: self.take(length)?.iter().map(|sampled| *sampled != 0).collect(),
        };
        Segment::from_columns(columns).map_err(|_| BadEntry::Length)
    }
}

/// Serialises a value to JSON. `None` if parsing would not return the same value, because NaN and infinities become
/// `null`.
///
/// Records omit absent values and rarely write `null`, so the check by parsing, which costs more than serialising, is
/// rarely needed.
fn json_of<T: Serialize + PartialEq + serde::de::DeserializeOwned>(value: &T) -> Option<String> {
    let (mut bytes, mut nulls) = (Vec::with_capacity(4096), false);
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, NullDetector { nulls: &mut nulls });
    value.serialize(&mut writer).ok()?;
    let sound = !nulls || serde_json::from_slice::<T>(&bytes).is_ok_and(|again| again == *value);
    String::from_utf8(bytes).ok().filter(|_| sound)
}

/// Compact JSON formatter that records whether a `null` was written.
struct NullDetector<'a> {
    nulls: &'a mut bool,
}

impl Formatter for NullDetector<'_> {
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
    fn absent_values_are_omitted_and_nulls_are_checked() {
        let absent = EpisodeRecord { guidance: None, hint: None, ..record(0) };
        assert!(!SerializedRecord::new(&absent).unwrap().rest.contains("null"));
        assert_eq!(json_of(&[Some(1.0), None]).as_deref(), Some("[1.0,null]"));
        assert_eq!(json_of(&[Some(1.0), Some(f64::NAN)]), None);
    }

    #[test]
    fn an_entry_survives_a_round_trip_and_a_truncated_one_is_refused() {
        for number in 0..20 {
            let entry = SerializedRecord::new(&record(number)).unwrap();
            let mut bytes = vec![];
            entry.encode(&mut bytes);
            assert_eq!(bytes.len(), entry.len());
            let again = SerializedRecord::decode(&bytes).unwrap();
            assert_eq!(again.record, entry.record);
            assert_eq!((again.rest, again.transcript), (entry.rest, entry.transcript));
            bytes.push(1);
            assert!(matches!(SerializedRecord::decode(&bytes), Err(BadEntry::Length)), "a byte too many");
            bytes.truncate(bytes.len() - 2);
            assert!(SerializedRecord::decode(&bytes).is_err(), "a byte is missing");
            assert!(matches!(SerializedRecord::decode(&bytes[..6]), Err(BadEntry::Length)));
        }
    }
}
