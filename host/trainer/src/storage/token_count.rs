//! Ids of a tokenizer's file.

use serde_json::Value;

use crate::ModelConfig;

/// Numbers of tokens that a tokenizer knows: its largest ids, plus one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// Of the vocabulary.
    pub vocabulary: u64,
    /// Of added tokens.
    pub added: u64,
}

impl TokenCount {
    /// Of a tokenizer in Hugging Face's format; `None` if the text is not JSON.
    #[must_use]
    pub fn of(tokenizer: &str) -> Option<Self> {
        let tokenizer: Value = serde_json::from_str(tokenizer).ok()?;
        let above = |largest: Option<u64>| largest.map_or(0, |id| id.saturating_add(1));
        let vocabulary = match &tokenizer["model"]["vocab"] {
            // Pieces of a Unigram model, whose places are their ids.
            Value::Array(pieces) => pieces.len() as u64,
            tokens => {
                above(tokens.as_object().into_iter().flat_map(|tokens| tokens.values()).filter_map(Value::as_u64).max())
            }
        };
        let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
        Some(Self { vocabulary, added: above(added.filter_map(|token| token["id"].as_u64()).max()) })
    }

    /// What is wrong if the embedding has no rows for the vocabulary, and a hint.
    ///
    /// # Errors
    /// With the problem.
    pub fn check(self, config: &ModelConfig) -> Result<(), String> {
        let rows = config.vocab_size.unsigned_abs();
        if self.vocabulary <= rows {
            return Ok(());
        }
        Err(format!(
            "the tokenizer is larger than the embedding: {} tokens, {rows} rows\nhint: use the tokenizer with which the model \
             was trained",
            self.vocabulary
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_all_kinds_of_vocabularies_are_counted() {
        let of = |text: &str| TokenCount::of(text).map(|count| [count.vocabulary, count.added]);
        let map = r#"{"model": {"vocab": {"a": 0, "b": 7}}, "added_tokens": [{"id": 9}, {"id": 3}]}"#;
        assert_eq!(of(map), Some([8, 10]));
        assert_eq!(of(r#"{"model": {"vocab": [["a", 0.0], ["b", -1.0]]}}"#), Some([2, 0]));
        assert_eq!((of("{}"), of("{")), (Some([0, 0]), None));
    }
}
