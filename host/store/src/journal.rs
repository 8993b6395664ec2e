//! The journal: finished episodes, one frame each, until they become a Parquet part.
//!
//! The file begins with `GYMJ` and a schema number; a frame is the payload's length and crc32, each four little-endian
//! bytes, and the payload, an episode's [`Entry`]. A frame that is not whole at the end of the file is the mark
//! of a crash and is cut off; one with whole frames after it is damage, which nobody repairs by guessing.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gymkhana_record::EPISODE_SCHEMA;

use crate::StoreError;
use crate::entry::{BadEntry, Entry};
use crate::folder::write;

const MAGIC: &[u8; 4] = b"GYMJ";
const JOURNAL_SCHEMA: u32 = 2;
const HEADER: usize = 8;
const FRAME_HEADER: usize = 8;
/// The largest payload, in bytes: no text column of a part can hold twice as much.
const LARGEST: u32 = 1 << 30;

/// What is in a journal file.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The entries of the whole frames.
    pub entries: Vec<Entry>,
    /// Where the whole frames end, in bytes from the start of the file.
    pub end: u64,
    /// How many bytes come after that.
    pub torn: u64,
}

/// Reads a journal, up to its last whole frame.
pub(crate) fn recover(path: &Path) -> Result<Recovered, StoreError> {
    let bytes = fs::read(path).map_err(|source| StoreError::io(path, source))?;
    check_header(path, &bytes)?;
    let mut entries = Vec::new();
    let mut place = HEADER;
    while let Some(payload) = whole_frame(&bytes, place) {
        let entry = Entry::decode(&bytes[payload.clone()]).map_err(|error| match error {
            BadEntry::Json(source) => StoreError::json(path, source),
            BadEntry::Schema(found) => StoreError::Schema { path: path.to_owned(), found, known: EPISODE_SCHEMA },
            BadEntry::Length => StoreError::Damaged {
                path: path.to_owned(),
                offset: place as u64,
                what: "this frame does not hold what its lengths say",
            },
        })?;
        entries.push(entry);
        place = payload.end;
    }
    if (place + 1..bytes.len()).any(|later| whole_frame(&bytes, later).is_some()) {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            offset: place as u64,
            what: "this frame is broken and whole ones follow it",
        });
    }
    Ok(Recovered { entries, end: place as u64, torn: (bytes.len() - place) as u64 })
}

fn check_header(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>().filter(|(header, _)| header.starts_with(MAGIC)) else {
        return Err(StoreError::Damaged { path: path.to_owned(), offset: 0, what: "this is no episode journal" });
    };
    let found = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if found == JOURNAL_SCHEMA {
        Ok(())
    } else {
        Err(StoreError::Schema { path: path.to_owned(), found, known: JOURNAL_SCHEMA })
    }
}

/// Where the payload of the frame at `place` is, if the frame is whole. An empty payload is none: a file that was
/// extended and not written is full of zeros, and so would be its checksum.
fn whole_frame(bytes: &[u8], place: usize) -> Option<Range<usize>> {
    let (header, rest) = bytes.get(place..)?.split_first_chunk::<FRAME_HEADER>()?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let checksum = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let payload = rest.get(..length).filter(|payload| !payload.is_empty())?;
    let start = place + FRAME_HEADER;
    (crc32fast::hash(payload) == checksum).then_some(start..start + length)
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Where the next frame begins.
    end: u64,
}

impl Journal {
    /// Makes a new journal, or opens one whose whole frames end at `end` and cuts off what comes after.
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

    /// Where the journal is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an entry, so that it outlives this process.
    pub fn append(&mut self, entry: &Entry) -> Result<(), StoreError> {
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
            // The next frame begins where this one did, whether or not its first bytes can be taken back.
            let _ = self.file.set_len(self.end);
            return Err(failed(source));
        }
        self.end += frame.len() as u64;
        Ok(())
    }

    /// Makes what was appended outlive a crash of the machine.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|source| StoreError::io(&self.path, source))
    }
}
