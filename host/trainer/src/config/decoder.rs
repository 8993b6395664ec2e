//! Options of the decoder: what the layers of a family compute beyond the sizes in `config.json`.

use crate::rope::Rope;

/// Biases of the linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Biases {
    /// Bias of the query, key and value projections.
    pub query_key_value: bool,
    /// Bias of the attention output projection.
    pub output: bool,
    /// Bias of the feed-forward projections.
    pub mlp: bool,
}

/// Names, in a layer of the checkpoint, of the norms around its two parts. A part without a norm has `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockNorms {
    /// Norm of the input of the attention.
    pub before_attention: Option<&'static str>,
    /// Norm of the output of the attention.
    pub after_attention: Option<&'static str>,
    /// Norm of the input of the feed-forward part.
    pub before_mlp: Option<&'static str>,
    /// Norm of the output of the feed-forward part.
    pub after_mlp: Option<&'static str>,
}

impl BlockNorms {
    /// Norms of the inputs (Llama).
    pub const BEFORE: Self = Self {
        before_attention: Some("input_layernorm"),
        after_attention: None,
        before_mlp: Some("post_attention_layernorm"),
        after_mlp: None,
    };
    /// Norms of the outputs (OLMo 2).
    pub const AFTER: Self = Self {
        before_attention: None,
        after_attention: Some("post_attention_layernorm"),
        before_mlp: None,
        after_mlp: Some("post_feedforward_layernorm"),
    };
    /// Norms of inputs and outputs (Gemma 2).
    pub const AROUND: Self = Self {
        before_attention: Some("input_layernorm"),
        after_attention: Some("post_attention_layernorm"),
        before_mlp: Some("pre_feedforward_layernorm"),
        after_mlp: Some("post_feedforward_layernorm"),
    };
    /// Norms of inputs and outputs under the names of GLM 4.
    pub const AROUND_GLM: Self = Self {
        before_attention: Some("input_layernorm"),
        after_attention: Some("post_self_attn_layernorm"),
        before_mlp: Some("post_attention_layernorm"),
        after_mlp: Some("post_mlp_layernorm"),
    };

    /// The names that there are.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [self.before_attention, self.after_attention, self.before_mlp, self.after_mlp].into_iter().flatten()
    }
}

/// Normalisation of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryKeyNorm {
    /// Of each head, before the rotation: `self_attn.q_norm`, `self_attn.k_norm`, of the width of a head.
    Heads,
    /// Of each head, after the rotation: `self_attn.query_layernorm`, `self_attn.key_layernorm`.
    RotatedHeads,
    /// Of all heads together, before the rotation: `self_attn.q_norm`, `self_attn.k_norm`, of their whole widths.
    Whole,
}

impl QueryKeyNorm {
    /// Names of the norms of queries and keys in a layer of the checkpoint.
    #[must_use]
    pub fn names(self) -> [&'static str; 2] {
        match self {
            Self::Heads | Self::Whole => ["self_attn.q_norm", "self_attn.k_norm"],
            Self::RotatedHeads => ["self_attn.query_layernorm", "self_attn.key_layernorm"],
        }
    }
}

/// Activation of the feed-forward part's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// Gaussian error linear unit, approximated by a hyperbolic tangent.
    GeluTanh,
}

/// Factors of the computation; 1 changes nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scales {
    /// Of the embeddings.
    pub embedding: f64,
    /// Of what a layer's parts add to the residual stream.
    pub residual: f64,
    /// Of the products of queries and keys, in addition to one over the square root of the head's width.
    pub attention: f64,
    /// Of the logits.
    pub logits: f64,
}

impl Scales {
    /// Factors that change nothing.
    pub const NONE: Self = Self { embedding: 1.0, residual: 1.0, attention: 1.0, logits: 1.0 };
}

/// Bounds `c`, which numbers approach as c · tanh(x / c).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftCaps {
    /// Of the scaled products of queries and keys.
    pub attention: Option<f64>,
    /// Of the logits.
    pub logits: Option<f64>,
}

/// Which numbers of a head are rotated, and in which pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotaryPairs {
    /// Number of rotated numbers at the beginning of each head; even.
    pub width: i64,
    /// Whether pairs are neighbours. Otherwise a number is paired with the one half of `width` after it.
    pub interleaved: bool,
}

/// What differs between layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerKind {
    /// Number of last positions that a position sees, its own included; `None` for all.
    pub window: Option<i64>,
    /// Index, among the model's rotary positions, of those of this layer; `None` if it has no positions.
    pub rope: Option<usize>,
    /// Whether the feed-forward part consists of experts.
    pub sparse: bool,
}

/// Feed-forward parts of which each token uses some (mixture of experts).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts of a layer.
    pub count: i64,
    /// Number of experts that a token uses.
    pub per_token: i64,
    /// Width of an expert.
    pub width: i64,
    /// Whether the weights of a token's experts are scaled so that their sum is 1.
    pub normalised: bool,
    /// Width of an expert that all tokens use, weighted by a gate of its own.
    pub shared_width: Option<i64>,
    /// Names in a layer of the checkpoint.
    pub names: &'static ExpertNames,
}

/// Names of experts in a layer of the checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpertNames {
    /// Matrix that chooses experts.
    pub router: &'static str,
    /// What stands before the number of an expert.
    pub expert: &'static str,
    /// Gate, up and down matrices of an expert.
    pub matrices: [&'static str; 3],
}

/// Names of Qwen's experts.
pub(super) const QWEN_EXPERTS: ExpertNames =
    ExpertNames { router: "mlp.gate", expert: "mlp.experts", matrices: ["gate_proj", "up_proj", "down_proj"] };
/// Names of Mixtral's experts.
pub(super) const MIXTRAL_EXPERTS: ExpertNames =
    ExpertNames { router: "block_sparse_moe.gate", expert: "block_sparse_moe.experts", matrices: ["w1", "w3", "w2"] };
/// The expert that all tokens use, and its gate.
pub(crate) const SHARED_EXPERT: [&str; 2] = ["mlp.shared_expert", "mlp.shared_expert_gate"];

/// Matrices that the checkpoint holds as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fused {
    /// Queries, keys and values: `self_attn.qkv_proj`.
    pub query_key_value: bool,
    /// Gate and up projection: `mlp.gate_up_proj`.
    pub gate_up: bool,
}

/// Options of the decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder {
    /// Biases of the linear layers.
    pub biases: Biases,
    /// Norms around the parts of a layer.
    pub norms: BlockNorms,
    /// Whether norms multiply by their weight plus 1.
    pub norms_add_one: bool,
    /// Normalisation of queries and keys.
    pub query_key_norm: Option<QueryKeyNorm>,
    /// Activation of the feed-forward part.
    pub activation: Activation,
    /// Factors.
    pub scales: Scales,
    /// Bounds.
    pub caps: SoftCaps,
    /// Rotated pairs.
    pub pairs: RotaryPairs,
    /// Rotary positions, at least one.
    pub ropes: Vec<Rope>,
    /// Layers, in their order.
    pub layers: Vec<LayerKind>,
    /// Experts of the layers that have them.
    pub experts: Option<Experts>,
    /// Matrices that the checkpoint holds as one.
    pub fused: Fused,
}

impl Decoder {
    /// Whether it computes what Llama, Qwen2 or Qwen3 do, for which there are CUDA kernels: norms of inputs, SwiGLU, and the
    /// same whole rotation and full attention in every layer, without factors and bounds.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let layer = LayerKind { window: None, rope: Some(0), sparse: false };
        self.norms == BlockNorms::BEFORE
            && matches!(self.query_key_norm, None | Some(QueryKeyNorm::Heads))
            && self.activation == Activation::Silu
            && self.scales == Scales::NONE
            && self.caps == SoftCaps { attention: None, logits: None }
            && !self.pairs.interleaved
            && self.ropes.iter().all(|rope| rope.query_scaling.is_none())
            && self.layers.iter().all(|kind| *kind == layer)
    }

    /// The windows of the layers, each once.
    #[must_use]
    pub fn windows(&self) -> Vec<Option<i64>> {
        let mut windows: Vec<Option<i64>> = self.layers.iter().map(|layer| layer.window).collect();
        windows.sort_unstable();
        windows.dedup();
        windows
    }
}
