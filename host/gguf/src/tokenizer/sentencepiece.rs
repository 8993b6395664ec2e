//! SentencePiece's BPE with scores, the kind `llama`, as BPE with merges and bytes as a fallback.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::TokenizerParts;
use super::vocabulary::Vocabulary;
use crate::error::Problem;
use crate::metadata::Metadata;

const SCORES: &str = "tokenizer.ggml.scores";
const PREFIX: &str = "tokenizer.ggml.add_space_prefix";
/// SentencePiece's letter for a space.
const SPACE: &str = "\u{2581}";
/// Longest piece that merges can make, in bytes. Those of published models have up to some dozens.
const MAX_PIECE_BYTES: usize = 1 << 10;

/// Reads vocabulary and scores.
pub fn read(metadata: &Metadata<'_>, vocabulary: &Vocabulary<'_>) -> Result<TokenizerParts, Problem> {
    let scores = metadata.floats(SCORES)?.ok_or_else(|| Problem::damaged(format!("key `{SCORES}` is missing")))?;
    let count = vocabulary.all().count();
    if scores.len() != count {
        return Err(Problem::damaged(format!("it has {count} tokens, but {} scores", scores.len())));
    }
    let tokens: Map<String, Value> = vocabulary.all().map(|(id, text)| (text.to_owned(), json!(id))).collect();
    let replace = |from: &str, to: &str| json!({ "type": "Replace", "pattern": { "String": from }, "content": to });
    let has_prefix = metadata.switch(PREFIX)?.unwrap_or(true);
    let mut normalizers = vec![replace(" ", SPACE)];
    let mut decoders = vec![replace(SPACE, " "), json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })];
    if has_prefix {
        normalizers.insert(0, json!({ "type": "Prepend", "prepend": SPACE }));
        decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    Ok(TokenizerParts {
        normalizer: json!({ "type": "Sequence", "normalizers": normalizers }),
        pre_tokenizer: Value::Null,
        post_processor: None,
        decoder: json!({ "type": "Sequence", "decoders": decoders }),
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": vocabulary.unknown(), "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": tokens, "merges": merges(vocabulary, &scores)?,
        }),
        adds_begin: true,
    })
}

/// A pair of tokens that are joined, with the score of the result.
struct Merge<'a> {
    left: (u32, &'a str),
    right: (u32, &'a str),
    score: f32,
}

/// Pairs in the order in which SentencePiece joins them: those with the highest scores first.
fn merges(vocabulary: &Vocabulary<'_>, scores: &[f32]) -> Result<Vec<Value>, Problem> {
    let mut merges = Vec::new();
    for (id, text) in vocabulary.joined() {
        if text.len() > MAX_PIECE_BYTES {
            let what = format!("token {id} has {} bytes, and the limit is {MAX_PIECE_BYTES}", text.len());
            return Err(Problem::damaged(what));
        }
        let score = scores.get(id as usize).copied().unwrap_or_default();
        for (place, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(place);
            if let (Some(first), Some(second)) = (vocabulary.id(left), vocabulary.id(right)) {
                merges.push(Merge { left: (first, left), right: (second, right), score });
            }
        }
    }
    let order = |a: &Merge<'_>, b: &Merge<'_>| {
        let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| (a.left.0, a.right.0).cmp(&(b.left.0, b.right.0)))
    };
    merges.sort_by(order);
    Ok(merges.iter().map(|merge| json!([merge.left.1, merge.right.1])).collect())
}
