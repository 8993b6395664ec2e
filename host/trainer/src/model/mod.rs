//! The transformer of Qwen2, Qwen3 and Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU. The families
//! differ in their biases, in whether each head of queries and keys is normed, and in how positions turn.
//!
//! One computation serves training and generation; they differ only in how queries meet keys and values, which the
//! caller hands in as `attend`. Suffixes of names are axes: B sequences, S positions, N chosen positions, C width of
//! the residual stream, H query heads, K key and value heads, D width of a head, V vocabulary, T cached positions.
#![allow(non_snake_case)]

mod rotary;
mod weights;

use std::path::Path;

use gymkhana_episode::Seed;
use tch::{Device, Tensor, no_grad_guard};

use crate::parameters::Parameters;
use crate::{ModelConfig, TrainerError, checkpoint};
use rotary::{Rotary, rotate};

pub(crate) use rotary::Angles;
pub use weights::Weights;

/// A model: its shape, its weights and its rotary tables.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    parameters: Parameters,
    rotary: Rotary,
}

impl Model {
    /// A model whose weights are all zero. `positions` is the most tokens of a sequence, at most the config's.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub fn zeros(config: ModelConfig, positions: i64, device: Device) -> Result<Self, TrainerError> {
        Self::zeros_with(config, positions, device, &[])
    }

    /// A model with tensors beside those of its config, all zero.
    pub(crate) fn zeros_with(
        config: ModelConfig,
        positions: i64,
        device: Device,
        more: &[(String, Vec<i64>)],
    ) -> Result<Self, TrainerError> {
        let torch = || TrainerError::torch("allocated a model");
        let parameters = Parameters::zeros(&[&weights::shapes(&config), more].concat(), device).map_err(torch())?;
        let positions = positions.min(config.positions());
        let rotary = Rotary::new(&config, positions, device).map_err(torch())?;
        Ok(Self { config, parameters, rotary })
    }

    /// The model of a Hugging Face folder or of a checkpoint of ours, without its training state.
    ///
    /// # Errors
    /// If the folder is not whole, or the model is of another kind.
    pub fn open(folder: &Path, device: Device) -> Result<Self, TrainerError> {
        Ok(checkpoint::open(folder, None, device, false)?.model)
    }

    /// Draws random weights: matrices from normal distributions, biases 0, norms 1. The numbers depend on `seed` alone.
    ///
    /// # Errors
    /// If libtorch refuses a copy.
    pub fn randomise(&self, seed: Seed) -> Result<(), TrainerError> {
        for (name, tensor) in self.parameters.named() {
            let shape = tensor.size();
            let values = if name.ends_with("norm.weight") {
                tensor.f_ones_like()
            } else if name.ends_with(".bias") {
                tensor.f_zeros_like()
            } else {
                let count = shape.iter().product::<i64>() as usize;
                let values = normals(seed.child(name), count, self.initial_deviation(name, &shape));
                Tensor::f_from_slice(&values).and_then(|flat| flat.f_view(&shape[..]))
            };
            let values = values.map_err(TrainerError::torch("drew random weights"))?;
            self.parameters.set(name, &values).map_err(TrainerError::torch("drew random weights"))?;
        }
        Ok(())
    }

    /// The standard deviation of a random matrix: one over the root of its inputs, so that every layer passes its
    /// signal on as large as it came. What writes to the residual stream is smaller by the root of how many do. The
    /// customary 0.02 is made for widths of thousands: at a width of 160, attention starts out flat and a model of
    /// this size takes several times as long to learn to copy.
    fn initial_deviation(&self, name: &str, shape: &[i64]) -> f64 {
        let inputs = shape.last().copied().unwrap_or(1).max(1) as f64;
        let writers = (2 * self.config.num_hidden_layers) as f64;
        let writes = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
        if writes { (inputs * writers).sqrt().recip() } else { inputs.sqrt().recip() }
    }

    /// The model's shape.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The model's weights under the names of its checkpoint.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// The most tokens of a sequence.
    #[must_use]
    pub fn positions(&self) -> i64 {
        self.rotary.positions()
    }

    /// Where the weights live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.rotary.device()
    }

    /// The weights of a forward pass, from these or from a frozen copy's parameters. With gradients on they lead
    /// back to the parameters.
    pub(crate) fn weights_of(&self, parameters: &Parameters) -> Weights {
        Weights::of(&self.config, parameters)
    }

    /// The weights of a forward pass.
    #[must_use]
    pub fn weights(&self) -> Weights {
        self.weights_of(&self.parameters)
    }

    /// The angles of the given positions.
    pub(crate) fn angles_at(&self, positions_BS: &Tensor) -> Angles {
        self.rotary.at(positions_BS)
    }

    /// The normed residual stream after the last layer, `[B, S, C]`. `attend` is given the layer's index, queries
    /// `[B, S, H, D]`, keys and values `[B, S, K, D]`, and gives `[B, S, H, D]`. With `only`, places in the flattened
    /// `[B · S]`, the stream is told there alone, `[1, N, C]`, and the last layer computes no more than that asks for.
    pub(crate) fn hidden(
        &self,
        weights: &Weights,
        tokens_BS: &Tensor,
        angles: &Angles,
        only: Option<&Tensor>,
        mut attend: impl FnMut(usize, &Tensor, &Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        let config = &self.config;
        let size = tokens_BS.size();
        let (B, S, C, D) = (size[0], size[1], config.hidden_size, config.head_size());
        let (H, K) = (config.num_attention_heads, config.num_key_value_heads);
        let norm = |x_BSC: &Tensor, weight_C: &Tensor| x_BSC.rms_norm([C], Some(weight_C), config.rms_norm_eps);
        let mut x_BSC = Tensor::embedding(&weights.embedding_VC, tokens_BS, -1, false, false);
        for (index, layer) in weights.layers.iter().enumerate() {
            let heads = norm(&x_BSC, &layer.input_norm_C)
                .linear(&layer.query_key_value, layer.query_key_value_bias.as_ref())
                .view([B, S, H + 2 * K, D]);
            let parts = heads.split_with_sizes([H + K, K], 2);
            let query_key = match &layer.query_key_norm_HD {
                Some(norm_HD) => parts[0].rms_norm::<&Tensor>([D], None, config.rms_norm_eps) * norm_HD,
                None => parts[0].shallow_clone(),
            };
            let rotated = rotate(&query_key, angles, D).split_with_sizes([H, K], 2);
            let mut attended = attend(index, &rotated[0], &rotated[1], &parts[1]).reshape([B, S, H * D]);
            if let Some(places_N) = only.filter(|_| index + 1 == weights.layers.len()) {
                let chosen = |of: &Tensor, width: i64| of.reshape([-1, width]).index_select(0, places_N).unsqueeze(0);
                (x_BSC, attended) = (chosen(&x_BSC, C), chosen(&attended, H * D));
            }
            // Not in place: the norm before needs its input for its gradient.
            x_BSC = &x_BSC + attended.linear(&layer.output, layer.output_bias.as_ref());
            let wide = norm(&x_BSC, &layer.post_norm_C).linear(&layer.gate_up, layer.gate_up_bias.as_ref());
            let wide = wide.split(config.intermediate_size, -1);
            x_BSC = &x_BSC + (wide[0].silu() * &wide[1]).linear(&layer.down, layer.down_bias.as_ref());
        }
        norm(&x_BSC, &weights.norm_C)
    }

    /// The residual stream of whole sequences, each position seeing itself and what comes before. Sequences shorter
    /// than S are filled at their end, where nothing sees the filling.
    pub(crate) fn causal_hidden(&self, weights: &Weights, tokens_BS: &Tensor) -> Tensor {
        let angles = self.rotary.first(tokens_BS.size()[1]);
        let grouped = self.config.num_attention_heads != self.config.num_key_value_heads;
        self.hidden(weights, tokens_BS, &angles, None, |_, query, key, value| {
            let [query, key, value] = [query, key, value].map(|heads| heads.transpose(1, 2));
            Tensor::scaled_dot_product_attention::<&Tensor>(&query, &key, &value, None, 0.0, true, None, grouped)
                .transpose(1, 2)
        })
    }

    /// The logits of every position of one sequence, `[S, V]`, without gradients.
    ///
    /// # Errors
    /// If the sequence is empty or too long, or a token is outside the vocabulary.
    pub fn logits(&self, tokens: &[u32]) -> Result<Tensor, TrainerError> {
        self.check_tokens(tokens).map_err(|problem| TrainerError::Data { what: "a sequence".into(), problem })?;
        let _guard = no_grad_guard();
        let weights = self.weights();
        let tokens_1S = token_tensor(tokens).unsqueeze(0).to_device(self.device());
        let hidden_1SC = self.causal_hidden(&weights, &tokens_1S);
        Ok(hidden_1SC.squeeze_dim(0).linear::<&Tensor>(&weights.head_VC, None))
    }

    /// What is wrong with a sequence, if anything.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), String> {
        let (length, vocabulary) = (tokens.len(), self.config.vocab_size);
        if tokens.is_empty() {
            return Err("it has no tokens".to_owned());
        }
        if length as i64 > self.positions() {
            return Err(format!("its {length} tokens do not fit the context of {}", self.positions()));
        }
        match tokens.iter().find(|token| i64::from(**token) >= vocabulary) {
            Some(token) => Err(format!("token {token} is outside the vocabulary of {vocabulary}")),
            None => Ok(()),
        }
    }
}

/// Token ids as libtorch indexes with them.
pub(crate) fn token_tensor(tokens: &[u32]) -> Tensor {
    let tokens: Vec<i64> = tokens.iter().map(|token| i64::from(*token)).collect();
    Tensor::from_slice(&tokens)
}

/// Normally distributed numbers (Box and Muller).
fn normals(seed: Seed, count: usize, deviation: f64) -> Vec<f32> {
    let mut stream = seed.stream();
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        // 1 - u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt() * deviation;
        let (sin, cos) = (std::f64::consts::TAU * stream.unit()).sin_cos();
        values.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    values.truncate(count);
    values
}
