//! A file of rows, a row, and the header of a page of a Parquet file: what is accepted is written and read again without a
//! difference.
#![no_main]

use std::convert::Infallible;

use gymkhana_rows::{ReadAt, Reader, Row};
use libfuzzer_sys::fuzz_target;

struct Bytes<'a>(&'a [u8]);

impl ReadAt for Bytes<'_> {
    type Error = Infallible;

    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, position: u64, length: u32) -> Result<Vec<u8>, Infallible> {
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(self.0.len());
        let end = start.saturating_add(length as usize).min(self.0.len());
        Ok(self.0[start..end].to_vec())
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(length) = gymkhana_data::fuzzing::page_header(bytes) {
        // The header does not depend on what follows it.
        assert_eq!(gymkhana_data::fuzzing::page_header(&bytes[..length]), Some(length));
    }
    if let Ok(row) = Row::parse(bytes) {
        assert_eq!(Row::of(row.columns()).as_ref(), Ok(&row));
    }
    if let Ok(reader) = Reader::open(Bytes(bytes)) {
        for (split, found) in reader.splits().iter().enumerate() {
            for row in 0..found.rows.min(8) {
                let _ = reader.row(split, row);
            }
        }
    }
});
