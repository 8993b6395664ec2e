//! A file on disk, read at any place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::ReadAt;

/// A file on disk.
#[derive(Debug)]
pub struct OnDisk {
    file: File,
    size: u64,
}

impl OnDisk {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file, size })
    }
}

impl ReadAt for OnDisk {
    type Error = io::Error;

    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, position: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], position + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }
}
