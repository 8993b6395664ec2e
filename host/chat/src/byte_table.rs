//! What tokens spell, where the tokenizer writes bytes as characters, as all of GPT-2's family do: a table in the place
//! of the tokenizer's own decoder, which makes strings of every token.

use std::collections::HashMap;

use serde_json::Value as Json;
use tokenizers::Tokenizer;

/// The bytes of every token.
pub(crate) struct TokenBytes {
    /// One token's bytes behind the other's, by id.
    bytes: Vec<u8>,
    /// Where each token's begin, and where the last one's end.
    starts: Vec<usize>,
}

impl TokenBytes {
    /// The table of a tokenizer; none if it decodes in another way.
    pub(crate) fn of(tokenizer: &Tokenizer, file: &Json) -> Option<Self> {
        if file["decoder"]["type"] != "ByteLevel" {
            return None;
        }
        let letters = byte_letters();
        let last = tokenizer.get_vocab(true).into_values().max()?;
        let (mut bytes, mut starts) = (vec![], vec![0]);
        for id in 0..=last {
            let token = tokenizer.id_to_token(id).unwrap_or_default();
            let spelt: Option<Vec<u8>> = token.chars().map(|letter| letters.get(&letter).copied()).collect();
            // A token that is no bytes, such as an added one, stands for itself.
            bytes.extend(spelt.unwrap_or_else(|| token.into_bytes()));
            starts.push(bytes.len());
        }
        Some(Self { bytes, starts })
    }

    /// The text of these tokens; an unknown one spells nothing.
    pub(crate) fn text(&self, tokens: &[u32]) -> String {
        let spelt = tokens.iter().filter_map(|token| {
            let end = *self.starts.get(*token as usize + 1)?;
            self.bytes.get(self.starts[*token as usize]..end)
        });
        let mut bytes = Vec::with_capacity(4 * tokens.len());
        spelt.for_each(|spelt| bytes.extend_from_slice(spelt));
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// GPT-2's alphabet: bytes that print stand for themselves, the others for characters from U+0100 on.
fn byte_letters() -> HashMap<char, u8> {
    let prints = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let (plain, others): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(prints);
    let others = (256_u32..).filter_map(char::from_u32).zip(others);
    plain.into_iter().map(|byte| (char::from(byte), byte)).chain(others).collect()
}
