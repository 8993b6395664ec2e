//! A model's weights: names and shapes in the checkpoint, and the layout of a forward pass.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use super::formats::{EMBEDDING, Formats, OUTPUT_LAYER};
use super::mlp::{Dense, GateUp, Mlp, Sparse};
use super::product::Linear;
use super::product::product;
use crate::config::{Experts, QueryKeyNorm, SHARED_EXPERT};
use crate::parameters::Parameters;
use crate::{ModelConfig, lora};

/// Weights of a forward pass. Matrices that multiply the same input are concatenated.
#[derive(Debug)]
pub struct Weights {
    embedding_VC: Tensor,
    pub(super) layers: Vec<LayerWeights>,
    pub(super) norm_C: Tensor,
    /// Output layer, `[V, C]`.
    head_VC: Tensor,
    embedding_scale: f64,
    /// Bound that logits approach.
    logits_cap: Option<f64>,
}

impl Weights {
    /// Residual stream before the first layer, `[B, S, C]`.
    pub(crate) fn embed(&self, tokens_BS: &Tensor) -> Tensor {
        let embedded = Tensor::embedding(&self.embedding_VC, tokens_BS, -1, false, false);
        if self.embedding_scale == 1.0 { embedded } else { embedded * self.embedding_scale }
    }

    /// Number of layers.
    pub(crate) fn depth(&self) -> usize {
        self.layers.len()
    }

    /// Logits in float32, `[N, V]`, from the residual stream after the last layer, `[N, C]`.
    pub(crate) fn logits(&self, hidden_NC: &Tensor) -> Tensor {
        self.own_logits(hidden_NC).to_kind(Kind::Float)
    }

    /// Logits in the number format of the output layer.
    pub(crate) fn own_logits(&self, hidden_NC: &Tensor) -> Tensor {
        let logits_NV = product(&hidden_NC.to_kind(self.head_VC.kind()), &self.head_VC, None);
        match self.logits_cap {
            None => logits_NV,
            Some(cap) => (logits_NV / cap).tanh() * cap,
        }
    }

    /// Whether logits are the product of the residual stream with the output layer, and nothing more.
    pub(crate) fn has_plain_logits(&self) -> bool {
        self.logits_cap.is_none()
    }

    /// Output layer, `[V, C]`.
    pub(crate) fn head(&self) -> &Tensor {
        &self.head_VC
    }
}

/// Weights of one layer. Parts that the family does not have are `None`.
#[derive(Debug)]
pub(super) struct LayerWeights {
    pub norms: Norms,
    pub query_key_value: Linear,
    pub query_key_norm: Option<QueryKeyWeights>,
    pub output: Linear,
    pub mlp: Mlp,
}

/// Norms around the parts of a layer, `[C]` each.
#[derive(Debug)]
pub(super) struct Norms {
    pub before_attention: Option<Tensor>,
    pub after_attention: Option<Tensor>,
    pub before_mlp: Option<Tensor>,
    pub after_mlp: Option<Tensor>,
}

/// Norms of queries and keys.
#[derive(Debug)]
pub(super) enum QueryKeyWeights {
    /// Of each head, `[H + K, D]`.
    Heads(Tensor),
    /// Of each head after the rotation, `[H + K, D]`.
    RotatedHeads(Tensor),
    /// Of all heads of the queries, `[H · D]`, and of the keys, `[K · D]`.
    Whole([Tensor; 2]),
}

/// Parameters and settings from which the weights of a forward pass are built.
pub(super) struct WeightSource<'a> {
    pub config: &'a ModelConfig,
    /// Tensors under the names of [`shapes`].
    pub parameters: &'a Parameters,
    /// Adapters and their factor.
    pub adapters: Option<(&'a Parameters, f64)>,
    /// Whether adapters are merged into the matrices: faster, but without gradients for the adapters.
    pub merged: bool,
    /// Whether each expert computes all tokens.
    pub every_token: bool,
    /// Number formats of the pass.
    pub formats: Formats,
}

impl WeightSource<'_> {
    /// Weights of a forward pass. With gradients enabled, gradients reach the parameters, unless adapters are merged.
    pub fn weights(&self) -> Weights {
        let embedding_VC = self.get(EMBEDDING);
        let head_VC = match self.config.tie_word_embeddings {
            true if self.formats.output == self.formats.pass => embedding_VC.shallow_clone(),
            true => self.get_as(EMBEDDING, self.formats.output),
            false => self.get_as(OUTPUT_LAYER, self.formats.output),
        };
        let layers = (0..self.config.num_hidden_layers).map(|index| self.layer(index)).collect();
        Weights {
            layers,
            norm_C: self.norm("model.norm"),
            embedding_VC,
            head_VC,
            embedding_scale: self.config.decoder.scales.embedding,
            logits_cap: self.config.decoder.caps.logits,
        }
    }

    fn layer(&self, index: i64) -> LayerWeights {
        let layer = format!("model.layers.{index}");
        let decoder = &self.config.decoder;
        let norm = |name: Option<&str>| name.map(|name| self.norm(&format!("{layer}.{name}")));
        let query_key_value: &[&str] =
            if decoder.fused.query_key_value { &["qkv_proj"] } else { &["q_proj", "k_proj", "v_proj"] };
        let attention = format!("{layer}.self_attn");
        LayerWeights {
            norms: Norms {
                before_attention: norm(decoder.norms.before_attention),
                after_attention: norm(decoder.norms.after_attention),
                before_mlp: norm(decoder.norms.before_mlp),
                after_mlp: norm(decoder.norms.after_mlp),
            },
            query_key_value: self.linear(&attention, query_key_value, decoder.biases.query_key_value),
            query_key_norm: decoder.query_key_norm.map(|norm| self.query_key_norm(&layer, norm)),
            output: self.linear(&attention, &["o_proj"], decoder.biases.output),
            mlp: match &decoder.experts {
                Some(experts) if decoder.layers[index as usize].sparse => Mlp::Sparse(self.sparse(&layer, experts)),
                _ => Mlp::Dense(self.dense(&format!("{layer}.mlp"), &["gate_proj", "up_proj", "down_proj"])),
            },
        }
    }

    fn query_key_norm(&self, layer: &str, norm: QueryKeyNorm) -> QueryKeyWeights {
        let config = self.config;
        let [query, key] = norm.names().map(|name| self.norm(&format!("{layer}.{name}")));
        let heads = || {
            let of = |norm: &Tensor, count: i64| norm.expand([count, config.head_size()], false);
            Tensor::cat(&[of(&query, config.num_attention_heads), of(&key, config.num_key_value_heads)], 0)
        };
        match norm {
            QueryKeyNorm::Heads => QueryKeyWeights::Heads(heads()),
            QueryKeyNorm::RotatedHeads => QueryKeyWeights::RotatedHeads(heads()),
            QueryKeyNorm::Whole => QueryKeyWeights::Whole([query, key]),
        }
    }

    fn dense(&self, part: &str, [gate, up, down]: &[&str; 3]) -> Dense {
        let decoder = &self.config.decoder;
        let biased = decoder.biases.mlp;
        let gate_up = if decoder.fused.gate_up {
            GateUp::Joined(self.linear(part, &["gate_up_proj"], biased))
        } else if self.merged || !self.parameters.device().is_cuda() {
            GateUp::Joined(self.linear(part, &[gate, up], biased))
        } else {
            GateUp::Apart([gate, up].map(|matrix| self.linear(part, &[matrix], biased)))
        };
        Dense { gate_up, down: self.linear(part, &[down], biased), activation: decoder.activation }
    }

    fn sparse(&self, layer: &str, options: &Experts) -> Sparse {
        let names = options.names;
        let expert = |index: i64| self.dense(&format!("{layer}.{}.{index}", names.expert), &names.matrices);
        let [shared, gate] = SHARED_EXPERT;
        let shared = || {
            let expert = self.dense(&format!("{layer}.{shared}"), &names.matrices);
            (expert, self.linear(layer, &[gate], false))
        };
        Sparse {
            router: self.linear(layer, &[names.router], false),
            experts: (0..options.count).map(expert).collect(),
            shared: options.shared_width.map(|_| shared()),
            options: *options,
            every_token: self.every_token,
        }
    }

    /// Weight of a norm, to which 1 is added where the family does so.
    fn norm(&self, name: &str) -> Tensor {
        let name = format!("{name}.weight");
        if self.config.decoder.norms_add_one {
            return (self.get_as(&name, Kind::Float) + 1.0).to_kind(self.formats.pass);
        }
        self.get(&name)
    }

    /// Concatenates matrices that multiply the same input.
    fn linear(&self, whole: &str, parts: &[&str], biased: bool) -> Linear {
        let parts: Vec<String> = parts.iter().map(|part| format!("{whole}.{part}")).collect();
        let joined = |ending: &str| match &parts[..] {
            [part] => self.get(&format!("{part}.{ending}")),
            parts => {
                Tensor::cat(&parts.iter().map(|part| self.get(&format!("{part}.{ending}"))).collect::<Vec<_>>(), 0)
            }
        };
        let adapter = if self.merged { None } else { self.adapter(&parts) };
        Linear { weight_OI: joined("weight"), bias_O: biased.then(|| joined("bias")), adapter }
    }

    /// Combined adapter of the parts: their first factors concatenated, their second factors along a diagonal.
    fn adapter(&self, parts: &[String]) -> Option<[Tensor; 2]> {
        let (adapters, scale) = self.adapters?;
        let names = parts.iter().map(|part| format!("{part}.weight"));
        let found: Vec<(String, Option<[&Tensor; 2]>)> =
            names.map(|name| (name.clone(), lora::low_rank(adapters, &name))).collect();
        let downs: Vec<&Tensor> = found.iter().filter_map(|(_, halves)| halves.map(|[down, _]| down)).collect();
        if downs.is_empty() {
            return None;
        }
        let ups: Vec<Tensor> = found
            .iter()
            .map(|(name, halves)| match halves {
                Some([_, up]) => *up * scale,
                None => {
                    let matrix = self.get(name);
                    Tensor::zeros([matrix.size()[0], 0], (Kind::Float, matrix.device()))
                }
            })
            .collect();
        Some([Tensor::cat(&downs, 0), Tensor::block_diag(&ups)].map(|half| half.to_kind(self.formats.pass)))
    }

    /// A tensor of [`shapes`], in the number format of the pass.
    fn get(&self, name: &str) -> Tensor {
        self.get_as(name, self.formats.pass)
    }

    fn get_as(&self, name: &str, kind: Kind) -> Tensor {
        let plain = || self.parameters.get(name).map_or_else(Tensor::new, Tensor::shallow_clone);
        let adapted = self.adapters.filter(|_| self.merged).and_then(|(adapters, scale)| {
            let halves = lora::low_rank(adapters, name)?;
            Some(lora::merged(self.parameters.get(name)?, halves, scale))
        });
        adapted.unwrap_or_else(plain).to_kind(kind)
    }
}

/// Names and shapes of the checkpoint's tensors.
pub(crate) fn shapes(config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
    let (C, V) = (config.hidden_size, config.vocab_size);
    let mut shapes = vec![(EMBEDDING.to_owned(), vec![V, C])];
    for (index, kind) in config.decoder.layers.iter().enumerate() {
        let mut own = attention_shapes(config);
        own.extend(match &config.decoder.experts {
            Some(experts) if kind.sparse => expert_shapes(config, experts),
            _ => mlp_shapes(config, "mlp", &["gate_proj", "up_proj", "down_proj"], config.intermediate_size),
        });
        own.extend(config.decoder.norms.names().map(|name| (format!("{name}.weight"), vec![C])));
        shapes.extend(own.into_iter().map(|(name, shape)| (format!("model.layers.{index}.{name}"), shape)));
    }
    shapes.push(("model.norm.weight".to_owned(), vec![C]));
    if !config.tie_word_embeddings {
        shapes.push((OUTPUT_LAYER.to_owned(), vec![V, C]));
    }
    shapes
}

/// A matrix from I inputs to O outputs, and its bias.
fn linear_shapes(name: &str, [O, I]: [i64; 2], biased: bool) -> impl Iterator<Item = (String, Vec<i64>)> + use<> {
    let bias = biased.then(|| (format!("{name}.bias"), vec![O]));
    std::iter::once((format!("{name}.weight"), vec![O, I])).chain(bias)
}

/// Tensors of a layer's attention.
fn attention_shapes(config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
    let (C, D, decoder) = (config.hidden_size, config.head_size(), &config.decoder);
    let (Q, KV) = (config.num_attention_heads * D, config.num_key_value_heads * D);
    let (biased, fused) = (decoder.biases.query_key_value, [("qkv_proj", Q + 2 * KV)]);
    let apart = [("q_proj", Q), ("k_proj", KV), ("v_proj", KV)];
    let inputs: &[(&str, i64)] = if decoder.fused.query_key_value { &fused } else { &apart };
    let mut shapes: Vec<(String, Vec<i64>)> =
        inputs.iter().flat_map(|(name, O)| linear_shapes(&format!("self_attn.{name}"), [*O, C], biased)).collect();
    shapes.extend(linear_shapes("self_attn.o_proj", [C, Q], decoder.biases.output));
    if let Some(norm) = decoder.query_key_norm {
        let widths = if norm == QueryKeyNorm::Whole { [Q, KV] } else { [D, D] };
        let named = norm.names().into_iter().zip(widths);
        shapes.extend(named.map(|(name, width)| (format!("{name}.weight"), vec![width])));
    }
    shapes
}

/// Tensors of a feed-forward part of width F.
fn mlp_shapes(config: &ModelConfig, part: &str, [gate, up, down]: &[&str; 3], F: i64) -> Vec<(String, Vec<i64>)> {
    let (C, decoder) = (config.hidden_size, &config.decoder);
    let apart = [(*gate, F), (*up, F)];
    let inputs: &[(&str, i64)] = if decoder.fused.gate_up { &[("gate_up_proj", 2 * F)] } else { &apart };
    let biased = decoder.biases.mlp;
    let mut shapes: Vec<(String, Vec<i64>)> =
        inputs.iter().flat_map(|(name, O)| linear_shapes(&format!("{part}.{name}"), [*O, C], biased)).collect();
    shapes.extend(linear_shapes(&format!("{part}.{down}"), [C, F], biased));
    shapes
}

/// Tensors of a layer's experts.
fn expert_shapes(config: &ModelConfig, experts: &Experts) -> Vec<(String, Vec<i64>)> {
    let (C, names) = (config.hidden_size, experts.names);
    let mut shapes: Vec<(String, Vec<i64>)> = linear_shapes(names.router, [experts.count, C], false).collect();
    for index in 0..experts.count {
        let part = format!("{}.{index}", names.expert);
        shapes.extend(mlp_shapes(config, &part, &names.matrices, experts.width));
    }
    if let Some(width) = experts.shared_width {
        let [shared, gate] = SHARED_EXPERT;
        shapes.extend(mlp_shapes(config, shared, &names.matrices, width));
        shapes.extend(linear_shapes(gate, [1, C], false));
    }
    shapes
}
