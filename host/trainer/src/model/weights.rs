//! A model's weights: their names and shapes in the checkpoint, and as a forward pass wants them.
#![allow(non_snake_case)]

use tch::Tensor;

use crate::ModelConfig;
use crate::parameters::Parameters;

/// The weights as a forward pass wants them: what multiplies the same input is one matrix.
#[derive(Debug)]
pub struct Weights {
    pub(super) embedding_VC: Tensor,
    pub(super) layers: Vec<LayerWeights>,
    pub(super) norm_C: Tensor,
    /// The output layer, `[V, C]`.
    pub(crate) head_VC: Tensor,
}

/// One layer's. What a family does without is none.
#[derive(Debug)]
pub(super) struct LayerWeights {
    pub input_norm_C: Tensor,
    pub query_key_value: Tensor,
    pub query_key_value_bias: Option<Tensor>,
    /// Of each head of queries and keys.
    pub query_key_norm_HD: Option<Tensor>,
    pub output: Tensor,
    pub output_bias: Option<Tensor>,
    pub post_norm_C: Tensor,
    pub gate_up: Tensor,
    pub gate_up_bias: Option<Tensor>,
    pub down: Tensor,
    pub down_bias: Option<Tensor>,
}

impl Weights {
    /// The weights of a forward pass with these parameters. With gradients on they lead back to the parameters.
    pub(super) fn of(config: &ModelConfig, parameters: &Parameters) -> Self {
        // Every name was made by `shapes`.
        let get = |name: &str| parameters.get(name).map_or_else(Tensor::new, Tensor::shallow_clone);
        let layer = |index| LayerWeights::of(config, &|part: &str| get(&format!("model.layers.{index}.{part}")));
        let embedding_VC = get("model.embed_tokens.weight");
        let head_VC = if config.tie_word_embeddings { embedding_VC.shallow_clone() } else { get("lm_head.weight") };
        let layers = (0..config.num_hidden_layers).map(layer).collect();
        Self { layers, norm_C: get("model.norm.weight"), embedding_VC, head_VC }
    }
}

impl LayerWeights {
    fn of(config: &ModelConfig, get: &dyn Fn(&str) -> Tensor) -> Self {
        let joined = |parts: &[&str]| Tensor::cat(&parts.iter().map(|part| get(part)).collect::<Vec<_>>(), 0);
        let biases = config.biases;
        let heads = |name: &str, count: i64| get(name).expand([count, config.head_size()], false);
        Self {
            input_norm_C: get("input_layernorm.weight"),
            query_key_value: joined(&["self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"]),
            query_key_value_bias: biases
                .query_key_value
                .then(|| joined(&["self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"])),
            query_key_norm_HD: config.query_key_norm.then(|| {
                let query = heads("self_attn.q_norm.weight", config.num_attention_heads);
                Tensor::cat(&[query, heads("self_attn.k_norm.weight", config.num_key_value_heads)], 0)
            }),
            output: get("self_attn.o_proj.weight"),
            output_bias: biases.output.then(|| get("self_attn.o_proj.bias")),
            post_norm_C: get("post_attention_layernorm.weight"),
            gate_up: joined(&["mlp.gate_proj.weight", "mlp.up_proj.weight"]),
            gate_up_bias: biases.mlp.then(|| joined(&["mlp.gate_proj.bias", "mlp.up_proj.bias"])),
            down: get("mlp.down_proj.weight"),
            down_bias: biases.mlp.then(|| get("mlp.down_proj.bias")),
        }
    }
}

/// The names and shapes of the checkpoint's tensors.
pub(super) fn shapes(config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
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
    let mut shapes = vec![("model.embed_tokens.weight".to_owned(), vec![V, C])];
    for index in 0..config.num_hidden_layers {
        let there = parts.iter().filter(|(_, _, there)| *there);
        shapes.extend(there.map(|(part, shape, _)| (format!("model.layers.{index}.{part}"), shape.clone())));
    }
    shapes.push(("model.norm.weight".to_owned(), vec![C]));
    if !config.tie_word_embeddings {
        shapes.push(("lm_head.weight".to_owned(), vec![V, C]));
    }
    shapes
}
