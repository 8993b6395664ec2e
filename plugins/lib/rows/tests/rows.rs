//! Files of rows: the layout byte for byte, single rows, and damaged files.

use std::convert::Infallible;

use gymkhana_rows::{MAX_ROW_BYTES, ReadAt, ReadError, Reader, WriteError, Writer};
use proptest::prelude::*;

/// A file in memory.
struct Bytes<'a>(&'a [u8]);

impl ReadAt for Bytes<'_> {
    type Error = Infallible;

    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, position: u64, length: u32) -> Result<Vec<u8>, Infallible> {
        let start = (position as usize).min(self.0.len());
        let end = start.saturating_add(length as usize).min(self.0.len());
        Ok(self.0[start..end].to_vec())
    }
}

fn written(rows: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for (split, row) in rows {
        writer.add(split, row).expect("memory");
    }
    writer.finish().expect("memory")
}

#[test]
fn the_layout_is_the_documented_one() {
    let expected = [
        &b"GYMROWS1"[..],
        b"{}\n[]\n1\n",
        // Index of `b`: rows at 8 and 14; index of `a`: row at 11.
        &[8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        &[11, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
        // Two splits: two rows with the index at 16, one row with the index at 40.
        &[2, 0, 0, 0, 1, 0, 0, 0, b'b', 2, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0],
        // The splits are at 52.
        &[52, 0, 0, 0, 0, 0, 0, 0],
        b"GYMROWS1",
    ]
    .concat();
    assert_eq!(written(&[("b", b"{}"), ("a", b"[]"), ("b", b"1")]), expected);
}

#[test]
fn a_row_is_found_by_split_and_number() {
    let bytes = written(&[("train", b"one"), ("test", b"two"), ("train", b"")]);
    let reader = Reader::open(Bytes(&bytes)).expect("a sound file");
    let splits: Vec<_> = reader.splits().iter().map(|split| (split.name.as_str(), split.rows)).collect();
    assert_eq!(splits, [("train", 2), ("test", 1)]);
    assert_eq!(reader.row(0, 0).as_deref(), Ok(&b"one"[..]));
    assert_eq!(reader.row(0, 1).as_deref(), Ok(&b""[..]));
    assert_eq!(reader.row(1, 0).as_deref(), Ok(&b"two"[..]));
    let none = reader.row(1, 1).expect_err("no such row").to_string();
    assert_eq!(none, "split `test` has 1 rows, not row 1");
}

#[test]
fn other_files_are_refused() {
    assert_eq!(Reader::open(Bytes(b"{\"prompt\": 1}")).err(), Some(ReadError::NotRows));
    assert_eq!(Reader::open(Bytes(b"")).err(), Some(ReadError::NotRows));
    let bytes = written(&[("train", b"one")]);
    for length in 8..bytes.len() {
        let cut = Reader::open(Bytes(&bytes[..length]));
        assert!(matches!(cut, Err(ReadError::Damaged(_))), "{length}");
    }
}

#[test]
fn what_a_reader_would_refuse_is_not_written() {
    let mut writer = Writer::new(std::io::sink()).expect("a sink");
    let long = vec![b' '; MAX_ROW_BYTES as usize + 1];
    assert!(matches!(writer.add("a", &long), Err(WriteError::LongRow(_))));
    assert!(writer.add("a", &long[1..]).is_ok());
    assert!(matches!(writer.add("", b"1"), Err(WriteError::SplitName(0))));
    assert!(matches!(writer.add(&"x".repeat(201), b"1"), Err(WriteError::SplitName(201))));
    for number in 1..1000 {
        writer.add(&number.to_string(), b"1").expect("a split");
    }
    assert!(matches!(writer.add("another", b"1"), Err(WriteError::ManySplits)));
}

proptest! {
    /// A changed byte gives other rows or an error, and no panic or large allocation.
    #[test]
    fn damage_is_no_panic(at in 0usize..200, byte: u8) {
        let mut bytes = written(&[("train", b"one"), ("test", b"two"), ("train", b"three")]);
        let place = at % bytes.len();
        bytes[place] = byte;
        if let Ok(reader) = Reader::open(Bytes(&bytes)) {
            for (split, found) in reader.splits().iter().enumerate() {
                for row in 0..found.rows.min(4) {
                    let _read = reader.row(split, row);
                }
            }
        }
    }
}
