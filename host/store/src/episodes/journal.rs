//! The journal: finished episodes, one frame each, until a commit moves them into a Parquet part.
//!
//! The file begins with `GYMJ` and a schema number (u32). A frame is the payload's length and crc32 (u32 each,
//! little-endian), followed by the payload, an episode's [`SerializedRecord`]. An incomplete frame at the end of the
//! file is left by a crash and is cut off. A broken frame with complete frames after it is damage and is reported as an
//! error.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gymkhana_record::EPISODE_SCHEMA;
use gymkhana_registry::read_regular_file;

use crate::StoreError;
use crate::episodes::entry::{BadEntry, SerializedRecord};
use crate::fs::write;

const MAGIC: &[u8; 4] = b"GYMJ";
const JOURNAL_SCHEMA: u32 = 2;
const HEADER: usize = 8;
const FRAME_HEADER: usize = 8;
/// Largest payload, in bytes. A text column of a part cannot hold twice as much.
const LARGEST: u32 = 1 << 30;

/// Content of a journal file.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Entries of the complete frames.
    pub entries: Vec<SerializedRecord>,
    /// End of the complete frames, in bytes from the start of the file.
    pub end: u64,
    /// Number of bytes after `end`.
    pub torn: u64,
}

/// Reads a journal up to its last complete frame.
pub(crate) fn recover(path: &Path) -> Result<Recovered, StoreError> {
    let bytes = read_regular_file(path).map_err(|source| StoreError::io(path, source))?;
    check_header(path, &bytes)?;
    let mut entries = Vec::new();
    let mut place = HEADER;
    while let Some(payload) = whole_frame(&bytes, place) {
        let entry = SerializedRecord::decode(&bytes[payload.clone()]).map_err(|error| match error {
            BadEntry::Json(source) => StoreError::json(path, source),
            BadEntry::Schema(found) => StoreError::Schema { path: path.to_owned(), found, known: EPISODE_SCHEMA },
            BadEntry::Length => StoreError::Damaged {
                path: path.to_owned(),
                offset: place as u64,
                what: "the lengths in this frame do not match its content",
            },
        })?;
        entries.push(entry);
        place = payload.end;
    }
    if (place + 1..bytes.len()).any(|later| whole_frame(&bytes, later).is_some()) {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            offset: place as u64,
            what: "this frame is broken, but complete frames follow it",
        });
    }
    Ok(Recovered { entries, end: place as u64, torn: (bytes.len() - place) as u64 })
}

fn check_header(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>().filter(|(header, _)| header.starts_with(MAGIC)) else {
        return Err(StoreError::Damaged { path: path.to_owned(), offset: 0, what: "this is not an episode journal" });
    };
    let found = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if found == JOURNAL_SCHEMA {
        Ok(())
    } else {
        Err(StoreError::Schema { path: path.to_owned(), found, known: JOURNAL_SCHEMA })
    }
}

/// Byte range of the payload of the frame at `place`, if the frame is complete. An empty payload is not a frame: a file
/// that was extended but not written contains zeros, which equal the length and checksum of an empty payload.
fn whole_frame(bytes: &[u8], place: usize) -> Option<Range<usize>> {
    let (header, rest) = bytes.get(place..)?.split_first_chunk::<FRAME_HEADER>()?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let checksum = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let payload = rest.get(..length).filter(|payload| !payload.is_empty())?;
    let start = place + FRAME_HEADER;
    (crc32fast::hash(payload) == checksum).then_some(start..start + length)
}

/// A journal that is open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Byte offset of the next frame.
    end: u64,
}

impl Journal {
    /// Creates a journal, or opens one whose complete frames end at `end` and cuts off the bytes after it.
    pub fn open(path: &Path, end: Option<u64>) -> Result<Self, StoreError> {
        if end.is_none() {
            write(path, &[&MAGIC[..], &JOURNAL_SCHEMA.to_le_bytes()].concat())?;
        }
        let end = end.unwrap_or(HEADER as u64);
        let failed = |source| StoreError::io(path, source);
        let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.set_len(end).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, end })
    }

    /// Path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an entry. It survives the end of the process.
    pub fn append(&mut self, entry: &SerializedRecord) -> Result<(), StoreError> {
        let failed = |source| StoreError::io(&self.path, source);
        let Some(length) = u32::try_from(entry.len()).ok().filter(|length| *length <= LARGEST) else {
            return Err(StoreError::Unstorable(entry.record.id, "it is larger than 1 GiB"));
        };
        let mut frame = vec![0; FRAME_HEADER];
        entry.encode(&mut frame);
        let payload = &frame[FRAME_HEADER..];
        let checksum = crc32fast::hash(payload);
        frame[..4].copy_from_slice(&length.to_le_bytes());
        frame[4..FRAME_HEADER].copy_from_slice(&checksum.to_le_bytes());
        if let Err(source) = self.file.write_all_at(&frame, self.end) {
            // The next frame begins at the same offset, even if the partial frame cannot be cut off.
            let _ = self.file.set_len(self.end);
            return Err(failed(source));
        }
        self.end += frame.len() as u64;
        Ok(())
    }

    /// Flushes the file to disk, so that its entries survive a crash of the machine.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|source| StoreError::io(&self.path, source))
    }
}
