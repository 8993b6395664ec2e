//! A model's `config.json`: parsed strictly, kept completely, and written for old and new versions of transformers.

mod decoder;
mod family;
mod keys;
mod options;
mod text_part;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::TrainerError;
use crate::rope::Rope;
use family::FamilyDescription;

pub(crate) use decoder::SHARED_EXPERT;
pub use decoder::{
    Activation, Biases, BlockNorms, Decoder, ExpertNames, Experts, Fused, LayerKind, QueryKeyNorm, RotaryPairs, Scales,
    SoftCaps,
};
pub use family::Family;

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
    /// Epsilon of RMSNorm, added to the mean square.
    pub rms_norm_eps: f64,
    /// What the layers compute.
    pub decoder: Decoder,
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
    /// Keys that are neither read nor known to change nothing, in alphabetical order.
    pub unknown_keys: Vec<String>,
    /// Whether it is the text part of a model that also sees pictures.
    pub(crate) is_text_part: bool,
    /// Complete file, so that other keys survive when it is written again.
    source: Map<String, Value>,
}

/// Sizes and tokens, with the defaults that all families share.
#[derive(Deserialize)]
struct ConfigFields {
    hidden_size: i64,
    intermediate_size: i64,
    num_hidden_layers: i64,
    num_attention_heads: i64,
    num_key_value_heads: Option<i64>,
    head_dim: Option<i64>,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
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

/// Sizes of a model, within their limits.
struct Sizes {
    heads: i64,
    kv_heads: i64,
    head_dim: i64,
    positions: i64,
}

impl ConfigFields {
    /// # Errors
    /// The unsupported key and value.
    fn sizes(&self, description: &FamilyDescription) -> Result<Sizes, String> {
        let heads = self.num_attention_heads;
        let kv_heads = self.num_key_value_heads.unwrap_or(heads);
        let default = description.head_dim.unwrap_or(self.hidden_size / heads.max(1));
        let head_dim = self.head_dim.unwrap_or(default);
        let positions = self.max_position_embeddings.unwrap_or(description.positions);
        for (key, size, most) in [
            ("hidden_size", self.hidden_size, MAX_HIDDEN),
            ("intermediate_size", self.intermediate_size, MAX_INTERMEDIATE),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", heads, MAX_HEADS),
            ("num_key_value_heads", kv_heads, MAX_HEADS),
            ("head_dim", head_dim, MAX_HEAD_DIM),
            ("vocab_size", self.vocab_size, MAX_VOCABULARY),
            ("max_position_embeddings", positions, MAX_POSITIONS),
        ] {
            if size > most {
                return Err(format!("{key} = {size}, which is above {most}"));
            }
        }
        let sizes = [self.hidden_size, self.intermediate_size, self.num_hidden_layers, self.vocab_size];
        if sizes.iter().any(|size| *size < 1) || heads < 1 || kv_heads < 1 || positions < 1 {
            return Err("a size below 1".to_owned());
        }
        if heads % kv_heads != 0 || head_dim < 2 || head_dim % 2 != 0 {
            return Err(format!(
                "num_attention_heads {heads}, num_key_value_heads {kv_heads} and heads of width {head_dim}: the second \
                 must divide the first, and the width must be even"
            ));
        }
        if self.head_dim.is_none() && description.head_dim.is_none() && self.hidden_size % heads != 0 {
            return Err(format!(
                "hidden_size {} is not a multiple of num_attention_heads {heads}, and head_dim is missing",
                self.hidden_size
            ));
        }
        Ok(Sizes { heads, kv_heads, head_dim, positions })
    }
}

impl ModelConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is not JSON of a model, or if the model is not supported: families without a
    /// [`Family`], keys that change the computation of their family in a way that is not implemented, and quantised weights
    /// are refused.
    pub fn read(path: &Path) -> Result<Self, TrainerError> {
        let text = crate::storage::read_text(path)?;
        let json = |source| TrainerError::Json { path: path.to_owned(), source };
        let source: Map<String, Value> = serde_json::from_str(&text).map_err(json)?;
        Self::from_source(source, path)
    }

    /// Interprets the keys; `path` is used in errors.
    pub(crate) fn from_source(source: Map<String, Value>, path: &Path) -> Result<Self, TrainerError> {
        let unsupported = |what: String| TrainerError::UnsupportedModel { path: path.to_owned(), what };
        let (source, is_text_part) = text_part::of(source).map_err(unsupported)?;
        let description = describe(&source).map_err(unsupported)?;
        let unknown_keys = keys::check(&source, description).map_err(unsupported)?;
        let fields: ConfigFields = serde_json::from_value(Value::Object(source.clone()))
            .map_err(|source| TrainerError::Json { path: path.to_owned(), source })?;
        let sizes = fields.sizes(description).map_err(unsupported)?;
        let keys = options::ConfigKeys { source: &source, description };
        let decoder = keys.decoder(&fields, &sizes).map_err(unsupported)?;
        let scaled = decoder.ropes.iter().map(|rope| rope.positions(sizes.positions)).max().unwrap_or(0);
        if scaled > MAX_POSITIONS {
            return Err(unsupported(format!(
                "the factor of rope_scaling gives {scaled} positions, above {MAX_POSITIONS}"
            )));
        }
        Ok(Self {
            family: description.family,
            hidden_size: fields.hidden_size,
            intermediate_size: fields.intermediate_size,
            num_hidden_layers: fields.num_hidden_layers,
            num_attention_heads: sizes.heads,
            num_key_value_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            rms_norm_eps: fields.rms_norm_eps.unwrap_or(description.epsilon),
            decoder,
            tie_word_embeddings: fields.tie_word_embeddings.unwrap_or(description.tied),
            vocab_size: fields.vocab_size,
            max_position_embeddings: sizes.positions,
            eos_token_ids: match fields.eos_token_id {
                None => Vec::new(),
                Some(OneOrMany::One(token)) => vec![token],
                Some(OneOrMany::Many(tokens)) => tokens,
            },
            pad_token_id: fields.pad_token_id,
            unknown_keys,
            is_text_part,
            source,
        })
    }

    /// Name, in the model, of a tensor of its files; `None` if it belongs to a part that the model does not have.
    pub(crate) fn own_name(&self, name: &str) -> Option<String> {
        if self.is_text_part { text_part::own_name(name) } else { Some(name.to_owned()) }
    }

    /// What a user should know of the file before the model is used.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_text_part {
            warnings.push(format!(
                "the model sees pictures, and its text part alone is loaded, trained and written, as `{}`",
                self.model_type()
            ));
        }
        if !self.unknown_keys.is_empty() {
            warnings.push(format!(
                "config.json has keys that are neither known nor known to change nothing: {}\nhint: compare replies with \
                 those of another program, for example `host generate --temperature 0`",
                self.unknown_keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
            ));
        }
        warnings
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
        let scaled = |rope: &Rope| rope.positions(self.max_position_embeddings);
        self.decoder.ropes.iter().map(scaled).max().unwrap_or(self.max_position_embeddings)
    }

    /// Whether the CUDA kernels of generation compute the layers.
    pub(crate) fn has_plain_layers(&self) -> bool {
        self.decoder.is_plain() && self.decoder.pairs.width == self.head_dim
    }

    /// Number of last positions that a position of a layer sees; `None` for all.
    pub(crate) fn window(&self, layer: usize) -> Option<i64> {
        self.decoder.layers.get(layer).and_then(|kind| kind.window)
    }

    /// `model_type` in `config.json`.
    #[must_use]
    pub fn model_type(&self) -> &'static str {
        self.family.description().model_type
    }

    /// Text of the file. It holds both the keys of older transformers (`rope_theta`, `rope_scaling`, `torch_dtype`) and
    /// those of newer ones (`rope_parameters`, `dtype`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut source = self.source.clone();
        source.insert("architectures".into(), json!([self.family.description().architecture]));
        match &self.decoder.ropes[..] {
            [rope] => rope.write(&mut source),
            ropes => Rope::write_by_kind(ropes, &mut source),
        }
        if let Some(experts) = &self.decoder.experts {
            source.insert("num_experts".into(), json!(experts.count));
            source.insert("num_local_experts".into(), json!(experts.count));
        }
        source.insert("torch_dtype".into(), json!("float32"));
        source.insert("dtype".into(), json!("float32"));
        format!("{:#}\n", Value::Object(source))
    }
}

/// What the model's family means by its keys, or the unsupported key and value.
fn describe(source: &Map<String, Value>) -> Result<&'static FamilyDescription, String> {
    let Some(kind) = source.get("model_type") else { return Err("model_type is missing".to_owned()) };
    let name = kind.as_str().unwrap_or_default();
    let Some(description) = FamilyDescription::of(name) else {
        return Err(match family::missing(name) {
            Some(missing) => format!("model_type = {kind}, which needs {missing}"),
            None => format!("model_type = {kind}"),
        });
    };
    match source.get("architectures").filter(|names| !names.is_null()) {
        Some(names) if *names != json!([description.architecture]) => Err(format!("architectures = {names}")),
        _ => Ok(description),
    }
}

#[cfg(test)]
mod tests;
