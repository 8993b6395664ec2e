//! Number formats of a model's weights: in passes, and in memory while they are not trained.

use tch::Kind;

use crate::{ModelConfig, TrainerSettings, device};

/// Name of the embedding.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the output layer, which a model with tied embeddings does not have.
pub(crate) const OUTPUT_LAYER: &str = "lm_head.weight";

/// Number formats in which forward passes read a model's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Formats {
    /// Of all weights but the output layer.
    pub pass: Kind,
    /// Of the output layer.
    pub output: Kind,
}

impl Formats {
    /// Of a model that is trained in float32 throughout.
    pub const FLOAT: Self = Self { pass: Kind::Float, output: Kind::Float };

    pub fn of(settings: &TrainerSettings) -> Self {
        let pass = device::kind(settings.precision);
        Self { pass, output: settings.output_precision.map_or(pass, device::kind) }
    }

    /// Number format in which a weight that is not trained is kept: that of passes. Vectors, which need little memory, and
    /// an embedding that passes read in two formats stay in float32.
    pub fn of_frozen(self, config: &ModelConfig, name: &str, shape: &[i64]) -> Kind {
        match name {
            _ if shape.len() < 2 => Kind::Float,
            OUTPUT_LAYER => self.output,
            EMBEDDING if config.tie_word_embeddings && self.pass != self.output => Kind::Float,
            _ => self.pass,
        }
    }
}
