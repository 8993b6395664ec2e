//! `config.json` of transformers from the keys of a GGUF file.

use serde_json::{Map, json};

use crate::architecture::Architecture;
use crate::error::Problem;
use crate::metadata::Metadata;
use crate::metadata::ModelKeys;
use crate::rope;
use crate::tensors::Tensors;

/// Key with the number of parts of a split file.
const PARTS: &str = "split.count";
/// Key of the type of a file: weights, or an adapter without its base.
const KIND: &str = "general.type";

/// Keys of an architecture that are read or compared, without its name.
const SIZES: [&str; 8] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
    "vocab_size",
];
const HEADS: [&str; 3] = ["attention.key_length", "attention.value_length", "rope.dimension_count"];
/// Keys that change a computation unless they are 0.
const ZERO: [&str; 2] = ["expert_count", "expert_used_count"];
/// Keys without meaning for a computation.
const IGNORED: [&str; 2] = ["tensor_data_layout", "rope.scaling.finetuned"];

/// Checks that the file is a whole model.
pub fn check_kind(metadata: &Metadata<'_>) -> Result<(), Problem> {
    let parts = metadata.number(PARTS)?.unwrap_or(1);
    if parts > 1 {
        return Err(Problem::unsupported(
            format!("it is one of {parts} parts of a model"),
            "join the parts with `llama-gguf-split --merge`",
        ));
    }
    match metadata.text(KIND)? {
        None | Some("model") => Ok(()),
        Some(kind) => Err(Problem::unsupported(
            format!("it holds no model but `{}`", kind.escape_debug()),
            "give the file of the whole model, with adapters merged",
        )),
    }
}

/// Reads the keys of the architecture.
///
/// # Errors
/// If a key is missing, or one is there that could change the computation and is not known.
pub fn read(metadata: &Metadata<'_>, architecture: &Architecture, tensors: &Tensors<'_>) -> Result<ModelKeys, Problem> {
    let key = |name: &str| format!("{}.{name}", architecture.name);
    refuse_unknown(metadata, architecture)?;
    let number = |name: &str| metadata.required_number(&key(name));
    let (width, heads) = (number("embedding_length")?, number("attention.head_count")?);
    let key_heads = metadata.number(&key("attention.head_count_kv"))?.unwrap_or(heads);
    let head_dim = head_dim(metadata, &key, width, heads)?;
    let vocabulary = tensors.rows("token_embd.weight")?;
    if let Some(declared) = metadata.number(&key("vocab_size"))?
        && u64::from(declared) != vocabulary
    {
        let what = format!("`{}` is {declared}, but the embedding has {vocabulary} rows", key("vocab_size"));
        return Err(Problem::damaged(what));
    }
    let context = number("context_length")?;
    let epsilon = metadata.float(&key("attention.layer_norm_rms_epsilon"))?;
    let epsilon = epsilon
        .ok_or_else(|| Problem::damaged(format!("key `{}` is missing", key("attention.layer_norm_rms_epsilon"))))?;
    let mut config = Map::new();
    for (name, value) in [
        ("architectures", json!([architecture.class])),
        ("model_type", json!(architecture.model_type)),
        ("hidden_size", json!(width)),
        ("intermediate_size", json!(number("feed_forward_length")?)),
        ("num_hidden_layers", json!(number("block_count")?)),
        ("num_attention_heads", json!(heads)),
        ("num_key_value_heads", json!(key_heads)),
        ("head_dim", json!(head_dim)),
        ("hidden_act", json!("silu")),
        ("rms_norm_eps", json!(epsilon)),
        ("max_position_embeddings", json!(context)),
        ("tie_word_embeddings", json!(!tensors.contains("output.weight"))),
        ("vocab_size", json!(vocabulary)),
    ] {
        config.insert(name.to_owned(), value);
    }
    if architecture.names_biases {
        config.insert("attention_bias".to_owned(), json!(tensors.contains("blk.0.attn_q.bias")));
    }
    config.extend(rope::read(metadata, &key, head_dim, tensors.rope_factors())?);
    Ok(ModelKeys { heads, key_heads, head_dim, vocabulary, config })
}

/// Width of a head, which all keys that name it must agree on.
fn head_dim(metadata: &Metadata<'_>, key: &impl Fn(&str) -> String, width: u32, heads: u32) -> Result<u32, Problem> {
    let named = HEADS.map(|name| metadata.number(&key(name)));
    let mut found = Vec::new();
    for number in named {
        found.extend(number?);
    }
    let from_heads = width.checked_div(heads).filter(|_| width.checked_rem(heads) == Some(0));
    let head_dim = found.first().copied().or(from_heads);
    let head_dim =
        head_dim.ok_or_else(|| Problem::damaged(format!("width {width} is not a multiple of {heads} heads")))?;
    if found.iter().any(|other| *other != head_dim) {
        let what = format!("{} are {found:?}: heads of parts with different widths", HEADS.map(key).join(", "));
        return Err(Problem::unsupported(what, "use a model whose heads have one width"));
    }
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        return Err(Problem::damaged(format!("heads have the width {head_dim}")));
    }
    Ok(head_dim)
}

/// Refuses keys of the architecture that are not known: they could change the computation.
fn refuse_unknown(metadata: &Metadata<'_>, architecture: &Architecture) -> Result<(), Problem> {
    let mut names: Vec<&str> =
        metadata.keys().filter_map(|key| key.strip_prefix(architecture.name)?.strip_prefix('.')).collect();
    names.sort_unstable();
    for name in names {
        let known = SIZES.contains(&name) || HEADS.contains(&name) || IGNORED.contains(&name);
        let key = format!("{}.{name}", architecture.name);
        let is_off = || metadata.number(&key).is_ok_and(|number| number == Some(0));
        if !(known || rope::KEYS.contains(&name) || (ZERO.contains(&name) && is_off())) {
            return Err(Problem::unsupported(
                format!("key `{}` is not supported", key.escape_debug()),
                "use a dense model with full attention",
            ));
        }
    }
    Ok(())
}
