//! The release file at the start of an upload, separated from the component that follows it.
//!
//! An upload may arrive one byte at a time. Each byte is therefore searched at most twice, whatever the chunks are.

use bytes::{Bytes, BytesMut};

/// Separator of release file and component: the last line end of the file and an empty line.
const SEPARATOR: &[u8] = b"\n\n";

/// Bytes of an upload up to the separator.
#[derive(Debug, Default)]
pub(crate) struct ReleaseHead {
    bytes: BytesMut,
    /// Start of the bytes in which the separator may still begin.
    searched: usize,
}

impl ReleaseHead {
    /// Appends a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
    }

    /// Number of received bytes without a separator.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that the next search examines.
    fn unsearched(&self) -> &[u8] {
        &self.bytes[self.searched..]
    }

    /// Takes the release file and the bytes of the component that arrived with it; `None` until the separator arrives.
    pub fn take(&mut self) -> Option<(Vec<u8>, Bytes)> {
        let found = self.unsearched().windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let Some(position) = found else {
            // The separator can begin in the last byte.
            self.searched = self.bytes.len().saturating_sub(SEPARATOR.len() - 1);
            return None;
        };
        let end = self.searched + position;
        let mut file = self.bytes.split_to(end + SEPARATOR.len());
        // The empty line does not belong to the file.
        file.truncate(end + 1);
        Some((file.to_vec(), self.bytes.split().freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches after each chunk, as the server does. Returns what was found and the number of examined bytes.
    fn search(chunks: &[&[u8]]) -> (Option<(Vec<u8>, Bytes)>, usize) {
        let (mut head, mut examined) = (ReleaseHead::default(), 0);
        for chunk in chunks {
            head.push(chunk);
            examined += head.unsearched().len();
            if let Some(found) = head.take() {
                return (Some(found), examined);
            }
        }
        (None, examined)
    }

    /// A token's holder must not make the server search a growing buffer from its start after each byte.
    #[test]
    fn single_bytes_are_searched_in_linear_time() {
        let bytes = vec![b'x'; 1 << 20];
        let chunks: Vec<&[u8]> = bytes.chunks(1).collect();
        let (found, examined) = search(&chunks);
        assert!(found.is_none());
        assert!(examined <= 2 * bytes.len(), "{examined} bytes were examined");
    }

    #[test]
    fn separator_is_found_in_any_chunks() {
        let upload = b"{\n \"a\": 1\n}\n\n\0asm\n\nrest";
        for size in 1..=upload.len() {
            let chunks: Vec<&[u8]> = upload.chunks(size).collect();
            let (file, first) = search(&chunks).0.unwrap_or_else(|| panic!("chunks of {size} bytes"));
            assert_eq!(file, b"{\n \"a\": 1\n}\n", "chunks of {size} bytes");
            assert!(b"\0asm\n\nrest".starts_with(&first), "chunks of {size} bytes");
        }
        let (_, first) = search(&[&upload[..]]).0.expect("a separator");
        assert_eq!(first, &b"\0asm\n\nrest"[..]);
    }
}
