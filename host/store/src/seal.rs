//! Digests that a file holds about itself, so that they cannot be lost or be older than the file.
//!
//! A mark announces the digest, which is computed with zeros at its own position. A Parquet part holds both in its
//! metadata, a JSON file in a field, and a TOML file in a comment on its last line.

use std::ops::Range;

use gymkhana_registry::Digest;

/// Problem of a file without a mark.
const ABSENT: &str = "it has no digest, so another program or an older version wrote it";
/// Problem of a file whose digest is that of other bytes.
const WRONG: &str = "its digest does not match its content";

/// A kind of digest.
pub(crate) struct Seal {
    mark: &'static str,
    /// Number of hexadecimal digits.
    digits: usize,
    /// Digest of the pieces before, at and after the position of the digest.
    digest: fn([&[u8]; 3]) -> String,
}

/// Digest of Parquet parts, which are large.
pub(crate) const PART: Seal = Seal { mark: "crc32 of this file with zeros here: ", digits: 8, digest: crc32 };
/// Digest of JSON and TOML files.
pub(crate) const TEXT: Seal = Seal { mark: "sha256 of this file with zeros here: ", digits: 64, digest: sha256 };

impl Seal {
    /// Mark and zeros, to be written before the digest is known.
    pub fn unsealed(&self) -> String {
        format!("{}{}", self.mark, "0".repeat(self.digits))
    }

    /// Writes the digest over the zeros of an unsealed file. Returns false if the file has no position for it.
    pub fn seal(&self, bytes: &mut [u8]) -> bool {
        let Some(place) = self.place(bytes) else { return false };
        let digest = self.digest(bytes, &place);
        bytes[place].copy_from_slice(digest.as_bytes());
        true
    }

    /// Verifies the digest and returns the byte offset of its mark. The error describes the problem.
    pub fn verify(&self, bytes: &[u8]) -> Result<usize, &'static str> {
        let place = self.place(bytes).ok_or(ABSENT)?;
        if self.digest(bytes, &place).as_bytes() == &bytes[place.clone()] {
            Ok(place.start - self.mark.len())
        } else {
            Err(WRONG)
        }
    }

    /// Byte range of the digest: after the last mark, because texts before it, such as those of episodes, may contain
    /// another mark.
    fn place(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let mark = bytes.windows(self.mark.len()).rposition(|window| window == self.mark.as_bytes())?;
        let start = mark + self.mark.len();
        Some(start..start + self.digits).filter(|place| place.end <= bytes.len())
    }

    fn digest(&self, bytes: &[u8], place: &Range<usize>) -> String {
        let zeros = "0".repeat(self.digits);
        (self.digest)([&bytes[..place.start], zeros.as_bytes(), &bytes[place.end..]])
    }
}

fn crc32(pieces: [&[u8]; 3]) -> String {
    let mut hasher = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    format!("{:08x}", hasher.finalize())
}

fn sha256(pieces: [&[u8]; 3]) -> String {
    Digest::of(&pieces.concat()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_is_detected() {
        for seal in [PART, TEXT] {
            let text = format!("columns with {} in them, and metadata: {} behind", seal.unsealed(), seal.unsealed());
            let mut bytes = text.into_bytes();
            assert_eq!(seal.verify(&bytes), Err(WRONG), "it is not sealed yet");
            assert!(seal.seal(&mut bytes) && seal.verify(&bytes).is_ok());
            for place in 0..bytes.len() {
                for bit in 0..8 {
                    bytes[place] ^= 1 << bit;
                    assert!(seal.verify(&bytes).is_err(), "bit {bit} of byte {place}");
                    bytes[place] ^= 1 << bit;
                }
                assert!(seal.verify(&bytes[..place]).is_err(), "cut at {place}");
            }
            assert!(seal.verify(&bytes).is_ok());
            assert!(!seal.seal(&mut b"no mark".to_vec()));
            assert_eq!(seal.verify(b"no mark"), Err(ABSENT));
        }
    }
}
