//! Byte-level BPE, the kind `gpt2`.

use serde_json::{Map, Value, json};

use super::TokenizerParts;
use super::pre_tokenizer::{self, byte_level};
use super::vocabulary::Vocabulary;
use crate::error::Problem;
use crate::metadata::Metadata;

const MERGES: &str = "tokenizer.ggml.merges";

/// Reads vocabulary, merges and the splitting of texts.
pub fn read(metadata: &Metadata<'_>, vocabulary: &Vocabulary<'_>) -> Result<TokenizerParts, Problem> {
    let splitting = pre_tokenizer::of(metadata)?;
    let merges = metadata.texts(MERGES)?.ok_or_else(|| Problem::damaged(format!("key `{MERGES}` is missing")))?;
    let mut tokens: Map<String, Value> = vocabulary.used().map(|(id, text)| (text.to_owned(), json!(id))).collect();
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        let wrong =
            || Problem::damaged(format!("merge `{}` is not of two tokens of the vocabulary", merge.escape_debug()));
        let (left, right) = merge.split_once(' ').ok_or_else(wrong)?;
        for part in [left.to_owned(), right.to_owned(), format!("{left}{right}")] {
            let id = vocabulary.id(&part).ok_or_else(wrong)?;
            tokens.insert(part, json!(id));
        }
        pairs.push(json!([left, right]));
    }
    Ok(TokenizerParts {
        normalizer: splitting.normalizer,
        pre_tokenizer: splitting.pre_tokenizer,
        post_processor: Some(byte_level(false, false)),
        decoder: byte_level(true, true),
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": splitting.ignores_merges, "vocab": tokens, "merges": pairs,
        }),
        adds_begin: splitting.adds_begin,
    })
}
