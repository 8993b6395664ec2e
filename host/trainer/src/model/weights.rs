//! A model's weights: names and shapes in the checkpoint, and the layout of a forward pass.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use super::product::product;
use crate::parameters::Parameters;
use crate::{ModelConfig, lora};

/// Name of the embedding.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the output layer, which a model with tied embeddings does not have.
pub(crate) const OUTPUT_LAYER: &str = "lm_head.weight";

/// Weights of a forward pass. Matrices that multiply the same input are concatenated.
#[derive(Debug)]
pub struct Weights {
    embedding_VC: Tensor,
    pub(super) layers: Vec<LayerWeights>,
    pub(super) norm_C: Tensor,
    /// Output layer, `[V, C]`.
    head_VC: Tensor,
}

impl Weights {
    /// Residual stream before the first layer, `[B, S, C]`.
    pub(crate) fn embed(&self, tokens_BS: &Tensor) -> Tensor {
        Tensor::embedding(&self.embedding_VC, tokens_BS, -1, false, false)
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
        product(&hidden_NC.to_kind(self.head_VC.kind()), &self.head_VC, None)
    }

    /// Output layer, `[V, C]`.
    pub(crate) fn head(&self) -> &Tensor {
        &self.head_VC
    }
}

/// Weights of one layer. Parts that the family does not have are `None`.
#[derive(Debug)]
pub(super) struct LayerWeights {
    pub input_norm_C: Tensor,
    pub query_key_value: Linear,
    /// Norms of each head of queries and keys.
    pub query_key_norm_HD: Option<Tensor>,
    pub output: Linear,
    pub post_norm_C: Tensor,
    pub gate_up: GateUp,
    pub down: Linear,
}

/// The two matrices of the feed-forward part that multiply the same input. One product is faster on a processor and in
/// generation. In training on a GPU, two are: their results and gradients are not parts of wider rows, which libtorch
/// reads more slowly and has to join.
#[derive(Debug)]
pub(super) enum GateUp {
    Joined(Linear),
    Apart([Linear; 2]),
}

impl GateUp {
    /// Results of both matrices, `[…, F]` each.
    pub fn of(&self, x: &Tensor, width: i64) -> [Tensor; 2] {
        match self {
            Self::Joined(linear) => {
                let wide = linear.of(x).split(width, -1);
                [wide[0].shallow_clone(), wide[1].shallow_clone()]
            }
            Self::Apart(both) => both.each_ref().map(|linear| linear.of(x)),
        }
    }
}

/// A matrix with its bias and adapter. Suffixes of names are axes: I inputs, O outputs, R ranks.
#[derive(Debug)]
pub(super) struct Linear {
    weight_OI: Tensor,
    bias_O: Option<Tensor>,
    /// Factors of the adapter; the second one includes the adapter's factor.
    adapter: Option<[Tensor; 2]>,
}

impl Linear {
    pub fn of(&self, x: &Tensor) -> Tensor {
        let product = product(x, &self.weight_OI, self.bias_O.as_ref());
        match &self.adapter {
            None => product,
            Some([down_RI, up_OR]) => product + x.linear::<&Tensor>(down_RI, None).linear::<&Tensor>(up_OR, None),
        }
    }
}

/// Parameters and settings from which the weights of a forward pass are built.
pub(super) struct Source<'a> {
    pub config: &'a ModelConfig,
    /// Tensors under the names of [`shapes`].
    pub parameters: &'a Parameters,
    /// Adapters and their factor.
    pub adapters: Option<(&'a Parameters, f64)>,
    /// Whether adapters are merged into the matrices: faster, but without gradients for the adapters.
    pub merged: bool,
    /// Number format of the pass.
    pub kind: Kind,
    /// Number format of the output layer.
    pub output_kind: Kind,
}

impl Source<'_> {
    /// Weights of a forward pass. With gradients enabled, gradients reach the parameters, unless adapters are merged.
    pub fn weights(&self) -> Weights {
        let embedding_VC = self.get(EMBEDDING);
        let head_VC = match self.config.tie_word_embeddings {
            true if self.output_kind == self.kind => embedding_VC.shallow_clone(),
            true => self.get_as(EMBEDDING, self.output_kind),
            false => self.get_as(OUTPUT_LAYER, self.output_kind),
        };
        let layers =
            (0..self.config.num_hidden_layers).map(|index| self.layer(&format!("model.layers.{index}"))).collect();
        Weights { layers, norm_C: self.get("model.norm.weight"), embedding_VC, head_VC }
    }

    fn layer(&self, layer: &str) -> LayerWeights {
        let (config, biases) = (self.config, self.config.biases);
        let heads =
            |name: &str, count: i64| self.get(&format!("{layer}.{name}")).expand([count, config.head_size()], false);
        let linear = |parts: &[&str], biased| {
            let parts: Vec<String> = parts.iter().map(|part| format!("{layer}.{part}")).collect();
            self.linear(&parts, biased)
        };
        LayerWeights {
            input_norm_C: self.get(&format!("{layer}.input_layernorm.weight")),
            query_key_value: linear(
                &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
                biases.query_key_value,
            ),
            query_key_norm_HD: config.query_key_norm.then(|| {
                let query = heads("self_attn.q_norm.weight", config.num_attention_heads);
                Tensor::cat(&[query, heads("self_attn.k_norm.weight", config.num_key_value_heads)], 0)
            }),
            output: linear(&["self_attn.o_proj"], biases.output),
            post_norm_C: self.get(&format!("{layer}.post_attention_layernorm.weight")),
            gate_up: if self.merged || !self.parameters.flat().device().is_cuda() {
                GateUp::Joined(linear(&["mlp.gate_proj", "mlp.up_proj"], biases.mlp))
            } else {
                GateUp::Apart(["mlp.gate_proj", "mlp.up_proj"].map(|part| linear(&[part], biases.mlp)))
            },
            down: linear(&["mlp.down_proj"], biases.mlp),
        }
    }

    /// Concatenates matrices that multiply the same input.
    fn linear(&self, parts: &[String], biased: bool) -> Linear {
        let joined = |ending: &str| match parts {
            [part] => self.get(&format!("{part}.{ending}")),
            parts => {
                Tensor::cat(&parts.iter().map(|part| self.get(&format!("{part}.{ending}"))).collect::<Vec<_>>(), 0)
            }
        };
        let adapter = if self.merged { None } else { self.adapter(parts) };
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
        Some([Tensor::cat(&downs, 0), Tensor::block_diag(&ups)].map(|half| half.to_kind(self.kind)))
    }

    /// A tensor of [`shapes`], in the number format of the pass.
    fn get(&self, name: &str) -> Tensor {
        self.get_as(name, self.kind)
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
    let (C, F, V, D) = (config.hidden_size, config.intermediate_size, config.vocab_size, config.head_size());
    let (Q, KV) = (config.num_attention_heads * D, config.num_key_value_heads * D);
    let biases = config.biases;
    let parts = [
        ("self_attn.q_proj.weight", vec![Q, C], true),
        ("self_attn.q_proj.bias", vec![Q], biases.query_key_value),
        ("self_attn.k_proj.weight", vec![KV, C], true),
        ("self_attn.k_proj.bias", vec![KV], biases.query_key_value),
        ("self_attn.v_proj.weight", vec![KV, C], true),
        ("self_attn.v_proj.bias", vec![KV], biases.query_key_value),
        ("self_attn.o_proj.weight", vec![C, Q], true),
        ("self_attn.o_proj.bias", vec![C], biases.output),
        ("self_attn.q_norm.weight", vec![D], config.query_key_norm),
        ("self_attn.k_norm.weight", vec![D], config.query_key_norm),
        ("mlp.gate_proj.weight", vec![F, C], true),
        ("mlp.gate_proj.bias", vec![F], biases.mlp),
        ("mlp.up_proj.weight", vec![F, C], true),
        ("mlp.up_proj.bias", vec![F], biases.mlp),
        ("mlp.down_proj.weight", vec![C, F], true),
        ("mlp.down_proj.bias", vec![C], biases.mlp),
        ("input_layernorm.weight", vec![C], true),
        ("post_attention_layernorm.weight", vec![C], true),
    ];
    let mut shapes = vec![(EMBEDDING.to_owned(), vec![V, C])];
    for index in 0..config.num_hidden_layers {
        let there = parts.iter().filter(|(_, _, there)| *there);
        shapes.extend(there.map(|(part, shape, _)| (format!("model.layers.{index}.{part}"), shape.clone())));
    }
    shapes.push(("model.norm.weight".to_owned(), vec![C]));
    if !config.tie_word_embeddings {
        shapes.push((OUTPUT_LAYER.to_owned(), vec![V, C]));
    }
    shapes
}
