//! Memory that an open model takes by itself, computed from its shape.

use gymkhana_algorithm::{Accelerator, MomentFormat, Precision};

use crate::model::{Formats, OUTPUT_LAYER, shapes};
use crate::{ModelConfig, TrainerSettings, adamw, engine};

/// Bytes of a float32 number.
const FLOAT: u64 = 4;

/// Bytes that a model takes without training state and activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Weights: in float32 if they are trained, else in the number formats of passes.
    pub weights: u64,
    /// All weights in float32.
    pub float: u64,
    /// A copy of the weights that is never trained, such as a reference policy.
    pub frozen: u64,
    /// Copies of weights that generate: all in another number format, joined matrices, and those with merged adapters.
    pub generation: u64,
    /// Keys and values of conversations, at most.
    pub cache: u64,
}

impl ModelConfig {
    /// Number of weights, without those of adapters.
    #[must_use]
    pub fn parameter_count(&self) -> u64 {
        self.count(|_| true)
    }

    /// Bytes that a training pass keeps of a number of tokens, estimated from the sizes of the tensors whose gradients need
    /// them: in each layer three of the residual stream for each part, the heads before and after their rotation, and four of
    /// the feed-forward width; with recomputation one of the residual stream, and all of a single layer.
    #[must_use]
    pub fn activation_bytes(&self, tokens: usize, precision: Precision, recomputed: bool) -> u64 {
        let heads = (self.num_attention_heads * 3 + self.num_key_value_heads * 3) * self.head_dim;
        let width = self.decoder.experts.map_or(self.intermediate_size, |experts| {
            experts.per_token * experts.width + experts.shared_width.unwrap_or(0)
        });
        let layer = (6 * self.hidden_size + heads + 4 * width).unsigned_abs();
        let (layers, stream) = (self.num_hidden_layers.unsigned_abs(), self.hidden_size.unsigned_abs());
        let numbers = if recomputed { layers * stream + layer } else { layers * layer };
        numbers.saturating_mul(tokens as u64).saturating_mul(bytes_of(precision))
    }

    /// Bytes of the weights of a model with these settings that is not trained.
    #[must_use]
    pub fn frozen_bytes(&self, settings: &TrainerSettings) -> u64 {
        let formats = Formats::of(settings);
        let bytes = |(name, shape): (String, Vec<i64>)| {
            let size = formats.of_frozen(self, &name, &shape).elt_size_in_bytes() as u64;
            shape.into_iter().product::<i64>().unsigned_abs().saturating_mul(size)
        };
        shapes(self).into_iter().map(bytes).sum()
    }

    /// Number of weights in the tensors of some names.
    fn count(&self, selects: impl Fn(&str) -> bool) -> u64 {
        let sizes = shapes(self).into_iter().filter(|(name, _)| selects(name));
        sizes.map(|(_, shape)| shape.into_iter().product::<i64>().unsigned_abs()).sum()
    }
}

/// Bytes of AdamW's moments of a number of weights.
#[must_use]
pub fn moment_bytes(weights: u64, format: MomentFormat) -> u64 {
    (weights as f64 * adamw::moment_bytes(format)) as u64
}

fn bytes_of(precision: Precision) -> u64 {
    match precision {
        Precision::Float32 => FLOAT,
        Precision::Bfloat16 => 2,
    }
}

impl Footprint {
    /// Of a model with these settings, whose conversations have up to `context` tokens.
    #[must_use]
    pub fn of(config: &ModelConfig, settings: &TrainerSettings, context: usize) -> Self {
        let bytes = bytes_of(settings.precision);
        let merges = settings.lora.is_some() && settings.learns;
        let trains_all = settings.learns && settings.lora.is_none();
        let is_copied = |name: &str| {
            let part = |part: &&str| name.contains(*part);
            // A float32 output layer reads the weights themselves.
            let is_read = name == OUTPUT_LAYER && settings.output_precision == Some(Precision::Float32);
            (trains_all && bytes != FLOAT && !is_read)
                || ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"].iter().any(&part)
                || (merges && ["o_proj", "down_proj"].iter().any(part))
        };
        let (float, frozen) = (config.parameter_count().saturating_mul(FLOAT), config.frozen_bytes(settings));
        Self {
            weights: if trains_all { float } else { frozen },
            float,
            frozen,
            generation: config.count(is_copied).saturating_mul(bytes),
            cache: engine::CacheSize::of(config, settings, context, settings.device != Accelerator::Cpu)
                .bytes(config, settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lora, TinyModel, tiny};

    /// By hand: 264 x 16 in the embedding; 16 x 16 + 16, twice 8 x 16 + 8 in queries, keys and values; 16 x 16 in the
    /// output; 3 x 32 x 16 in the feed-forward part; 3 norms of 16. A conversation of 320 tokens has 352 rows of 8 + 8
    /// numbers, and 32 rows are scratch space.
    #[test]
    fn by_hand() {
        let tiny = TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, context: 320 };
        let config = tiny::config(&tiny).expect("a model");
        let of = |precision, lora| {
            let settings =
                TrainerSettings { max_concurrent_sequences: 8, precision, lora, ..TrainerSettings::default() };
            let Footprint { weights, generation, cache, .. } = Footprint::of(&config, &settings, 320);
            [weights, generation, cache]
        };
        assert_eq!(config.parameter_count(), 6608);
        assert_eq!(of(Precision::Float32, None), [26_432, (544 + 1024) * 4, (8 * 352 + 32) * 16 * 4]);
        assert_eq!(of(Precision::Bfloat16, None), [26_432, 13_216, (8 * 352 + 32) * 16 * 2]);
        let lora = Lora { rank: 2, alpha: 4.0, modules: vec![crate::Module::QProj] };
        assert_eq!(of(Precision::Float32, Some(lora.clone()))[1], (544 + 256 + 1024 + 512) * 4);
        // 80 of the weights are norms and biases.
        assert_eq!(of(Precision::Bfloat16, Some(lora))[..2], [(6608 - 80) * 2 + 80 * 4, (544 + 256 + 1024 + 512) * 2]);
    }
}
