//! A model's `config.json`: read strictly, kept whole, written so that old and new transformers load it.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::TrainerError;

/// The shape of a Qwen2-style model, in the words of its `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Width of the feed-forward layers.
    pub intermediate_size: i64,
    /// How many layers.
    pub num_hidden_layers: i64,
    /// Heads of queries.
    pub num_attention_heads: i64,
    /// Heads of keys and values.
    pub num_key_value_heads: i64,
    /// Added to the mean square before its root is taken.
    pub rms_norm_eps: f64,
    /// The base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether the output layer is the embedding.
    pub tie_word_embeddings: bool,
    /// One more than the largest token.
    pub vocab_size: i64,
    /// The most tokens of a sequence.
    pub max_position_embeddings: i64,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<u32>,
    /// The token that fills.
    pub pad_token_id: Option<u32>,
    /// The whole file, so that nothing in it is lost when it is written again.
    source: Map<String, Value>,
}

/// The keys that are read, with the defaults of transformers' `Qwen2Config`.
#[derive(Deserialize)]
struct Fields {
    hidden_size: i64,
    intermediate_size: i64,
    num_hidden_layers: i64,
    num_attention_heads: i64,
    num_key_value_heads: Option<i64>,
    #[serde(default = "default_epsilon")]
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    rope_parameters: Option<RopeParameters>,
    #[serde(default)]
    tie_word_embeddings: bool,
    vocab_size: i64,
    #[serde(default = "default_positions")]
    max_position_embeddings: i64,
    eos_token_id: Option<OneOrMany>,
    pad_token_id: Option<u32>,
}

#[derive(Deserialize)]
struct RopeParameters {
    rope_theta: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

fn default_epsilon() -> f64 {
    1e-6
}

fn default_positions() -> i64 {
    32_768
}

impl ModelConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// If the file cannot be read, is no JSON of a model, or describes another architecture than Qwen2 or one of
    /// its variants that change the computation (scaled rotary positions, sliding windows).
    pub fn read(path: &Path) -> Result<Self, TrainerError> {
        let text = std::fs::read_to_string(path).map_err(TrainerError::file("read", path))?;
        let json = |source| TrainerError::Json { path: path.to_owned(), source };
        let source: Map<String, Value> = serde_json::from_str(&text).map_err(json)?;
        Self::from_source(source, path)
    }

    /// Makes sense of the keys; `path` is for messages.
    pub(crate) fn from_source(source: Map<String, Value>, path: &Path) -> Result<Self, TrainerError> {
        let unsupported = |what: String| TrainerError::UnsupportedModel { path: path.to_owned(), what };
        if let Some(what) = unsupported_feature(&source) {
            return Err(unsupported(what));
        }
        let fields: Fields = serde_json::from_value(Value::Object(source.clone()))
            .map_err(|source| TrainerError::Json { path: path.to_owned(), source })?;
        let heads = fields.num_attention_heads;
        let kv_heads = fields.num_key_value_heads.unwrap_or(heads);
        let sizes = [fields.hidden_size, fields.intermediate_size, fields.num_hidden_layers, fields.vocab_size];
        if sizes.iter().any(|size| *size < 1) || heads < 1 || kv_heads < 1 || fields.max_position_embeddings < 1 {
            return Err(unsupported("a size below 1".to_owned()));
        }
        if fields.hidden_size % heads != 0 || heads % kv_heads != 0 || (fields.hidden_size / heads) % 2 != 0 {
            return Err(unsupported(format!(
                "hidden_size {}, num_attention_heads {heads} and num_key_value_heads {kv_heads}, which do not divide \
                 into heads of an even width",
                fields.hidden_size
            )));
        }
        let theta = fields.rope_parameters.and_then(|rope| rope.rope_theta).or(fields.rope_theta);
        Ok(Self {
            hidden_size: fields.hidden_size,
            intermediate_size: fields.intermediate_size,
            num_hidden_layers: fields.num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            rms_norm_eps: fields.rms_norm_eps,
            rope_theta: theta.unwrap_or(10_000.0),
            tie_word_embeddings: fields.tie_word_embeddings,
            vocab_size: fields.vocab_size,
            max_position_embeddings: fields.max_position_embeddings,
            eos_token_ids: match fields.eos_token_id {
                None => Vec::new(),
                Some(OneOrMany::One(token)) => vec![token],
                Some(OneOrMany::Many(tokens)) => tokens,
            },
            pad_token_id: fields.pad_token_id,
            source,
        })
    }

    /// Width of one head.
    #[must_use]
    pub fn head_size(&self) -> i64 {
        self.hidden_size / self.num_attention_heads
    }

    /// The file's text. Older transformers read `rope_theta` and `torch_dtype`, newer ones `rope_parameters` and
    /// `dtype`; both stand there.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut source = self.source.clone();
        source.insert("architectures".into(), json!(["Qwen2ForCausalLM"]));
        source.insert("rope_theta".into(), json!(self.rope_theta));
        source.insert("rope_parameters".into(), json!({ "rope_theta": self.rope_theta, "rope_type": "default" }));
        source.insert("torch_dtype".into(), json!("float32"));
        source.insert("dtype".into(), json!("float32"));
        format!("{:#}\n", Value::Object(source))
    }
}

/// The first key whose value would change the computation in a way that `model` does not follow.
fn unsupported_feature(source: &Map<String, Value>) -> Option<String> {
    let named = |key: &str, value: &Value| Some(format!("{key} = {value}"));
    match source.get("model_type") {
        Some(kind) if kind == "qwen2" => {}
        Some(kind) => return named("model_type", kind),
        None => return Some("no model_type".to_owned()),
    }
    if let Some(names) = source.get("architectures").filter(|names| !names.is_null())
        && *names != json!(["Qwen2ForCausalLM"])
    {
        return named("architectures", names);
    }
    for (key, plain) in [("hidden_act", json!("silu")), ("use_sliding_window", json!(false))] {
        if let Some(value) = source.get(key).filter(|value| !value.is_null() && **value != plain) {
            return named(key, value);
        }
    }
    if let Some(scaling) = source.get("rope_scaling").filter(|scaling| !scaling.is_null()) {
        return named("rope_scaling", scaling);
    }
    if let Some(kind) = source.get("rope_parameters").and_then(|rope| rope.get("rope_type"))
        && kind != "default"
    {
        return named("rope_parameters.rope_type", kind);
    }
    let layers = source.get("layer_types").and_then(Value::as_array);
    layers.into_iter().flatten().find(|kind| **kind != "full_attention").and_then(|kind| named("layer_types", kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qwen2() -> Map<String, Value> {
        let value = json!({
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 264,
            "eos_token_id": 258, "rope_theta": 5000.0, "use_sliding_window": false, "rope_scaling": null,
            "of_tomorrow": [1, 2]
        });
        value.as_object().expect("an object").clone()
    }

    fn read(source: Map<String, Value>) -> Result<ModelConfig, TrainerError> {
        ModelConfig::from_source(source, Path::new("config.json"))
    }

    #[test]
    fn what_is_written_reads_the_same_and_loses_no_key() {
        let config = read(qwen2()).expect("a plain model");
        assert_eq!((config.head_size(), config.rope_theta, &config.eos_token_ids[..]), (8, 5000.0, &[258][..]));
        let text = config.to_json();
        let again: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(again["of_tomorrow"], json!([1, 2]));
        assert_eq!(again["rope_parameters"]["rope_theta"], 5000.0);
        assert_eq!(read(again).expect("our own file").rope_theta, 5000.0);
    }

    #[test]
    fn newer_files_keep_the_base_in_rope_parameters() {
        let mut source = qwen2();
        source.remove("rope_theta");
        source.insert("rope_parameters".into(), json!({ "rope_type": "default", "rope_theta": 1e6 }));
        assert_eq!(read(source).expect("a plain model").rope_theta, 1e6);
    }

    #[test]
    fn every_other_computation_is_refused_by_name() {
        for (key, value) in [
            ("model_type", json!("llama")),
            ("architectures", json!(["Qwen2ForSequenceClassification"])),
            ("rope_scaling", json!({ "type": "yarn", "factor": 4.0 })),
            ("rope_parameters", json!({ "rope_type": "yarn" })),
            ("use_sliding_window", json!(true)),
            ("hidden_act", json!("gelu")),
            ("layer_types", json!(["full_attention", "sliding_attention"])),
        ] {
            let mut source = qwen2();
            source.insert(key.into(), value);
            let message = read(source).expect_err(key).to_string();
            assert!(message.contains(key), "{message}");
        }
        let mut odd = qwen2();
        odd.insert("num_key_value_heads".into(), json!(3));
        assert!(read(odd).is_err());
    }
}
