//! The Qwen2-style transformer: RMSNorm, rotary positions, grouped-query attention with biases, SwiGLU.
//!
//! One computation serves training and generation; they differ only in how queries meet keys and values, which the
//! caller hands in as `attend`. Suffixes of names are axes: B sequences, S positions, N chosen positions, C width of
//! the residual stream, H query heads, K key and value heads, D width of a head, V vocabulary, T cached positions.
#![allow(non_snake_case)]

use std::path::Path;

use gymkhana_episode::Seed;
use tch::{Device, Kind, TchError, Tensor, no_grad_guard};

use crate::parameters::Parameters;
use crate::{ModelConfig, TrainerError, checkpoint};

/// A model: its shape, its weights and its rotary tables.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    parameters: Parameters,
    rotary: Rotary,
}

/// The weights as a forward pass wants them: what multiplies the same input is one matrix.
#[derive(Debug)]
pub struct Weights {
    embedding_VC: Tensor,
    layers: Vec<LayerWeights>,
    norm_C: Tensor,
    /// The output layer, `[V, C]`.
    pub(crate) head_VC: Tensor,
}

#[derive(Debug)]
struct LayerWeights {
    input_norm_C: Tensor,
    query_key_value: Tensor,
    query_key_value_bias: Tensor,
    output: Tensor,
    post_norm_C: Tensor,
    gate_up: Tensor,
    down: Tensor,
}

/// Cosines and sines of some positions, broadcast over sequences and heads: `[1 or B, S, 1, D]`.
#[derive(Debug)]
pub(crate) struct Angles {
    cos: Tensor,
    /// The first half negated, so that `rotate_half(x) · sin` is `roll(x) · signed_sin`.
    signed_sin: Tensor,
}

/// Cosines and sines of all positions, `[T, D]`.
#[derive(Debug)]
struct Rotary {
    cos_TD: Tensor,
    signed_sin_TD: Tensor,
}

impl Rotary {
    /// Computed in float32 as transformers does, so that logits agree.
    fn new(config: &ModelConfig, positions: i64, device: Device) -> Result<Self, TchError> {
        let half = config.head_size() / 2;
        let exponents = Tensor::f_arange(half, (Kind::Float, Device::Cpu))?.f_mul_scalar(2.0)?;
        let exponents = exponents.f_div_scalar(config.head_size() as f64)?;
        let frequencies = Tensor::f_from_slice(&[config.rope_theta as f32])?.f_pow(&exponents)?.f_reciprocal()?;
        let angles = Tensor::f_arange(positions, (Kind::Float, Device::Cpu))?.f_outer(&frequencies)?;
        let (cos, sin) = (angles.f_cos()?, angles.f_sin()?);
        let negated = sin.f_neg()?;
        Ok(Self {
            cos_TD: Tensor::f_cat(&[&cos, &cos], 1)?.f_to_device(device)?,
            signed_sin_TD: Tensor::f_cat(&[&negated, &sin], 1)?.f_to_device(device)?,
        })
    }
}

fn rotate(heads_BSHD: &Tensor, angles: &Angles, head_size: i64) -> Tensor {
    heads_BSHD * &angles.cos + heads_BSHD.roll([head_size / 2], [-1]) * &angles.signed_sin
}

impl Model {
    /// A model whose weights are all zero. `positions` is the most tokens of a sequence, at most the config's.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub fn zeros(config: ModelConfig, positions: i64, device: Device) -> Result<Self, TrainerError> {
        let torch = || TrainerError::torch("allocated a model");
        let parameters = Parameters::zeros(&shapes(&config), device).map_err(torch())?;
        let positions = positions.min(config.max_position_embeddings);
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

    /// Draws weights as transformers initialises Qwen2: matrices from a normal distribution with a standard deviation
    /// of 0.02, biases 0, norms 1. The numbers depend on `seed` alone.
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
        self.rotary.cos_TD.size()[0]
    }

    /// Where the weights live.
    #[must_use]
    pub fn device(&self) -> Device {
        self.rotary.cos_TD.device()
    }

    /// The weights of a forward pass, from these or from a frozen copy's parameters. With gradients on they lead
    /// back to the parameters.
    pub(crate) fn weights_of(&self, parameters: &Parameters) -> Weights {
        // Every name was made by `shapes`.
        let get = |name: &str| parameters.get(name).map_or_else(Tensor::new, Tensor::shallow_clone);
        let cat = |layer: &str, parts: &[&str]| {
            let parts: Vec<Tensor> = parts.iter().map(|part| get(&format!("{layer}.{part}"))).collect();
            Tensor::cat(&parts, 0)
        };
        let layers = (0..self.config.num_hidden_layers).map(|index| {
            let layer = format!("model.layers.{index}");
            LayerWeights {
                input_norm_C: get(&format!("{layer}.input_layernorm.weight")),
                query_key_value: cat(
                    &layer,
                    &["self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"],
                ),
                query_key_value_bias: cat(
                    &layer,
                    &["self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"],
                ),
                output: get(&format!("{layer}.self_attn.o_proj.weight")),
                post_norm_C: get(&format!("{layer}.post_attention_layernorm.weight")),
                gate_up: cat(&layer, &["mlp.gate_proj.weight", "mlp.up_proj.weight"]),
                down: get(&format!("{layer}.mlp.down_proj.weight")),
            }
        });
        let embedding_VC = get("model.embed_tokens.weight");
        let head_VC =
            if self.config.tie_word_embeddings { embedding_VC.shallow_clone() } else { get("lm_head.weight") };
        Weights { layers: layers.collect(), norm_C: get("model.norm.weight"), embedding_VC, head_VC }
    }

    /// The weights of a forward pass.
    #[must_use]
    pub fn weights(&self) -> Weights {
        self.weights_of(&self.parameters)
    }

    /// The angles of the positions 0 to `length`, for every sequence alike.
    pub(crate) fn first_angles(&self, length: i64) -> Angles {
        let shape = [1, length, 1, self.config.head_size()];
        Angles {
            cos: self.rotary.cos_TD.narrow(0, 0, length).view(shape),
            signed_sin: self.rotary.signed_sin_TD.narrow(0, 0, length).view(shape),
        }
    }

    /// The angles of the given positions.
    pub(crate) fn angles_at(&self, positions_BS: &Tensor) -> Angles {
        let size = positions_BS.size();
        let shape = [size[0], size[1], 1, self.config.head_size()];
        let flat = positions_BS.view([-1]);
        Angles {
            cos: self.rotary.cos_TD.index_select(0, &flat).view(shape),
            signed_sin: self.rotary.signed_sin_TD.index_select(0, &flat).view(shape),
        }
    }

    /// The normed residual stream after the last layer, `[B, S, C]`. `attend` is given the layer's index, queries
    /// `[B, S, H, D]`, keys and values `[B, S, K, D]`, and gives `[B, S, H, D]`.
    pub(crate) fn hidden(
        &self,
        weights: &Weights,
        tokens_BS: &Tensor,
        angles: &Angles,
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
                .linear(&layer.query_key_value, Some(&layer.query_key_value_bias))
                .view([B, S, H + 2 * K, D]);
            let parts = heads.split_with_sizes([H + K, K], 2);
            let rotated = rotate(&parts[0], angles, D).split_with_sizes([H, K], 2);
            let attended_BSHD = attend(index, &rotated[0], &rotated[1], &parts[1]);
            // Not in place: the norm before needs its input for its gradient.
            x_BSC = &x_BSC + attended_BSHD.reshape([B, S, H * D]).linear::<&Tensor>(&layer.output, None);
            let wide = norm(&x_BSC, &layer.post_norm_C).linear::<&Tensor>(&layer.gate_up, None);
            let wide = wide.split(config.intermediate_size, -1);
            x_BSC = &x_BSC + (wide[0].silu() * &wide[1]).linear::<&Tensor>(&layer.down, None);
        }
        norm(&x_BSC, &weights.norm_C)
    }

    /// The residual stream of whole sequences, each position seeing itself and what comes before. Sequences shorter
    /// than S are filled at their end, where nothing sees the filling.
    pub(crate) fn causal_hidden(&self, weights: &Weights, tokens_BS: &Tensor) -> Tensor {
        let angles = self.first_angles(tokens_BS.size()[1]);
        let grouped = self.config.num_attention_heads != self.config.num_key_value_heads;
        self.hidden(weights, tokens_BS, &angles, |_, query, key, value| {
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

/// The names and shapes of the checkpoint's tensors.
fn shapes(config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
    let (C, F, V) = (config.hidden_size, config.intermediate_size, config.vocab_size);
    let (Q, KV) = (C, config.num_key_value_heads * config.head_size());
    let mut shapes = vec![("model.embed_tokens.weight".to_owned(), vec![V, C])];
    for index in 0..config.num_hidden_layers {
        for (part, shape) in [
            ("self_attn.q_proj.weight", vec![Q, C]),
            ("self_attn.q_proj.bias", vec![Q]),
            ("self_attn.k_proj.weight", vec![KV, C]),
            ("self_attn.k_proj.bias", vec![KV]),
            ("self_attn.v_proj.weight", vec![KV, C]),
            ("self_attn.v_proj.bias", vec![KV]),
            ("self_attn.o_proj.weight", vec![C, Q]),
            ("mlp.gate_proj.weight", vec![F, C]),
            ("mlp.up_proj.weight", vec![F, C]),
            ("mlp.down_proj.weight", vec![C, F]),
            ("input_layernorm.weight", vec![C]),
            ("post_attention_layernorm.weight", vec![C]),
        ] {
            shapes.push((format!("model.layers.{index}.{part}"), shape));
        }
    }
    shapes.push(("model.norm.weight".to_owned(), vec![C]));
    if !config.tie_word_embeddings {
        shapes.push(("lm_head.weight".to_owned(), vec![V, C]));
    }
    shapes
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
