//! Headers of weight files, compared with the model's config before anything is allocated.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use safetensors::tensor::Metadata;
use safetensors::{Dtype, SafeTensorError};

use crate::model::{OUTPUT_LAYER, shapes};
use crate::storage::open_regular;
use crate::{ModelConfig, TrainerError};

/// Bytes of a header. One of a model with a hundred thousand tensors takes about ten million.
const MAX_HEADER_BYTES: u64 = 64 << 20;
/// Bytes before the header, which hold its length.
const LENGTH_BYTES: u64 = 8;

/// Checks that the files hold exactly the tensors of the config, with their shapes. `index` is named if one is missing.
///
/// # Errors
/// [`TrainerError::Weights`] with the key of `config.json` or the tensor that differs, [`TrainerError::Safetensors`]
/// for a damaged file.
pub(crate) fn check(files: &[PathBuf], index: &Path, config: &ModelConfig) -> Result<(), TrainerError> {
    let mut found: FoundTensors<'_> = BTreeMap::new();
    for path in files.iter().map(PathBuf::as_path) {
        for (name, shape) in read(path)? {
            let Some(name) = config.own_name(&name).filter(|name| !is_left_over(name, config)) else { continue };
            if found.insert(name.clone(), (shape, path)).is_some() {
                return Err(weights(path, format!("`{name}` is also in another file")));
            }
        }
    }
    compare(found, index, config)
}

/// Names and shapes of tensors, and the file of each.
type FoundTensors<'a> = BTreeMap<String, (Vec<i64>, &'a Path)>;

/// Checks that these tensors are exactly those of the config. `index` is named if one is missing.
pub(crate) fn compare(mut found: FoundTensors<'_>, index: &Path, config: &ModelConfig) -> Result<(), TrainerError> {
    check_sizes(&found, index, config)?;
    for (name, expected) in shapes(config) {
        match found.remove(&name) {
            Some((shape, _)) if shape == expected => {}
            Some((shape, path)) => {
                return Err(weights(path, format!("`{name}` has shape {shape:?} instead of {expected:?}")));
            }
            None => return Err(weights(index, format!("`{name}` is missing"))),
        }
    }
    match found.first_key_value() {
        None => Ok(()),
        Some((name, (_, path))) => Err(weights(path, format!("unknown tensor `{name}`"))),
    }
}

/// Whether a tensor is redundant and ignored: an output layer that shares the embedding, or a table of frequencies.
/// Some tools write them.
pub(crate) fn is_left_over(name: &str, config: &ModelConfig) -> bool {
    (config.tie_word_embeddings && name == OUTPUT_LAYER) || name.ends_with(".rotary_emb.inv_freq")
}

/// Compares the sizes of the config with those of the tensors that have them, so that the error names the key.
fn check_sizes(found: &FoundTensors<'_>, index: &Path, config: &ModelConfig) -> Result<(), TrainerError> {
    let layer = |name: &String| name.strip_prefix("model.layers.")?.split_once('.')?.0.parse::<i64>().ok();
    let layers = found.keys().filter_map(layer).max().map_or(0, |last| last.saturating_add(1));
    if layers != config.num_hidden_layers {
        let missing = if layers < config.num_hidden_layers {
            format!("`model.layers.{layers}` is missing: ")
        } else {
            String::new()
        };
        let expected = config.num_hidden_layers;
        let problem =
            format!("{missing}num_hidden_layers = {expected} in config.json, but the weights have {layers} layers");
        return Err(weights(index, problem));
    }
    let (queries, keys) =
        (config.num_attention_heads * config.head_size(), config.num_key_value_heads * config.head_size());
    for (key, size, tensor, axis) in [
        ("vocab_size", config.vocab_size, "model.embed_tokens.weight", 0),
        ("hidden_size", config.hidden_size, "model.embed_tokens.weight", 1),
        ("intermediate_size", config.intermediate_size, "model.layers.0.mlp.gate_proj.weight", 0),
        ("num_attention_heads * head_dim", queries, "model.layers.0.self_attn.q_proj.weight", 0),
        ("num_key_value_heads * head_dim", keys, "model.layers.0.self_attn.k_proj.weight", 0),
    ] {
        if let Some((shape, path)) = found.get(tensor)
            && shape.get(axis) != Some(&size)
        {
            let problem = format!("{key} = {size} in config.json, but `{tensor}` has shape {shape:?}");
            return Err(weights(path, problem));
        }
    }
    Ok(())
}

fn weights(path: &Path, problem: String) -> TrainerError {
    TrainerError::Weights { path: path.to_owned(), problem }
}

/// Names and shapes of a file's tensors. The file must be as long as its header declares, so shapes are never larger
/// than the file.
fn read(path: &Path) -> Result<Vec<(String, Vec<i64>)>, TrainerError> {
    let shape =
        |sizes: &[usize]| -> Vec<i64> { sizes.iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect() };
    let (_, metadata) = metadata(path)?;
    Ok(metadata.tensors().into_iter().map(|(name, info)| (name, shape(&info.shape))).collect())
}

/// Number formats of a file's tensors, by their names.
pub(crate) fn formats(path: &Path) -> Result<BTreeMap<String, Dtype>, TrainerError> {
    Ok(metadata(path)?.1.tensors().into_iter().map(|(name, info)| (name, info.dtype)).collect())
}

/// First byte of the tensors and header of a file that is as long as its header declares.
pub(crate) fn metadata(path: &Path) -> Result<(u64, Metadata), TrainerError> {
    let damaged = |source| TrainerError::Safetensors { path: path.to_owned(), source };
    let io = || TrainerError::file("read", path);
    let mut file = open_regular(path)?;
    let size = file.metadata().map_err(io())?.len();
    let mut length = [0; LENGTH_BYTES as usize];
    if size < LENGTH_BYTES {
        return Err(damaged(SafeTensorError::HeaderTooSmall));
    }
    file.read_exact(&mut length).map_err(io())?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES {
        return Err(damaged(SafeTensorError::HeaderTooLarge));
    }
    if length > size - LENGTH_BYTES {
        return Err(damaged(SafeTensorError::InvalidHeaderLength));
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).map_err(io())?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| damaged(SafeTensorError::InvalidHeaderDeserialization(error)))?;
    if (metadata.data_len() as u64).checked_add(LENGTH_BYTES + length) != Some(size) {
        return Err(damaged(SafeTensorError::MetadataIncompleteBuffer));
    }
    Ok((LENGTH_BYTES + length, metadata))
}
