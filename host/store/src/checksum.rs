//! A part's checksum, inside the part itself: no second file can be lost or be of another moment.
//!
//! It stands as text in the file's metadata: the crc32 of the whole file with zeros where the checksum stands.

use std::ops::Range;

/// The metadata's key.
pub(crate) const CHECKSUM_KEY: &str = "gymkhana:checksum";

const MARK: &str = "crc32 of this file with zeros here: ";
const ZEROS: &[u8; 8] = b"00000000";

/// The metadata's value while the checksum is not known.
pub(crate) fn unsealed() -> String {
    format!("{MARK}{}", String::from_utf8_lossy(ZEROS))
}

/// Puts the checksum into a file that has zeros in its place; false if there is no such place.
pub(crate) fn seal(bytes: &mut [u8]) -> bool {
    let Some(place) = place(bytes) else { return false };
    let sum = sum(bytes, &place);
    bytes[place].copy_from_slice(sum.as_bytes());
    true
}

/// Whether every byte is as it was when the file was sealed.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    place(bytes).is_some_and(|place| sum(bytes, &place).as_bytes() == &bytes[place])
}

/// Where the checksum stands: behind the last mark, since texts of episodes, which come before the metadata, may hold
/// another.
fn place(bytes: &[u8]) -> Option<Range<usize>> {
    let mark = bytes.windows(MARK.len()).rposition(|window| window == MARK.as_bytes())?;
    let start = mark + MARK.len();
    Some(start..start + ZEROS.len()).filter(|place| place.end <= bytes.len())
}

fn sum(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    for piece in [&bytes[..place.start], ZEROS, &bytes[place.end..]] {
        hasher.update(piece);
    }
    format!("{:08x}", hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_is_seen() {
        let text = format!("columns with {} in them, and metadata: {} behind", unsealed(), unsealed());
        let mut bytes = text.into_bytes();
        assert!(!is_whole(&bytes), "it is not sealed yet");
        assert!(seal(&mut bytes) && is_whole(&bytes));
        for place in 0..bytes.len() {
            for bit in 0..8 {
                bytes[place] ^= 1 << bit;
                assert!(!is_whole(&bytes), "bit {bit} of byte {place}");
                bytes[place] ^= 1 << bit;
            }
            assert!(!is_whole(&bytes[..place]), "cut at {place}");
        }
        assert!(is_whole(&bytes));
        assert!(!seal(&mut b"no mark".to_vec()));
    }
}
