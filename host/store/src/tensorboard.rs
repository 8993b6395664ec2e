//! TensorBoard event files: `Event` messages in TensorFlow's record framing, both encoded here.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// An event file that is open for writing.
#[derive(Debug)]
pub(crate) struct EventFile(File);

impl EventFile {
    /// Creates an event file.
    ///
    /// The second event marks a session start at `step`, which makes TensorBoard drop later points of older files in
    /// the folder: the run repeats those steps.
    pub fn create(path: &Path, wall_time: f64, step: u64) -> io::Result<Self> {
        let mut file = Self(File::create_new(path)?);
        file.write(&version_event(wall_time))?;
        file.write(&start_event(wall_time, step))?;
        Ok(file)
    }

    /// Writes the scalars of one step. `wall_time` is in seconds since 1970.
    pub fn scalars(&mut self, wall_time: f64, step: u64, values: &[(&str, f64)]) -> io::Result<()> {
        self.write(&scalars_event(wall_time, step, values))
    }

    fn write(&mut self, event: &[u8]) -> io::Result<()> {
        self.0.write_all(&record(event))
    }
}

/// Frames one record: length, masked crc32c of the length, bytes, masked crc32c of the bytes.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked_checksum(&length), bytes, &masked_checksum(bytes)].concat()
}

/// crc32c, masked as TensorFlow does: the checksum of data that contains checksums stays reliable.
fn masked_checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = event(wall_time, 0);
    put_bytes(&mut event, 3, b"brain.Event:2");
    event
}

fn start_event(wall_time: f64, step: u64) -> Vec<u8> {
    const STATUS_START: u64 = 1;
    let mut session_log = Vec::new();
    put_number(&mut session_log, 1, STATUS_START);
    let mut event = event(wall_time, step);
    put_bytes(&mut event, 7, &session_log);
    event
}

fn scalars_event(wall_time: f64, step: u64, values: &[(&str, f64)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut scalar = Vec::new();
        put_bytes(&mut scalar, 1, tag.as_bytes());
        put_key(&mut scalar, 2, Wire::FourBytes);
        scalar.extend_from_slice(&(*value as f32).to_le_bytes());
        put_bytes(&mut summary, 1, &scalar);
    }
    let mut event = event(wall_time, step);
    put_bytes(&mut event, 5, &summary);
    event
}

/// First fields of an event: time and step.
fn event(wall_time: f64, step: u64) -> Vec<u8> {
    let mut event = Vec::new();
    put_key(&mut event, 1, Wire::EightBytes);
    event.extend_from_slice(&wall_time.to_le_bytes());
    put_number(&mut event, 2, step);
    event
}

/// Wire types of protobuf.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    EightBytes = 1,
    Counted = 2,
    FourBytes = 5,
}

fn put_key(out: &mut Vec<u8>, field: u64, wire: Wire) {
    put_varint(out, field << 3 | wire as u64);
}

/// Integer field; protobuf omits it if it is 0.
fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_key(out, field, Wire::Varint);
        put_varint(out, number);
    }
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_key(out, field, Wire::Counted);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by TensorBoard's own record writer: see `tests/reference_make_events.py`.
    const GOLDEN: &[u8] = include_bytes!("../tests/golden/events.bin");

    #[test]
    fn events_equal_those_of_tensorboard() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events");
        let mut file = EventFile::create(&path, 1_700_000_000.25, 3).expect("created");
        file.scalars(1_700_000_001.5, 3, &[("reward", 0.5), ("loss", -1.25e-3)]).expect("written");
        file.scalars(1_700_000_002.0, 300, &[("reward", 0.0)]).expect("written");
        file.scalars(1_700_000_003.0, 0, &[("success/held-out", 1.0)]).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), GOLDEN);
    }
}
