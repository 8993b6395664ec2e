//! Tokens and their numbers in JSON: base64 of little-endian words, which keeps every bit.

use std::borrow::Cow;

use serde::{Deserializer, Serializer};

use crate::bytes;

/// Bytes of a word.
const WORD: usize = 4;

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<WORD>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// A list of tokens.
pub(super) mod tokens {
    use serde::de::Error as _;

    use super::{Cow, Deserializer, Serializer, WORD, bytes, words};

    pub(crate) fn serialize<S: Serializer>(tokens: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        let packed: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        bytes::serialize(&packed, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, [u32]>, D::Error> {
        let packed = bytes::deserialize(deserializer)?;
        if packed.len() % WORD != 0 {
            return Err(D::Error::custom("a token is cut off"));
        }
        Ok(Cow::Owned(words(&packed)))
    }
}

/// Sampled tokens: the columns `tokens`, `log_probs`, `entropies` and `versions`, one after the other.
pub(super) mod sampled {
    use serde::de::Error as _;
    use serde::ser::Error as _;

    use super::{Cow, Deserializer, Serializer, WORD, bytes, words};
    use crate::Sampled;

    /// Columns of a reply.
    const COLUMNS: usize = 4;

    pub(crate) fn serialize<S: Serializer>(sampled: &Sampled, serializer: S) -> Result<S::Ok, S::Error> {
        let Sampled { tokens, log_probs, entropies, versions } = sampled;
        let length = tokens.len();
        if [log_probs.len(), entropies.len(), versions.len()].iter().any(|other| *other != length) {
            return Err(S::Error::custom("the columns of a reply have different lengths"));
        }
        let mut packed = Vec::with_capacity(length * COLUMNS * WORD);
        packed.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        packed.extend(log_probs.iter().chain(entropies).flat_map(|number| number.to_le_bytes()));
        packed.extend(versions.iter().flat_map(|version| version.to_le_bytes()));
        bytes::serialize(&packed, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'static, Sampled>, D::Error> {
        let packed = bytes::deserialize(deserializer)?;
        if packed.len() % (COLUMNS * WORD) != 0 {
            return Err(D::Error::custom("the columns of a reply have different lengths"));
        }
        let length = packed.len() / COLUMNS;
        let column = |number: usize| words(&packed[number * length..(number + 1) * length]);
        let floats = |number| column(number).into_iter().map(f32::from_bits).collect();
        let (log_probs, entropies) = (floats(1), floats(2));
        Ok(Cow::Owned(Sampled { tokens: column(0), log_probs, entropies, versions: column(3) }))
    }
}
