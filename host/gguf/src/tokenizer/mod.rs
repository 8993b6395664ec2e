//! Files of a tokenizer in the format of the library `tokenizers`, from the keys `tokenizer.*` of a GGUF file.

mod bpe;
mod pre_tokenizer;
mod sentencepiece;
mod settings;
mod vocabulary;

use serde_json::{Map, Value, json};

use crate::error::Problem;
use crate::metadata::Metadata;
use vocabulary::Vocabulary;

/// Key of the kind of tokenizer.
const KIND: &str = "tokenizer.ggml.model";

/// Writes the tokenizer's files, and the ids of its tokens into `config.json`.
///
/// # Errors
/// If keys are missing or contradict each other, if the kind of tokenizer is not supported, or if it has more tokens
/// than the embedding has `rows`.
pub fn read(
    metadata: &Metadata<'_>,
    rows: u64,
    config: &mut Map<String, Value>,
) -> Result<Vec<(&'static str, String)>, Problem> {
    let kind = metadata.text(KIND)?.ok_or_else(|| Problem::damaged(format!("key `{KIND}` is missing")))?;
    let vocabulary = Vocabulary::read(metadata, rows)?;
    let kind = match kind {
        "gpt2" => bpe::read(metadata, &vocabulary)?,
        "llama" => sentencepiece::read(metadata, &vocabulary)?,
        other => {
            return Err(Problem::unsupported(
                format!("its tokenizer is of the kind `{}`", other.escape_debug()),
                "use a model whose tokenizer is of the kind `gpt2` or `llama`",
            ));
        }
    };
    let special = settings::SpecialTokens::read(metadata, &vocabulary, kind.adds_begin)?;
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": kind.normalizer,
        "pre_tokenizer": kind.pre_tokenizer,
        "post_processor": special.post_processor(kind.post_processor),
        "decoder": kind.decoder,
        "model": kind.model,
    });
    config.extend(special.ids());
    let text = |value: Value| format!("{value:#}\n");
    Ok(vec![
        // Without spaces: with a line for each token, the file is twice as large.
        ("tokenizer.json", format!("{tokenizer}\n")),
        ("tokenizer_config.json", text(special.configuration(metadata, config)?)),
        ("generation_config.json", text(special.generation())),
    ])
}

/// The parts of `tokenizer.json` by which kinds of tokenizers differ.
struct TokenizerParts {
    normalizer: Value,
    pre_tokenizer: Value,
    /// Processing of tokens before those of the beginning and the end are added.
    post_processor: Option<Value>,
    decoder: Value,
    model: Value,
    /// Whether a text begins with the token of the beginning, if the file does not tell.
    adds_begin: bool,
}
