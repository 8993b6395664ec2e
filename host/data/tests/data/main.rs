//! Files that the libraries of other projects wrote (`tests/golden/make.py`), imported and read again; bad input.

mod bad_input;
mod formats;
mod inspecting;
mod large;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gymkhana_data::{ColumnMapping, DataError, ImportOptions, Imported, import};
use gymkhana_rows::{ReadAt, Reader};
use serde_json::Value as Json;

/// A file of the folder `golden`.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A folder for one test.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("written");
        self.path(name)
    }

    fn import(&self, source: &Path, options: &ImportOptions) -> Result<Imported, DataError> {
        import(source, &self.path("out.rows"), options, |_| ())
    }

    /// Rows of the last import by split.
    fn rows(&self) -> Vec<(String, Vec<Json>)> {
        let reader = Reader::open(OnDisk(File::open(self.path("out.rows")).expect("a file"))).expect("rows");
        let rows = |split: usize, count: u64| {
            (0..count)
                .map(|row| serde_json::from_slice(&reader.row(split, row).expect("a row")).expect("JSON"))
                .collect()
        };
        reader.splits().iter().enumerate().map(|(place, split)| (split.name.clone(), rows(place, split.rows))).collect()
    }
}

struct OnDisk(File);

impl ReadAt for OnDisk {
    type Error = io::Error;

    fn size(&self) -> u64 {
        self.0.metadata().expect("a size").len()
    }

    fn read_at(&self, position: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.0.read_exact_at(&mut bytes, position)?;
        Ok(bytes)
    }
}

/// Options with these columns.
fn columns(given: &[&str]) -> ImportOptions {
    ImportOptions { mapping: ColumnMapping::parse(given.iter().copied()).expect("columns"), ..ImportOptions::default() }
}
