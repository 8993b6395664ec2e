//! Split of a row that names none.

use sha2::{Digest, Sha256};

/// Split for training.
pub const TRAIN: &str = "train";

/// Split of held-out rows.
pub const TEST: &str = "test";

/// Split of a row with this last message: `test` for `test_percent` of all texts, chosen by their hash. Equal texts have
/// equal splits in every file.
#[must_use]
pub fn split_of(text: &str, test_percent: u64) -> &'static str {
    let digest = Sha256::digest(text.as_bytes());
    let number = digest[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    if number % 100 < test_percent { TEST } else { TRAIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_follows_the_hash() {
        // SHA-256 of "abc" begins with ba7816bf8f01cfea, which is 13436514500253700074.
        assert_eq!([74, 75].map(|percent| split_of("abc", percent)), [TRAIN, TEST]);
        assert_eq!([0, 100].map(|percent| split_of("", percent)), [TRAIN, TEST]);
    }
}
