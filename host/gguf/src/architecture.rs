//! The table of supported architectures: names of llama.cpp and of transformers.

use crate::error::Problem;
use crate::metadata::Metadata;

/// Key of the architecture.
const KEY: &str = "general.architecture";

/// An architecture of llama.cpp, and the family of transformers to which it belongs.
#[derive(Debug)]
pub struct Architecture {
    /// Value of `general.architecture`, and prefix of the keys of sizes.
    pub name: &'static str,
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// Class in `architectures` of `config.json`.
    pub class: &'static str,
    /// Whether llama.cpp's conversion interleaves the halves of each head in the rows of queries and keys.
    pub interleaves_heads: bool,
    /// Whether `config.json` tells with `attention_bias` if projections have biases. Otherwise the family decides.
    pub names_biases: bool,
}

const ARCHITECTURES: [Architecture; 3] = [
    Architecture {
        name: "llama",
        model_type: "llama",
        class: "LlamaForCausalLM",
        interleaves_heads: true,
        names_biases: true,
    },
    Architecture {
        name: "qwen2",
        model_type: "qwen2",
        class: "Qwen2ForCausalLM",
        interleaves_heads: false,
        names_biases: false,
    },
    Architecture {
        name: "qwen3",
        model_type: "qwen3",
        class: "Qwen3ForCausalLM",
        interleaves_heads: false,
        names_biases: true,
    },
];

/// Names of tensors outside of layers.
pub const GLOBAL_TENSORS: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// Tensor of the factors by which the conversion of llama.cpp replaces the settings of `llama3` positions.
pub const ROPE_FACTORS: &str = "rope_freqs.weight";

/// Names of a layer's tensors without `.weight` or `.bias`: after `blk.N.` in llama.cpp, after `model.layers.N.` in
/// transformers.
pub const LAYER_TENSORS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The architecture of a file.
///
/// # Errors
/// If the file names none of the table.
pub fn of(metadata: &Metadata<'_>) -> Result<&'static Architecture, Problem> {
    let name = metadata.text(KEY)?.ok_or_else(|| Problem::damaged(format!("key `{KEY}` is missing")))?;
    ARCHITECTURES.iter().find(|architecture| architecture.name == name).ok_or_else(|| {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|architecture| architecture.name).collect();
        Problem::unsupported(
            format!("its architecture `{}` is not supported", name.escape_debug()),
            format!("use a model of one of these architectures: {}", known.join(", ")),
        )
    })
}
