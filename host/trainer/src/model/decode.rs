//! Layers of new tokens by the CUDA kernels: between the products with weights, which libtorch computes, a few kernels
//! instead of some fifteen operations, whose starting takes longer than their work.
#![allow(non_snake_case)]

use tch::{TchError, Tensor};

use super::mlp::{Dense, GateUp, Mlp};
use super::weights::QueryKeyWeights;
use super::{Model, Weights};
use crate::cuda::{Heads, Kernels, NewTokens, kernels};

impl Model {
    /// Kernels for the layers of new tokens; `None` if there are none for this device or these sizes.
    pub(crate) fn decode_kernels(&self) -> Option<&'static Kernels> {
        let config = &self.config;
        let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        let supported = config.has_plain_layers() && Heads::supported(heads, kv_heads, config.head_size());
        kernels(self.device()).filter(|_| supported)
    }

    /// Normalised residual stream after the last layer, `[R, C]`, of R new tokens with the given ids, positions, and rows
    /// of the cache. `cache` returns a layer's keys and values, `[…, K · D]` each, in the number format of the pass.
    ///
    /// # Errors
    /// If a shape does not fit, or an operation fails.
    pub(crate) fn decoded<'a>(
        &self,
        kernels: &Kernels,
        weights: &Weights,
        [tokens_R, positions_R, places_R]: [&Tensor; 3],
        cache: impl Fn(usize) -> [&'a Tensor; 2],
    ) -> Result<Tensor, TchError> {
        let (config, epsilon) = (&self.config, self.config.rms_norm_eps);
        let (H, K, D) = (config.num_attention_heads, config.num_key_value_heads, config.head_size());
        let other = || TchError::Shape("the kernels compute plain layers with joined weights".to_owned());
        let angles = self.rotary.first_table().ok_or_else(other)?.each_ref();
        let tokens = NewTokens { positions_R, places_R, angles };
        let stream_RC = weights.embed(tokens_R).f_contiguous()?;
        let R = stream_RC.size()[0];
        // Kernels run in their order, so that every layer can write to the same places.
        let empty = |width: i64| Tensor::f_empty([R, width], (self.kind(), self.device()));
        let [normed_RC, queries, attended] = [empty(config.hidden_size)?, empty(H * D)?, empty(H * D)?];
        let gated_RF = empty(config.intermediate_size)?;
        let mut more: Option<Tensor> = None;
        for (index, layer) in weights.layers.iter().enumerate() {
            let (Some(input_norm_C), Some(post_norm_C)) = (&layer.norms.before_attention, &layer.norms.before_mlp)
            else {
                return Err(other());
            };
            let Mlp::Dense(Dense { gate_up: GateUp::Joined(gate_up), down, .. }) = &layer.mlp else {
                return Err(other());
            };
            let norms = match &layer.query_key_norm {
                None => None,
                Some(QueryKeyWeights::Heads(norm_HD)) => Some(norm_HD),
                Some(_) => return Err(other()),
            };
            kernels.add_norm(&stream_RC, more.as_ref(), input_norm_C, epsilon, &normed_RC)?;
            let heads = Heads { query: H, kv: K, size: D, norms, epsilon };
            let fed = layer.query_key_value.of(&normed_RC);
            kernels.attend(&fed, heads, &tokens, cache(index), [&queries, &attended])?;
            let out_RC = layer.output.of(&attended);
            kernels.add_norm(&stream_RC, Some(&out_RC), post_norm_C, epsilon, &normed_RC)?;
            kernels.gated(&gate_up.of(&normed_RC), &gated_RF)?;
            more = Some(down.of(&gated_RF));
        }
        kernels.add_norm(&stream_RC, more.as_ref(), &weights.norm_C, epsilon, &normed_RC)?;
        Ok(normed_RC)
    }
}
