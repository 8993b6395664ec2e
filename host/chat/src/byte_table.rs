//! The id-to-bytes table of byte-level BPE tokenizers, which write bytes as characters like GPT-2's.
//!
//! The table replaces the tokenizer's own decoder, which allocates a string for every token.

use std::collections::HashMap;

use serde_json::Value as Json;
use tokenizers::Tokenizer;

/// The bytes of every token.
pub(crate) struct TokenBytes {
    /// The bytes of all tokens, concatenated in the order of ids.
    bytes: Vec<u8>,
    /// Offset of each token's first byte, and the length of `bytes` at the end.
    starts: Vec<usize>,
}

impl TokenBytes {
    /// The table of a tokenizer; `None` if its decoder is not byte-level.
    pub(crate) fn of(tokenizer: &Tokenizer, file: &Json) -> Option<Self> {
        if file["decoder"]["type"] != "ByteLevel" {
            return None;
        }
        let letters = byte_letters();
        let last = tokenizer.get_vocab(true).into_values().max()?;
        let (mut bytes, mut starts) = (vec![], vec![0]);
        for id in 0..=last {
            let token = tokenizer.id_to_token(id).unwrap_or_default();
            let decoded: Option<Vec<u8>> = token.chars().map(|letter| letters.get(&letter).copied()).collect();
            // Added tokens are not in the byte alphabet; their text is their own.
            bytes.extend(decoded.unwrap_or_else(|| token.into_bytes()));
            starts.push(bytes.len());
        }
        Some(Self { bytes, starts })
    }

    /// The text of these tokens, with U+FFFD for invalid UTF-8. An id outside the table has no text.
    pub(crate) fn text(&self, tokens: &[u32]) -> String {
        let pieces = tokens.iter().filter_map(|token| {
            let end = *self.starts.get(*token as usize + 1)?;
            self.bytes.get(self.starts[*token as usize]..end)
        });
        let mut bytes = Vec::with_capacity(4 * tokens.len());
        pieces.for_each(|piece| bytes.extend_from_slice(piece));
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// GPT-2's alphabet: printable bytes map to themselves, the others to characters from U+0100 on.
fn byte_letters() -> HashMap<char, u8> {
    let prints = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let (plain, others): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(prints);
    let others = (256_u32..).filter_map(char::from_u32).zip(others);
    plain.into_iter().map(|byte| (char::from(byte), byte)).chain(others).collect()
}
