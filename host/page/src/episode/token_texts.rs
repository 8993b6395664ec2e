//! The texts of tokens, from the tokenizer file in a run's folder.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use gymkhana_registry::read_regular_file;
use gymkhana_store::RunReader;
use serde_json::Value as Json;

/// Largest tokenizer file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Texts by token.
pub(crate) struct TokenTexts(HashMap<u32, String>);

impl TokenTexts {
    /// The vocabulary of a run: of its chat files, or of its newest checkpoint. `None` if neither has a tokenizer file
    /// that can be read; the tokens are then shown by their numbers.
    pub fn of(run: &RunReader) -> Option<Self> {
        let newest = run.checkpoints().ok().and_then(|paths| paths.into_iter().next_back());
        let folders = [Some(run.path().join("chat")), newest];
        folders.into_iter().flatten().find_map(|folder| Self::read(&folder.join("tokenizer.json")))
    }

    fn read(path: &Path) -> Option<Self> {
        if fs::metadata(path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let file: Json = serde_json::from_slice(&read_regular_file(path).ok()?).ok()?;
        Self::parse(&file)
    }

    fn parse(file: &Json) -> Option<Self> {
        let is_bytes = file["decoder"].to_string().contains("\"ByteLevel\"");
        let letters = if is_bytes { byte_letters() } else { HashMap::new() };
        let mut texts = HashMap::new();
        for (token, id) in file["model"]["vocab"].as_object()? {
            let id = u32::try_from(id.as_u64()?).ok()?;
            let text = if is_bytes { decoded(token, &letters) } else { token.replace('\u{2581}', " ") };
            texts.insert(id, text);
        }
        for added in file["added_tokens"].as_array().into_iter().flatten() {
            let id = added["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            if let (Some(id), Some(text)) = (id, added["content"].as_str()) {
                texts.insert(id, text.to_owned());
            }
        }
        Some(Self(texts))
    }

    /// Text of a token.
    pub fn text(&self, token: u32) -> Option<&str> {
        self.0.get(&token).map(String::as_str)
    }
}

/// A token of a byte-level tokenizer as text. Bytes that are not UTF-8 by themselves are U+FFFD.
fn decoded(token: &str, letters: &HashMap<char, u8>) -> String {
    let bytes: Option<Vec<u8>> = token.chars().map(|letter| letters.get(&letter).copied()).collect();
    bytes.map_or_else(|| token.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// GPT-2's alphabet: printable bytes are themselves, the others are characters from U+0100 on.
fn byte_letters() -> HashMap<char, u8> {
    let prints = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let (plain, others): (Vec<u8>, Vec<u8>) = (0..=u8::MAX).partition(prints);
    let others = (256_u32..).filter_map(char::from_u32).zip(others);
    plain.into_iter().map(|byte| (char::from(byte), byte)).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn byte_letters_are_decoded() {
        // In GPT-2's vocabulary `Ġ` is the space and `Ċ` the line end; `Ã¤` are the two bytes of `ä`.
        let file = json!({
            "decoder": { "type": "ByteLevel" },
            "model": { "vocab": { "Ġthe": 0, "Ċ": 1, "Ã¤": 2 } },
            "added_tokens": [{ "id": 3, "content": "<|im_end|>" }],
        });
        let vocabulary = TokenTexts::parse(&file).unwrap();
        let texts: Vec<_> = (0..5).map(|token| vocabulary.text(token)).collect();
        assert_eq!(texts, [Some(" the"), Some("\n"), Some("ä"), Some("<|im_end|>"), None]);
    }

    #[test]
    fn other_files_have_no_vocabulary() {
        assert!(TokenTexts::parse(&json!({ "model": {} })).is_none());
        assert!(TokenTexts::parse(&json!([1, 2])).is_none());
        let sentence_piece = json!({ "model": { "vocab": { "▁a": 7 } } });
        assert_eq!(TokenTexts::parse(&sentence_piece).unwrap().text(7), Some(" a"));
    }
}
