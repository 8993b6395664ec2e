//! The decoder of all families: RMSNorm, rotary positions, grouped-query attention, gated feed-forward parts. What differs
//! between families are options of [`crate::ModelConfig::decoder`].
//!
//! Training and generation share one computation; they differ only in the attention over keys and values, which the
//! caller passes as `attend`. Suffixes of names are axes: B sequences, S positions, N selected positions, C width of
//! the residual stream, H query heads, K key and value heads, D width of a head, V vocabulary, T cached positions.
#![allow(non_snake_case)]

mod attention;
mod decode;
mod formats;
mod mlp;
mod product;
mod rotary;
mod weights;

use gymkhana_learner::DataError;
use gymkhana_record::Seed;
use tch::{Device, Kind, Tensor, no_grad_guard};

use crate::lora::{self, Adapters};
use crate::parameters::Parameters;
use crate::{Lora, ModelConfig, TrainerError, TrainerSettings, loss};
use rotary::Rotary;

pub(crate) use attention::{Sight, VisibleKeys};
pub(crate) use formats::{EMBEDDING, Formats, OUTPUT_LAYER};
pub(crate) use rotary::Angles;
pub(crate) use weights::shapes;
use weights::{LayerWeights, QueryKeyWeights, WeightSource};

pub use weights::Weights;

/// A model: its config, weights and rotary tables.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    parameters: Parameters,
    adapters: Option<Adapters>,
    rotary: Rotary,
    formats: Formats,
    /// Whether a row of a generated batch must not depend on the others.
    deterministic: bool,
    /// Maximum size of the logits that the output layer computes at once, in MiB of float32, if it is set.
    logits_chunk_mib: Option<usize>,
}

impl Model {
    /// A model to train in float32, with all weights 0. `positions` is the maximum length of a sequence, at most the
    /// config's.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub fn zeros(config: ModelConfig, positions: i64, device: Device) -> Result<Self, TrainerError> {
        let parameters = Parameters::zeros(&shapes(&config), device).map_err(allocated())?;
        Self::with(config, parameters, positions, device)
    }

    /// A model with these settings and all weights 0. With adapters, only they are trained; a model that does not learn gets
    /// none. Weights that are not trained are kept in the number formats of [`Formats::of_frozen`].
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub(crate) fn of(config: ModelConfig, settings: &TrainerSettings, device: Device) -> Result<Self, TrainerError> {
        let lora = settings.lora.as_ref().filter(|_| settings.learns);
        let (formats, shapes) = (Formats::of(settings), shapes(&config));
        let parameters = if settings.learns && lora.is_none() {
            Parameters::zeros(&shapes, device)
        } else {
            Parameters::frozen(&shapes, device, |name, shape| formats.of_frozen(&config, name, shape))
        };
        let parameters = parameters.map_err(allocated())?;
        let adapters = lora.map(|lora| Adapters::new(lora.clone(), &parameters, device, settings.seed.child("lora")));
        let positions = settings.context.map_or(config.positions(), |context| context as i64);
        Ok(Self {
            adapters: adapters.transpose().map_err(allocated())?,
            formats,
            deterministic: settings.deterministic,
            logits_chunk_mib: settings.logits_chunk_mib,
            ..Self::with(config, parameters, positions, device)?
        })
    }

    fn with(config: ModelConfig, parameters: Parameters, positions: i64, device: Device) -> Result<Self, TrainerError> {
        let rotary = Rotary::new(&config, positions.min(config.positions()), device).map_err(allocated())?;
        let (adapters, formats, deterministic, logits_chunk_mib) = (None, Formats::FLOAT, false, None);
        Ok(Self { config, parameters, adapters, rotary, formats, deterministic, logits_chunk_mib })
    }

    /// Draws random weights: matrices from normal distributions, biases 0, norms 1. The numbers depend only on `seed`.
    ///
    /// # Errors
    /// If libtorch fails to copy.
    pub fn randomise(&self, seed: Seed) -> Result<(), TrainerError> {
        for (name, tensor) in self.parameters.named() {
            let shape = tensor.size();
            let values = if name.ends_with("norm.weight") {
                if self.config.decoder.norms_add_one { tensor.f_zeros_like() } else { tensor.f_ones_like() }
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

    /// Standard deviation of a random matrix: one over the square root of its inputs, so that every layer preserves the
    /// scale of its input. Matrices that write to the residual stream are scaled down by the square root of their
    /// number. The usual 0.02 suits widths of thousands: at a width of 160, attention starts flat and a model needs
    /// several times as many steps to learn to copy.
    fn initial_deviation(&self, name: &str, shape: &[i64]) -> f64 {
        let inputs = shape.last().copied().unwrap_or(1).max(1) as f64;
        let writers = (2 * self.config.num_hidden_layers) as f64;
        let writes = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
        if writes { (inputs * writers).sqrt().recip() } else { inputs.sqrt().recip() }
    }

    /// The model's config.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Weights under the names of the checkpoint, without the adapters' terms.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Settings of the adapters, if there are any.
    pub(crate) fn lora(&self) -> Option<&Lora> {
        self.adapters.as_ref().map(|adapters| &adapters.lora)
    }

    /// Trained parameters: the adapters if there are any, else the weights.
    pub(crate) fn trained(&self) -> &Parameters {
        self.adapters.as_ref().map_or(&self.parameters, |adapters| &adapters.parameters)
    }

    pub(crate) fn trained_mut(&mut self) -> &mut Parameters {
        self.adapters.as_mut().map_or(&mut self.parameters, |adapters| &mut adapters.parameters)
    }

    /// Weights under the names of the checkpoint, with the adapters' terms added.
    pub(crate) fn merged(&self) -> impl Iterator<Item = (&str, Tensor)> {
        self.merged_with(self.trained())
    }

    /// As [`Model::merged`], with a copy of the parameters of [`Model::trained`].
    pub(crate) fn merged_with<'a>(&'a self, trained: &'a Parameters) -> impl Iterator<Item = (&'a str, Tensor)> {
        let all = if self.adapters.is_some() { &self.parameters } else { trained };
        all.named().map(move |(name, tensor)| {
            let halves = self
                .adapters
                .as_ref()
                .and_then(|adapters| Some((lora::low_rank(trained, name)?, adapters.lora.scale())));
            let merged = halves.map(|(halves, scale)| lora::merged(tensor, halves, scale));
            (name, merged.unwrap_or_else(|| tensor.shallow_clone()))
        })
    }

    /// Tensors from which a checkpoint resumes adapters: their factors, and the adapted matrices without the adapters'
    /// terms.
    pub(crate) fn adapter_state(&self) -> Vec<(String, Tensor)> {
        let Some(adapters) = &self.adapters else { return Vec::new() };
        let adapted = |name: &str| lora::low_rank(&adapters.parameters, name).is_some();
        let base = self.parameters.named().filter(|(name, _)| adapted(name));
        let base = base.map(|(name, tensor)| (format!("base.{name}"), tensor.shallow_clone()));
        let own = adapters.parameters.named();
        base.chain(own.map(|(name, tensor)| (format!("adapter.{name}"), tensor.shallow_clone()))).collect()
    }

    /// A model of the same config on the same device, with additional tensors and this model's merged weights.
    pub(crate) fn copy_with(&self, more: &[(String, Vec<i64>)]) -> Result<Self, TrainerError> {
        let shapes = [&shapes(&self.config), more].concat();
        let parameters = Parameters::zeros(&shapes, self.device()).map_err(allocated())?;
        let copy = Self::with(self.config.clone(), parameters, self.positions(), self.device())?;
        for (name, tensor) in self.merged() {
            copy.parameters.set(name, &tensor).map_err(TrainerError::torch("copied a model"))?;
        }
        Ok(Self { formats: self.formats, ..copy })
    }

    /// A copy of the trained parameters that is never trained, such as a reference policy.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub(crate) fn frozen_copy(&self) -> Result<Parameters, TrainerError> {
        let kind = |name: &str, shape: &[i64]| match self.adapters {
            Some(_) => Kind::Float,
            None => self.formats.of_frozen(&self.config, name, shape),
        };
        self.trained().frozen_copy(kind).map_err(TrainerError::torch("copied the weights"))
    }

    /// A copy of the trained parameters that follows them.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub(crate) fn trained_copy(&self) -> Result<Parameters, TrainerError> {
        self.trained().copy().map_err(TrainerError::torch("copied the weights"))
    }

    /// Number format of forward and backward passes; trained weights stay in float32.
    pub(crate) fn kind(&self) -> Kind {
        self.formats.pass
    }

    /// Starts and lengths of the chunks in which the output layer processes `count` tokens. Logits of a whole batch
    /// never exist at once.
    pub(crate) fn logits_chunks(&self, count: i64, by: LogitsBy) -> impl Iterator<Item = (i64, i64)> + use<> {
        let most = self
            .logits_chunk_mib
            .map_or_else(|| by.default_chunk(self.device(), self.formats.output), |mib| (mib as i64) << 18);
        loss::chunks(count, self.config.vocab_size, most)
    }

    /// Maximum length of a sequence in tokens.
    #[must_use]
    pub fn positions(&self) -> i64 {
        self.rotary.positions()
    }

    /// Device of the weights.
    #[must_use]
    pub fn device(&self) -> Device {
        self.rotary.device()
    }

    /// Weights of a forward pass with the parameters of [`Model::trained`] or a frozen copy of them. With gradients
    /// enabled, gradients reach those parameters.
    pub(crate) fn weights_of(&self, trained: &Parameters) -> Weights {
        self.source(trained, false).weights()
    }

    /// Weights of a forward pass. With gradients enabled, gradients reach the trained parameters.
    #[must_use]
    pub fn weights(&self) -> Weights {
        self.weights_of(self.trained())
    }

    /// Weights of many forward passes without gradients, with merged adapters.
    pub(crate) fn inference_weights(&self) -> Weights {
        let _guard = no_grad_guard();
        self.source(self.trained(), true).weights()
    }

    fn source<'a>(&'a self, trained: &'a Parameters, merged: bool) -> WeightSource<'a> {
        let (config, formats) = (&self.config, self.formats);
        let every_token = merged && self.deterministic;
        match &self.adapters {
            None => WeightSource { config, parameters: trained, adapters: None, merged, every_token, formats },
            Some(Adapters { lora, .. }) => {
                let adapters = Some((trained, lora.scale()));
                WeightSource { config, parameters: &self.parameters, adapters, merged, every_token, formats }
            }
        }
    }

    /// Angles of the given positions.
    pub(crate) fn angles_at(&self, positions_BS: &Tensor) -> Angles {
        self.rotary.at(positions_BS)
    }

    /// Normalised residual stream after the last layer, `[B, S, C]`. `attend` receives the layer's index, queries
    /// `[B, S, H, D]`, keys and values `[B, S, K, D]`, and returns `[B, S, H, D]`. With `only`, indices into the flattened
    /// `[B · S]`, the result covers these positions alone, `[1, N, C]`, and the last layer computes its feed-forward
    /// part for them only.
    pub(crate) fn hidden(
        &self,
        weights: &Weights,
        tokens_BS: &Tensor,
        angles: &Angles,
        only: Option<&Tensor>,
        mut attend: impl FnMut(usize, &Tensor, &Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        let mut x_BSC = weights.embed(tokens_BS);
        for index in 0..weights.depth() {
            x_BSC = self.layer(weights, index, &x_BSC, angles, only, &mut attend);
        }
        x_BSC
    }

    /// Residual stream after a layer. After the last layer it is normalised, and with `only` restricted to these
    /// positions.
    pub(crate) fn layer(
        &self,
        weights: &Weights,
        index: usize,
        x_BSC: &Tensor,
        angles: &Angles,
        only: Option<&Tensor>,
        mut attend: impl FnMut(usize, &Tensor, &Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        let layer = &weights.layers[index];
        let [query, key, value] = self.heads(layer, index, x_BSC, angles);
        let (size, width) = (x_BSC.size(), query.size()[2] * query.size()[3]);
        let attended = attend(index, &query, &key, &value).reshape([size[0], size[1], width]);
        if index + 1 < weights.depth() {
            return self.feed_forward(layer, x_BSC, &attended);
        }
        let last = match only {
            None => self.feed_forward(layer, x_BSC, &attended),
            Some(places_N) => {
                let chosen = |of: &Tensor| of.reshape([-1, of.size()[2]]).index_select(0, places_N).unsqueeze(0);
                self.feed_forward(layer, &chosen(x_BSC), &chosen(&attended))
            }
        };
        scaled(self.norm(&last, &weights.norm_C), self.config.decoder.scales.logits)
    }

    fn norm(&self, x: &Tensor, weight: &Tensor) -> Tensor {
        x.rms_norm(weight.size(), Some(weight), self.config.rms_norm_eps)
    }

    /// Normalised, if there is a norm.
    fn normed(&self, x: &Tensor, weight: Option<&Tensor>) -> Tensor {
        weight.map_or_else(|| x.shallow_clone(), |weight| self.norm(x, weight))
    }

    /// Queries `[B, S, H, D]`, keys and values `[B, S, K, D]` of a layer.
    fn heads(&self, layer: &LayerWeights, index: usize, x_BSC: &Tensor, angles: &Angles) -> [Tensor; 3] {
        let (config, size) = (&self.config, x_BSC.size());
        let (H, K, D) = (config.num_attention_heads, config.num_key_value_heads, config.head_size());
        let fed = layer.query_key_value.of(&self.normed(x_BSC, layer.norms.before_attention.as_ref()));
        let fed = match &layer.query_key_norm {
            Some(QueryKeyWeights::Whole([query, key])) => {
                let parts = fed.split_with_sizes([H * D, K * D, K * D], -1);
                Tensor::cat(&[&self.norm(&parts[0], query), &self.norm(&parts[1], key), &parts[2]], -1)
            }
            _ => fed,
        };
        let parts = fed.view([size[0], size[1], H + 2 * K, D]).split_with_sizes([H + K, K], 2);
        let each =
            |heads: &Tensor, norm_HD: &Tensor| heads.rms_norm::<&Tensor>([D], None, config.rms_norm_eps) * norm_HD;
        let query_key = match &layer.query_key_norm {
            Some(QueryKeyWeights::Heads(norm_HD)) => each(&parts[0], norm_HD),
            _ => parts[0].shallow_clone(),
        };
        let rotated = match config.decoder.layers[index].rope {
            Some(kind) => angles.rotate(&query_key, kind, config.decoder.pairs.interleaved),
            None => query_key,
        };
        let rotated = match &layer.query_key_norm {
            Some(QueryKeyWeights::RotatedHeads(norm_HD)) => each(&rotated, norm_HD),
            _ => rotated,
        };
        let rotated = rotated.split_with_sizes([H, K], 2);
        let query = angles.scale(rotated[0].shallow_clone(), config.decoder.scales.attention);
        [query, rotated[1].shallow_clone(), parts[1].shallow_clone()]
    }

    /// Adds a layer's attention and feed-forward output to the residual stream. Not in place, because the norms need
    /// their inputs for the gradients.
    fn feed_forward(&self, layer: &LayerWeights, x_BSC: &Tensor, attended: &Tensor) -> Tensor {
        let (norms, scale) = (&layer.norms, self.config.decoder.scales.residual);
        let attended = self.normed(&layer.output.of(attended), norms.after_attention.as_ref());
        let x_BSC = x_BSC + scaled(attended, scale);
        let fed = layer.mlp.of(&self.normed(&x_BSC, norms.before_mlp.as_ref()));
        x_BSC + scaled(self.normed(&fed, norms.after_mlp.as_ref()), scale)
    }

    /// Residual stream of whole sequences with causal attention, `[B, S, C]`. Shorter sequences are padded at the end,
    /// where no token sees the padding.
    pub(crate) fn causal_hidden(&self, weights: &Weights, tokens_BS: &Tensor) -> Tensor {
        let angles = self.rotary.first(tokens_BS.size()[1]);
        self.hidden(weights, tokens_BS, &angles, None, |layer, query, key, value| {
            let [query, key, value] = [query, key, value].map(|heads| heads.transpose(1, 2));
            Sight::of(&self.config, layer).causal([&query, &key, &value]).transpose(1, 2)
        })
    }

    /// Logits of every position of one sequence, `[S, V]`, without gradients.
    ///
    /// # Errors
    /// If the sequence is empty or too long, or a token is outside the vocabulary.
    pub fn logits(&self, tokens: &[u32]) -> Result<Tensor, TrainerError> {
        self.check_tokens(tokens).map_err(|problem| DataError { what: "a sequence".into(), problem })?;
        let _guard = no_grad_guard();
        let weights = self.inference_weights();
        let tokens_1S = token_tensor(tokens).unsqueeze(0).to_device(self.device());
        let hidden_1SC = self.causal_hidden(&weights, &tokens_1S);
        Ok(weights.logits(&hidden_1SC.squeeze_dim(0)))
    }

    /// Checks a sequence; the error describes the problem.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), String> {
        let (length, vocabulary) = (tokens.len(), self.config.vocab_size);
        if tokens.is_empty() {
            return Err("it is empty".to_owned());
        }
        if length as i64 > self.positions() {
            return Err(format!("its {length} tokens exceed the context of {}", self.positions()));
        }
        match tokens.iter().find(|token| i64::from(**token) >= vocabulary) {
            Some(token) => Err(format!("token {token} is outside the vocabulary of {vocabulary}")),
            None => Ok(()),
        }
    }
}

fn allocated() -> impl FnOnce(tch::TchError) -> TrainerError {
    TrainerError::torch("allocated a model")
}

/// A tensor times a factor.
fn scaled(x: Tensor, factor: f64) -> Tensor {
    if factor == 1.0 { x } else { x * factor }
}

/// What reads the logits of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogitsBy {
    /// The CUDA kernels, which keep no copies of them.
    Kernels,
    /// Operations of libtorch, which keep several copies in float32.
    Operations,
}

impl LogitsBy {
    /// Default number of logits in a chunk. A GPU needs larger products than a processor, and has no cache that they
    /// should fit into.
    fn default_chunk(self, device: Device, kind: Kind) -> i64 {
        match (self, device.is_cuda()) {
            (Self::Kernels, _) => (2560 << 20) / kind.elt_size_in_bytes() as i64,
            (Self::Operations, true) => 1024 << 18,
            (Self::Operations, false) => 32 << 18,
        }
    }
}

/// Token ids as an int64 tensor.
pub(crate) fn token_tensor(tokens: &[u32]) -> Tensor {
    let tokens: Vec<i64> = tokens.iter().map(|token| i64::from(*token)).collect();
    Tensor::from_slice(&tokens)
}

/// Normally distributed numbers (Box–Muller transform).
fn normals(seed: Seed, count: usize, deviation: f64) -> Vec<f32> {
    let mut stream = seed.stream();
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        // 1 - u is in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - stream.unit()).ln()).sqrt() * deviation;
        let (sin, cos) = (std::f64::consts::TAU * stream.unit()).sin_cos();
        values.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    values.truncate(count);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Precision, TinyModel, tiny};

    /// Logits of a bfloat16 output layer are bfloat16 numbers; those of a float32 one are not, in models with and without
    /// an output layer of their own. Only the latter equal the product in double precision of the same residual stream.
    #[test]
    fn the_output_layer_has_a_number_format_of_its_own() {
        let size = TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, context: 32 };
        for tied in [true, false] {
            let mut config = tiny::config(&size).expect("a model");
            config.tie_word_embeddings = tied;
            let rounded = |output_precision| {
                let _guard = no_grad_guard();
                let settings =
                    TrainerSettings { precision: Precision::Bfloat16, output_precision, ..TrainerSettings::default() };
                let model = Model::of(config.clone(), &settings, Device::Cpu).expect("a model");
                model.randomise(Seed(1)).expect("weights");
                let logits = model.logits(&[65, 66, 67]).expect("logits");
                assert_eq!(logits.kind(), Kind::Float);
                let hidden_1SC = model.causal_hidden(&model.weights(), &token_tensor(&[65, 66, 67]).unsqueeze(0));
                let name = if tied { EMBEDDING } else { OUTPUT_LAYER };
                let head_VC = model.parameters().get(name).expect("known").to_kind(Kind::Double);
                let exact_SV = hidden_1SC.squeeze_dim(0).to_kind(Kind::Double).matmul(&head_VC.tr());
                let error = (logits.to_kind(Kind::Double) - exact_SV).abs().max().double_value(&[]);
                (logits.to_kind(Kind::BFloat16).to_kind(Kind::Float) == logits, logits, error)
            };
            let (all, coarse, rounding) = rounded(None);
            let (none, fine, error) = rounded(Some(Precision::Float32));
            assert!(all && !none, "tied: {tied}");
            assert!(error < 1e-5 && rounding > 1e-3, "tied: {tied}: {error}, {rounding}");
            assert!((coarse - fine).abs().max().double_value(&[]) < 0.1, "tied: {tied}");
        }
    }
}
