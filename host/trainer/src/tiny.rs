//! The tiny byte-level model: small enough to learn from random weights on a CPU within minutes.

use std::path::Path;

use gymkhana_algorithm::TinyModel;
use serde_json::{Value, json};

use crate::storage::files::ModelFiles;
use crate::{ModelConfig, TrainerError};

/// Control tokens after the 256 bytes, in the order of their ids; the first has id 256.
const CONTROL_TOKENS: [&str; 7] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
];
const END_OF_TEXT: u32 = 256;
const END_OF_MESSAGE: u32 = 258;
/// 263 tokens and one unused id, so that the count is a multiple of eight.
const VOCABULARY: i64 = 264;

/// ChatML like Qwen's, but shorter, because every byte is a token here. The list of tools is not rendered: a model that
/// starts from random weights cannot read it and learns the calls from demonstrations instead.
const CHAT_TEMPLATE: &str = include_str!("chat_template.jinja");

/// The model's `config.json`.
pub(crate) fn config(tiny: &TinyModel) -> Result<ModelConfig, TrainerError> {
    tiny.check()?;
    let source = json!({
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": tiny.width,
        "intermediate_size": tiny.mlp,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": rope_theta(tiny.context),
        "tie_word_embeddings": true,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": tiny.context,
        "use_sliding_window": false,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": true,
        "bos_token_id": null,
        "eos_token_id": END_OF_MESSAGE,
        "pad_token_id": END_OF_TEXT,
    });
    let Value::Object(source) = source else { unreachable!("an object was written above") };
    ModelConfig::from_source(source, Path::new("config.json"))
}

/// Base of the rotary positions. The usual 10,000 suits contexts of thousands. In a short context half of the pairs of a head
/// would hardly turn, and a model would need more steps to learn to copy (studies/demo.md): there, the slowest pair turns by
/// about two radians.
fn rope_theta(context: u32) -> f64 {
    const SHORT: u32 = 256;
    if context <= SHORT { (f64::from(context) / 2.0).max(2.0) } else { 10_000.0 }
}

/// Tokenizer, chat template and generation defaults.
pub(crate) fn files(tiny: &TinyModel) -> ModelFiles {
    ModelFiles::from_texts([
        ("tokenizer.json", format!("{:#}\n", tokenizer())),
        ("tokenizer_config.json", format!("{:#}\n", tokenizer_config(tiny))),
        ("chat_template.jinja", CHAT_TEMPLATE.to_owned()),
        (
            "generation_config.json",
            format!("{:#}\n", json!({ "eos_token_id": END_OF_MESSAGE, "pad_token_id": END_OF_TEXT })),
        ),
    ])
}

fn tokenizer_config(tiny: &TinyModel) -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": tiny.context,
        "clean_up_tokenization_spaces": false,
    })
}

/// Byte-level BPE tokenizer without merges, in Hugging Face's format: a byte's id is its value.
fn tokenizer() -> Value {
    let vocabulary: serde_json::Map<String, Value> =
        (0..=255_u8).zip(byte_characters()).map(|(byte, letter)| (letter.to_string(), json!(byte))).collect();
    let added: Vec<Value> = (END_OF_TEXT..)
        .zip(CONTROL_TOKENS)
        .map(|(id, content)| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": content.starts_with("<|"),
            })
        })
        .collect();
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [],
        },
    })
}

/// Character that byte-level tokenizers write for each byte (GPT-2's table): printable bytes are themselves, the others
/// are the characters from 256 on, in order.
fn byte_characters() -> impl Iterator<Item = char> {
    let mut next = 256_u32;
    (0..=255_u32).map(move |byte| {
        let printable = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if printable {
            byte
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_characters_of_gpt2() {
        let letters: Vec<char> = byte_characters().collect();
        for (byte, letter) in
            [(0, 'Ā'), (10, 'Ċ'), (32, 'Ġ'), (33, '!'), (126, '~'), (127, 'ġ'), (173, 'Ń'), (255, 'ÿ')]
        {
            assert_eq!(letters[byte], letter, "{byte}");
        }
        let distinct: std::collections::HashSet<char> = letters.into_iter().collect();
        assert_eq!(distinct.len(), 256);
    }
}
