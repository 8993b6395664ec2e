//! Checksum of a Parquet part, stored inside the part, so that it cannot be lost or be older than the file.
//!
//! The file's metadata holds it as text: the crc32 of the whole file, computed with zeros at the checksum's position.

use std::ops::Range;

/// Key of the checksum in the Parquet metadata.
pub(crate) const CHECKSUM_KEY: &str = "gymkhana:checksum";

const MARK: &str = "crc32 of this file with zeros here: ";
const ZEROS: &[u8; 8] = b"00000000";

/// Metadata value before the checksum is computed.
pub(crate) fn unsealed() -> String {
    format!("{MARK}{}", String::from_utf8_lossy(ZEROS))
}

/// Writes the checksum over the zeros of an unsealed file. Returns false if the file has no position for it.
pub(crate) fn seal(bytes: &mut [u8]) -> bool {
    let Some(place) = place(bytes) else { return false };
    let sum = sum(bytes, &place);
    bytes[place].copy_from_slice(sum.as_bytes());
    true
}

/// Whether the checksum matches the bytes.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    place(bytes).is_some_and(|place| sum(bytes, &place).as_bytes() == &bytes[place])
}

/// Byte range of the checksum: after the last mark, because texts of episodes, which precede the metadata, may contain
/// another mark.
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
    fn every_changed_bit_is_detected() {
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
