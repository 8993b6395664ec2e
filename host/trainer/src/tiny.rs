//! The tiny byte-level model: small enough to learn from random weights on a CPU within minutes.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::require;
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

/// Size of a byte-level model with random initial weights. The default has 1.35 million parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TinyModel {
    /// Layers.
    #[schemars(range(min = 1, max = 64))]
    pub layers: u32,
    /// Width of the residual stream.
    #[schemars(range(min = 2, max = 4096))]
    pub width: u32,
    /// Query heads.
    #[schemars(range(min = 1), extend("x-range" = "a divisor of `width` that leaves heads of an even width"))]
    pub heads: u32,
    /// Key and value heads.
    #[schemars(range(min = 1), extend("x-range" = "a divisor of `heads`"))]
    pub kv_heads: u32,
    /// Width of the feed-forward layers.
    #[schemars(range(min = 1, max = 32_768))]
    pub mlp: u32,
    /// Context length in tokens.
    #[schemars(range(min = 2, max = 65_536))]
    pub context: u32,
}

impl Default for TinyModel {
    fn default() -> Self {
        Self { layers: 4, width: 160, heads: 5, kv_heads: 5, mlp: 464, context: 512 }
    }
}

impl TinyModel {
    /// Refuses sizes out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), TrainerError> {
        let Self { layers, width, heads, kv_heads, mlp, context } = *self;
        require((1..=64).contains(&layers), "layers", layers, "from 1 to 64")?;
        require((2..=4096).contains(&width), "width", width, "from 2 to 4096")?;
        let even = heads >= 1 && width % heads == 0 && (width / heads) % 2 == 0;
        require(even, "heads", heads, "a divisor of `width` such that `width / heads` is even")?;
        require(kv_heads >= 1 && heads % kv_heads == 0, "kv_heads", kv_heads, "a divisor of `heads`")?;
        require((1..=32_768).contains(&mlp), "mlp", mlp, "from 1 to 32768")?;
        require((2..=65_536).contains(&context), "context", context, "from 2 to 65536")
    }

    /// The model's `config.json`.
    pub(crate) fn config(&self) -> Result<ModelConfig, TrainerError> {
        self.check()?;
        let source = json!({
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_size": self.width,
            "intermediate_size": self.mlp,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "tie_word_embeddings": true,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": self.context,
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

    /// Tokenizer, chat template and generation defaults.
    pub(crate) fn files(&self) -> ModelFiles {
        ModelFiles::from_texts([
            ("tokenizer.json", format!("{:#}\n", tokenizer())),
            ("tokenizer_config.json", format!("{:#}\n", self.tokenizer_config())),
            ("chat_template.jinja", CHAT_TEMPLATE.to_owned()),
            (
                "generation_config.json",
                format!("{:#}\n", json!({ "eos_token_id": END_OF_MESSAGE, "pad_token_id": END_OF_TEXT })),
            ),
        ])
    }

    fn tokenizer_config(&self) -> Value {
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": self.context,
            "clean_up_tokenization_spaces": false,
        })
    }
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

    type Spoil = fn(&mut TinyModel);

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

    #[test]
    fn wrong_sizes_are_refused_by_name() {
        let wrong: [(&str, Spoil); 5] = [
            ("layers", |tiny| tiny.layers = 0),
            ("heads", |tiny| tiny.heads = 3),
            ("heads", |tiny| (tiny.width, tiny.heads) = (9, 3)),
            ("kv_heads", |tiny| tiny.kv_heads = 2),
            ("context", |tiny| tiny.context = 1),
        ];
        for (key, spoil) in wrong {
            let mut tiny = TinyModel::default();
            spoil(&mut tiny);
            assert!(tiny.check().expect_err(key).to_string().contains(key));
        }
    }
}
