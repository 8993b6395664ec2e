//! A model's `config.json`: parsed strictly, kept completely, and written for old and new versions of transformers.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::TrainerError;
use crate::rope::Rope;

/// Limits on the sizes in `config.json`, several times those of the largest published models. A file beyond them is an
/// error before anything is allocated.
const MAX_HIDDEN: i64 = 1 << 17;
const MAX_INTERMEDIATE: i64 = 1 << 20;
const MAX_LAYERS: i64 = 1000;
const MAX_HEADS: i64 = 4096;
const MAX_HEAD_DIM: i64 = 4096;
const MAX_VOCABULARY: i64 = 1 << 22;
/// Positions, for which the model holds tables of 8 bytes for each number of a head: 2 GiB with heads of 128.
const MAX_POSITIONS: i64 = 1 << 21;

/// Supported model families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Qwen2 and Qwen2.5: biases on the query, key and value projections.
    Qwen2,
    /// Qwen3: RMSNorm on each head of queries and keys.
    Qwen3,
    /// Llama and models of the same architecture.
    Llama,
}

impl Family {
    const ALL: [Self; 3] = [Self::Qwen2, Self::Qwen3, Self::Llama];

    /// `model_type` in `config.json`.
    #[must_use]
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Llama => "llama",
        }
    }

    /// Name in `architectures` of the causal language model.
    #[must_use]
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    /// Default of `max_position_embeddings`.
    fn default_positions(self) -> i64 {
        match self {
            Self::Qwen2 | Self::Qwen3 => 32_768,
            Self::Llama => 2048,
        }
    }
}

/// Biases of the linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Biases {
    /// Bias of the query, key and value projections.
    pub query_key_value: bool,
    /// Bias of the attention output projection.
    pub output: bool,
    /// Bias of the feed-forward projections.
    pub mlp: bool,
}

/// Shape of a model. Fields have the names of `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Model family.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Width of the feed-forward layers.
    pub intermediate_size: i64,
    /// Number of layers.
    pub num_hidden_layers: i64,
    /// Number of query heads.
    pub num_attention_heads: i64,
    /// Number of key and value heads.
    pub num_key_value_heads: i64,
    /// Width of a head.
    pub head_dim: i64,
    /// Biases of the linear layers.
    pub biases: Biases,
    /// Whether each head of queries and keys is normalised.
    pub query_key_norm: bool,
    /// Epsilon of RMSNorm, added to the mean square.
    pub rms_norm_eps: f64,
    /// Rotary positions.
    pub rope: Rope,
    /// Whether the output layer shares the embedding's weights.
    pub tie_word_embeddings: bool,
    /// Number of token ids.
    pub vocab_size: i64,
    /// Maximum length of a sequence in tokens, before scaling of positions.
    pub max_position_embeddings: i64,
    /// Tokens that end a generation.
    pub eos_token_ids: Vec<u32>,
    /// Padding token.
    pub pad_token_id: Option<u32>,
    /// Complete file, so that other keys survive when it is written again.
    source: Map<String, Value>,
}

/// Keys that are read, with the defaults of transformers.
#[derive(Deserialize)]
struct Fields {
    hidden_size: i64,
    intermediate_size: i64,
    num_hidden_layers: i64,
    num_attention_heads: i64,
    num_key_value_heads: Option<i64>,
    head_dim: Option<i64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    #[serde(default = "default_epsilon")]
    rms_norm_eps: f64,
    #[serde(default)]
    tie_word_embeddings: bool,
    vocab_size: i64,
    max_position_embeddings: Option<i64>,
    eos_token_id: Option<OneOrMany>,
    pad_token_id: Option<u32>,
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

impl Fields {
    fn head_dim(&self, family: Family) -> i64 {
        match (self.head_dim, family) {
            (Some(width), _) => width,
            (None, Family::Qwen3) => 128,
            (None, Family::Qwen2 | Family::Llama) => self.hidden_size / self.num_attention_heads.max(1),
        }
    }

    fn biases(&self, family: Family) -> Biases {
        let attention = self.attention_bias.unwrap_or(false);
        match family {
            Family::Qwen2 => Biases { query_key_value: true, output: false, mlp: false },
            Family::Qwen3 => Biases { query_key_value: attention, output: attention, mlp: false },
            Family::Llama => {
                Biases { query_key_value: attention, output: attention, mlp: self.mlp_bias.unwrap_or(false) }
            }
        }
    }
}

impl ModelConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is not JSON of a model, or if its architecture is not supported: other families
    /// than Qwen2, Qwen3 and Llama, sliding windows, and quantised weights are refused.
    pub fn read(path: &Path) -> Result<Self, TrainerError> {
        let text = crate::storage::fs::read_text(path)?;
        let json = |source| TrainerError::Json { path: path.to_owned(), source };
        let source: Map<String, Value> = serde_json::from_str(&text).map_err(json)?;
        Self::from_source(source, path)
    }

    /// Interprets the keys; `path` is used in errors.
    pub(crate) fn from_source(source: Map<String, Value>, path: &Path) -> Result<Self, TrainerError> {
        let unsupported = |what: String| TrainerError::UnsupportedModel { path: path.to_owned(), what };
        let family = family(&source).map_err(unsupported)?;
        if let Some(what) = unsupported_feature(&source) {
            return Err(unsupported(what));
        }
        let fields: Fields = serde_json::from_value(Value::Object(source.clone()))
            .map_err(|source| TrainerError::Json { path: path.to_owned(), source })?;
        let heads = fields.num_attention_heads;
        let kv_heads = fields.num_key_value_heads.unwrap_or(heads);
        let (head_dim, biases) = (fields.head_dim(family), fields.biases(family));
        let positions = fields.max_position_embeddings.unwrap_or(family.default_positions());
        for (key, size, most) in [
            ("hidden_size", fields.hidden_size, MAX_HIDDEN),
            ("intermediate_size", fields.intermediate_size, MAX_INTERMEDIATE),
            ("num_hidden_layers", fields.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", heads, MAX_HEADS),
            ("num_key_value_heads", kv_heads, MAX_HEADS),
            ("head_dim", head_dim, MAX_HEAD_DIM),
            ("vocab_size", fields.vocab_size, MAX_VOCABULARY),
            ("max_position_embeddings", positions, MAX_POSITIONS),
        ] {
            if size > most {
                return Err(unsupported(format!("{key} = {size}, which is above {most}")));
            }
        }
        let sizes = [fields.hidden_size, fields.intermediate_size, fields.num_hidden_layers, fields.vocab_size];
        if sizes.iter().any(|size| *size < 1) || heads < 1 || kv_heads < 1 || positions < 1 {
            return Err(unsupported("a size below 1".to_owned()));
        }
        if heads % kv_heads != 0 || head_dim < 2 || head_dim % 2 != 0 {
            return Err(unsupported(format!(
                "num_attention_heads {heads}, num_key_value_heads {kv_heads} and heads of width {head_dim}: the second \
                 must divide the first, and the width must be even"
            )));
        }
        if fields.head_dim.is_none() && fields.hidden_size % heads != 0 && family != Family::Qwen3 {
            return Err(unsupported(format!(
                "hidden_size {} is not a multiple of num_attention_heads {heads}, and head_dim is missing",
                fields.hidden_size
            )));
        }
        let rope = Rope::read(&source, positions).map_err(unsupported)?;
        let scaled = rope.positions(positions);
        if scaled > MAX_POSITIONS {
            return Err(unsupported(format!(
                "the factor of rope_scaling gives {scaled} positions, above {MAX_POSITIONS}"
            )));
        }
        Ok(Self {
            family,
            hidden_size: fields.hidden_size,
            intermediate_size: fields.intermediate_size,
            num_hidden_layers: fields.num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            biases,
            query_key_norm: family == Family::Qwen3,
            rms_norm_eps: fields.rms_norm_eps,
            rope,
            tie_word_embeddings: fields.tie_word_embeddings,
            vocab_size: fields.vocab_size,
            max_position_embeddings: positions,
            eos_token_ids: match fields.eos_token_id {
                None => Vec::new(),
                Some(OneOrMany::One(token)) => vec![token],
                Some(OneOrMany::Many(tokens)) => tokens,
            },
            pad_token_id: fields.pad_token_id,
            source,
        })
    }

    /// Config of the same model with an output layer of its own, equal to the embedding where it was tied.
    pub(crate) fn untied(&self) -> Self {
        let mut source = self.source.clone();
        source.insert("tie_word_embeddings".into(), json!(false));
        Self { tie_word_embeddings: false, source, ..self.clone() }
    }

    /// Width of a head.
    #[must_use]
    pub fn head_size(&self) -> i64 {
        self.head_dim
    }

    /// Maximum length of a sequence in tokens, after scaling of positions.
    #[must_use]
    pub fn positions(&self) -> i64 {
        self.rope.positions(self.max_position_embeddings)
    }

    /// Text of the file. It holds both the keys of older transformers (`rope_theta`, `rope_scaling`, `torch_dtype`) and
    /// those of newer ones (`rope_parameters`, `dtype`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut source = self.source.clone();
        source.insert("architectures".into(), json!([self.family.architecture()]));
        self.rope.write(&mut source);
        source.insert("torch_dtype".into(), json!("float32"));
        source.insert("dtype".into(), json!("float32"));
        format!("{:#}\n", Value::Object(source))
    }
}

/// Family of a model, or the unsupported key and value.
fn family(source: &Map<String, Value>) -> Result<Family, String> {
    let Some(kind) = source.get("model_type") else { return Err("model_type is missing".to_owned()) };
    let known = Family::ALL.into_iter().find(|family| kind == family.model_type());
    let family = known.ok_or_else(|| format!("model_type = {kind}"))?;
    match source.get("architectures").filter(|names| !names.is_null()) {
        Some(names) if *names != json!([family.architecture()]) => Err(format!("architectures = {names}")),
        _ => Ok(family),
    }
}

/// First key whose value requires a computation that `model` does not implement.
fn unsupported_feature(source: &Map<String, Value>) -> Option<String> {
    let named = |key: &str, value: &Value| Some(format!("{key} = {value}"));
    let said = |key: &str| source.get(key).filter(|value| !value.is_null());
    for (key, plain) in [("hidden_act", json!("silu")), ("use_sliding_window", json!(false))] {
        if let Some(value) = said(key).filter(|value| **value != plain) {
            return named(key, value);
        }
    }
    if let Some(value) = said("quantization_config") {
        return named("quantization_config", value);
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
    fn a_written_config_keeps_every_key() {
        let config = read(qwen2()).expect("a plain model");
        assert_eq!((config.head_size(), config.rope.theta, &config.eos_token_ids[..]), (8, 5000.0, &[258][..]));
        let text = config.to_json();
        let again: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(again["of_tomorrow"], json!([1, 2]));
        assert_eq!(again["rope_parameters"]["rope_theta"], 5000.0);
        assert_eq!(read(again).expect("a written config").rope.theta, 5000.0);
    }

    #[test]
    fn newer_files_have_the_base_in_rope_parameters() {
        let mut source = qwen2();
        source.remove("rope_theta");
        source.insert("rope_parameters".into(), json!({ "rope_type": "default", "rope_theta": 1e6 }));
        assert_eq!(read(source).expect("a plain model").rope.theta, 1e6);
    }

    #[test]
    fn scaled_positions_are_written_for_old_and_new_programs() {
        let yarn = json!({ "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16 });
        let mut source = qwen2();
        source.insert("rope_scaling".into(), yarn);
        source.insert("max_position_embeddings".into(), json!(16));
        let config = read(source).expect("a model with scaled positions");
        assert_eq!(config.positions(), 64);
        let again: Map<String, Value> = serde_json::from_str(&config.to_json()).expect("JSON");
        let [old, new] = ["rope_scaling", "rope_parameters"].map(|section| again[section].clone());
        assert_eq!(
            (&old["rope_type"], &new["rope_type"], &new["rope_theta"]),
            (&"yarn".into(), &"yarn".into(), &5000.0.into())
        );
        for without in ["rope_scaling", "rope_parameters"] {
            let mut half = again.clone();
            half.remove(without);
            assert_eq!(read(half).expect("half of it").rope, config.rope, "{without}");
        }
    }

    #[test]
    fn sizes_beyond_every_published_model_are_refused_by_name() {
        for (key, size) in [
            ("hidden_size", 1_i64 << 40),
            ("intermediate_size", i64::MAX),
            ("num_hidden_layers", 10_000_000),
            ("num_attention_heads", 1_000_000),
            ("num_key_value_heads", 1_000_000),
            ("head_dim", 1 << 20),
            ("vocab_size", 1 << 40),
            ("max_position_embeddings", 1 << 40),
        ] {
            let mut source = qwen2();
            source.insert(key.into(), json!(size));
            let message = read(source).expect_err(key).to_string();
            assert!(message.contains(&format!("{key} = {size}")), "{message}");
        }
        let mut source = qwen2();
        source.insert("rope_scaling".into(), json!({ "type": "yarn", "factor": 1e300 }));
        assert!(read(source).expect_err("too many positions").to_string().contains("rope_scaling"));
        // The sizes of Llama 3.1 405B, the vocabulary of Gemma, and a million positions.
        let mut large = qwen2();
        for (key, size) in [
            ("hidden_size", 16_384),
            ("intermediate_size", 53_248),
            ("num_hidden_layers", 126),
            ("num_attention_heads", 128),
            ("num_key_value_heads", 8),
            ("vocab_size", 262_144),
            ("max_position_embeddings", 1_010_000),
        ] {
            large.insert(key.into(), json!(size));
        }
        assert_eq!(read(large).expect("a large model").num_hidden_layers, 126);
    }

    #[test]
    fn unsupported_computations_are_refused_by_name() {
        for (key, value) in [
            ("model_type", json!("mistral")),
            ("architectures", json!(["Qwen2ForSequenceClassification"])),
            ("rope_scaling", json!({ "type": "longrope", "factor": 4.0 })),
            ("rope_scaling", json!({ "type": "linear" })),
            ("rope_parameters", json!({ "rope_type": "llama3", "factor": 8.0 })),
            ("rope_parameters", json!({ "rope_type": "default", "mrope_section": [1, 1, 2] })),
            ("partial_rotary_factor", json!(0.5)),
            ("quantization_config", json!({ "quant_method": "fp8" })),
            ("use_sliding_window", json!(true)),
            ("hidden_act", json!("gelu")),
            ("layer_types", json!(["full_attention", "sliding_attention"])),
        ] {
            let mut source = qwen2();
            source.insert(key.into(), value);
            let message = read(source).expect_err(key).to_string();
            assert!(message.contains(key), "{message}");
        }
        for (key, value) in [("num_key_value_heads", 3), ("head_dim", 7), ("num_attention_heads", 5)] {
            let mut odd = qwen2();
            odd.insert(key.into(), json!(value));
            assert!(read(odd).is_err(), "{key}");
        }
    }
}
