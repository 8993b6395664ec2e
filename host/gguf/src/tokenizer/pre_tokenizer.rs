//! The table of `tokenizer.ggml.pre`: how byte-level BPE splits a text before merges.

use serde_json::{Value, json};

use crate::error::Problem;
use crate::metadata::Metadata;

const KEY: &str = "tokenizer.ggml.pre";

/// Splitting of texts.
pub struct Splitting {
    pub normalizer: Value,
    pub pre_tokenizer: Value,
    /// Whether a part of a text that is a token becomes this token without merges.
    pub ignores_merges: bool,
    /// Whether a text begins with the token of the beginning, if the file does not tell.
    pub adds_begin: bool,
}

/// Expressions of llama.cpp, each of which splits the parts that those before it left.
enum Split {
    /// As GPT-2, whose expression is a part of `tokenizers`.
    Gpt2,
    /// Each digit alone, then as GPT-2.
    DigitsAndGpt2,
    /// One after the other.
    Expressions(&'static [&'static str]),
}

struct PreTokenizerRow {
    /// Values of the key.
    names: &'static [&'static str],
    split: Split,
    /// Whether texts are normalised to NFC first.
    composes: bool,
    ignores_merges: bool,
    adds_begin: bool,
}

/// Of llama.cpp, for files that name no pre-tokenizer.
const DEFAULT: &[&str] = &[
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
];
const LLAMA: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
const QWEN: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

const ROWS: [PreTokenizerRow; 6] = [
    PreTokenizerRow {
        names: &["default"],
        split: Split::Expressions(DEFAULT),
        composes: false,
        ignores_merges: false,
        adds_begin: false,
    },
    PreTokenizerRow {
        names: &["gpt-2", "olmo", "mpt", "phi-2"],
        split: Split::Gpt2,
        composes: false,
        ignores_merges: false,
        adds_begin: false,
    },
    PreTokenizerRow {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell"],
        split: Split::DigitsAndGpt2,
        composes: false,
        ignores_merges: false,
        adds_begin: false,
    },
    PreTokenizerRow {
        names: &["qwen2", "deepseek-r1-qwen"],
        split: Split::Expressions(QWEN),
        composes: true,
        ignores_merges: false,
        adds_begin: false,
    },
    PreTokenizerRow {
        names: &["llama-bpe", "llama-v3", "llama3"],
        split: Split::Expressions(LLAMA),
        composes: false,
        ignores_merges: true,
        adds_begin: true,
    },
    PreTokenizerRow {
        names: &["dbrx", "smaug-bpe"],
        split: Split::Expressions(LLAMA),
        composes: false,
        ignores_merges: false,
        adds_begin: false,
    },
];

/// The splitting that a file names.
///
/// # Errors
/// If the table does not have it.
pub fn of(metadata: &Metadata<'_>) -> Result<Splitting, Problem> {
    let name = metadata.text(KEY)?.unwrap_or("default");
    let row = ROWS.iter().find(|row| row.names.contains(&name)).ok_or_else(|| {
        let known: Vec<&str> = ROWS.iter().flat_map(|row| row.names).copied().collect();
        Problem::unsupported(
            format!("its tokenizer splits texts as `{}`", name.escape_debug()),
            format!("use a model with one of these values of `{KEY}`: {}", known.join(", ")),
        )
    })?;
    Ok(Splitting {
        normalizer: if row.composes { json!({ "type": "NFC" }) } else { Value::Null },
        pre_tokenizer: row.split.pre_tokenizer(),
        ignores_merges: row.ignores_merges,
        adds_begin: row.adds_begin,
    })
}

impl Split {
    fn pre_tokenizer(&self) -> Value {
        let digits = json!({ "type": "Digits", "individual_digits": true });
        let parts = match self {
            Self::Gpt2 => return byte_level(true, true),
            Self::DigitsAndGpt2 => vec![digits, byte_level(true, true)],
            Self::Expressions(expressions) => {
                let splits = expressions.iter().map(|expression| {
                    json!({
                        "type": "Split", "pattern": { "Regex": expression }, "behavior": "Isolated", "invert": false,
                    })
                });
                splits.chain([byte_level(false, false)]).collect()
            }
        };
        json!({ "type": "Sequence", "pretokenizers": parts })
    }
}

/// The part of `tokenizers` that writes bytes as letters, and splits texts as GPT-2 does if asked to.
pub fn byte_level(trim_offsets: bool, use_regex: bool) -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": trim_offsets, "use_regex": use_regex })
}
