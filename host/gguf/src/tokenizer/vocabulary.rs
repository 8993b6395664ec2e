//! The tokens of a GGUF file with their types.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::error::Problem;
use crate::metadata::Metadata;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";

/// Types of tokens. Those of type 5 pad the vocabulary.
const NORMAL: u32 = 1;
const UNKNOWN: u32 = 2;
const CONTROL: u32 = 3;
const USER_DEFINED: u32 = 4;
const BYTE: u32 = 6;

/// Tokens by their ids.
pub struct Vocabulary<'a> {
    texts: Vec<&'a str>,
    types: Vec<u32>,
    ids: HashMap<&'a str, u32>,
}

impl<'a> Vocabulary<'a> {
    /// Reads the tokens of a model whose embedding has `rows`.
    ///
    /// # Errors
    /// If there are more tokens than rows, or types for another number of tokens, or two tokens are equal.
    pub fn read(metadata: &Metadata<'a>, rows: u64) -> Result<Self, Problem> {
        let texts = metadata.texts(TOKENS)?.ok_or_else(|| Problem::damaged(format!("key `{TOKENS}` is missing")))?;
        let types = metadata.numbers(TYPES)?.unwrap_or_else(|| vec![NORMAL; texts.len()]);
        let what = if texts.len() as u64 > rows {
            format!("its tokenizer has {} tokens, but the embedding has {rows} rows", texts.len())
        } else if texts.len() != types.len() {
            format!("it has {} tokens, but types for {}", texts.len(), types.len())
        } else if let Some(unknown) = types.iter().find(|kind| !(NORMAL..=BYTE).contains(*kind)) {
            format!("a token has the unknown type {unknown}")
        } else {
            let mut ids = HashMap::with_capacity(texts.len());
            let twice = (0_u32..).zip(&texts).find(|(id, text)| ids.insert(**text, *id).is_some());
            match twice {
                None => return Ok(Self { texts, types, ids }),
                Some((id, text)) => format!("token {id} is `{}`, as another one", text.escape_debug()),
            }
        };
        Err(Problem::damaged(what))
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub fn text(&self, id: u32) -> Option<&'a str> {
        self.texts.get(id as usize).copied()
    }

    /// Tokens with their ids, without those that pad the vocabulary. Special tokens are among them: `tokenizers` gives new
    /// ids to added tokens that the vocabulary does not have.
    pub fn used(&self) -> impl Iterator<Item = (u32, &'a str)> {
        self.of_types(&[NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE])
    }

    /// Tokens that merges can join.
    pub fn joined(&self) -> impl Iterator<Item = (u32, &'a str)> {
        self.of_types(&[NORMAL])
    }

    /// All tokens with their ids.
    pub fn all(&self) -> impl Iterator<Item = (u32, &'a str)> {
        (0..).zip(self.texts.iter().copied())
    }

    /// The token for text that has no token.
    pub fn unknown(&self) -> Option<&'a str> {
        self.of_types(&[UNKNOWN]).next().map(|(_, text)| text)
    }

    /// `added_tokens`: those that are found in a text before it is split.
    pub fn added(&self) -> Vec<Value> {
        self.of_types(&[UNKNOWN, CONTROL, USER_DEFINED])
            .map(|(id, text)| {
                json!({
                    "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": self.types.get(id as usize) != Some(&USER_DEFINED),
                })
            })
            .collect()
    }

    fn of_types(&self, types: &'static [u32]) -> impl Iterator<Item = (u32, &'a str)> {
        self.all().zip(&self.types).filter(|(_, kind)| types.contains(*kind)).map(|(token, _)| token)
    }
}
