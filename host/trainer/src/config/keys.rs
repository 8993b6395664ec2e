//! Keys of `config.json`: those that change the computation of some family are read or refused, those that are known to
//! change nothing are passed over, and the others are named.

use serde_json::{Map, Value, json};

use super::family::{Bias, FamilyDescription, Windows};

/// Keys that all families read.
const READ: &[&str] = &[
    "architectures",
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "tie_word_embeddings",
    "vocab_size",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "eos_token_id",
    "pad_token_id",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "hidden_act",
];

/// Keys that change nothing in a computation without dropout, beside those with [`HARMLESS_PREFIXES`].
const HARMLESS: &[&str] = &[
    "transformers_version",
    "transformers.js_config",
    "torch_dtype",
    "dtype",
    "use_cache",
    "initializer_range",
    "bos_token_id",
    "eod_token_id",
    "sep_token_id",
    "cls_token_id",
    "unk_token_id",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "residual_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "pretraining_tp",
    "auto_map",
    "max_window_layers",
    "output_router_logits",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "cache_implementation",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "id2label",
    "label2id",
    "problem_type",
    "chunk_size_feed_forward",
    "is_encoder_decoder",
    "task_specific_params",
    "finetuning_task",
    "max_sequence_length",
    "model_max_length",
    "attn_implementation",
    "attention_implementation",
    "use_flash_attention",
    "gradient_checkpointing",
    "unsloth_fixed",
    "unsloth_version",
];

/// Beginnings of keys that change nothing: notes of programs.
const HARMLESS_PREFIXES: &[&str] = &["_"];

/// Keys that change the computation of some family, with the values that change nothing.
fn neutral(key: &str) -> Option<Vec<Value>> {
    let values = match key {
        "attention_bias"
        | "qkv_bias"
        | "attention_out_bias"
        | "mlp_bias"
        | "use_bias"
        | "use_sliding_window"
        | "use_qk_norm"
        | "qk_layernorm"
        | "use_bidirectional_attention"
        | "alibi"
        | "parallel_attn"
        | "use_mrope"
        | "attn_output_gate"
        | "norm_after"
        | "scale_embeddings"
        | "norm_topk_prob" => {
            vec![json!(false)]
        }
        "embedding_multiplier" | "residual_multiplier" | "logits_scaling" | "logit_scale" => vec![json!(1), json!(1.0)],
        "num_experts"
        | "num_local_experts"
        | "n_routed_experts"
        | "num_nextn_predict_layers"
        | "no_rope_layer_interval"
        | "num_kv_shared_layers"
        | "first_k_dense_replace" => vec![json!(0)],
        "is_causal" => vec![json!(true)],
        "attn_logit_softcapping"
        | "final_logit_softcapping"
        | "query_pre_attn_scalar"
        | "attention_multiplier"
        | "quantization_config"
        | "clip_qkv"
        | "kv_lora_rank"
        | "q_lora_rank"
        | "rope_local_base_freq"
        | "sliding_window_pattern"
        | "moe_intermediate_size"
        | "num_experts_per_tok"
        | "shared_expert_intermediate_size"
        | "decoder_sparse_step"
        | "attention_chunk_size"
        | "conv_L_cache"
        | "linear_conv_kernel_dim"
        | "mamba_d_state"
        | "hidden_activation"
        | "moe_num_experts" => vec![],
        _ => return None,
    };
    Some(values)
}

/// Keys that are neither read nor known to change nothing.
///
/// # Errors
/// A key and value that would change the computation, and that this family does not read.
pub(super) fn check(source: &Map<String, Value>, description: &FamilyDescription) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    for (key, value) in source {
        let key = key.as_str();
        let refused = || Err(format!("{key} = {value}"));
        if value.is_null() || reads(description, key) {
            continue;
        }
        if let Some(neutral) = neutral(key) {
            if !neutral.contains(value) {
                return refused();
            }
        } else if key == "layer_types" {
            let full = value.as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind == "full_attention"));
            if !full {
                return refused();
            }
        } else if key == "no_rope_layers" || key == "mlp_only_layers" {
            let changes = |layer: &Value| key == "mlp_only_layers" || layer.as_i64() == Some(0);
            if value.as_array().is_none_or(|layers| layers.iter().any(changes)) {
                return refused();
            }
        } else if key == "sliding_window" {
            // Families without windows do not read it, nor do those whose flag is false.
            if description.windows == Windows::Never {
                unknown.push(key.to_owned());
            }
        } else if !is_harmless(key) {
            unknown.push(key.to_owned());
        }
    }
    unknown.sort_unstable();
    Ok(unknown)
}

/// Whether a key changes nothing in any family.
pub(super) fn is_harmless(key: &str) -> bool {
    HARMLESS.contains(&key) || HARMLESS_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether a family reads a key.
fn reads(description: &FamilyDescription, key: &str) -> bool {
    let biases = [description.query_key_value_bias, description.output_bias, description.mlp_bias];
    let is_bias = |bias: &Bias| matches!(bias, Bias::Key(name, _) if *name == key);
    let is_flag = key == "use_sliding_window"
        && !matches!(description.windows, Windows::Never | Windows::All | Windows::AllBut(_));
    READ.contains(&key) || description.keys.contains(&key) || biases.iter().any(is_bias) || is_flag
}
