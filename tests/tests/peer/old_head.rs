//! A model with the output layer of another one, as vLLM computes after an update of a model with tied embeddings.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

const WEIGHTS: &str = "model.safetensors";

/// A copy of the model in `new`, whose output layer is the embedding of the tied model in `old`.
pub fn mixed(old: &Path, new: &Path) -> io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for entry in fs::read_dir(new)? {
        let path = entry?.path();
        fs::copy(&path, folder.path().join(path.file_name().expect("a name")))?;
    }
    let (old, mut weights) = (fs::read(old.join(WEIGHTS))?, fs::read(new.join(WEIGHTS))?);
    let (embedding, head) = (bytes_of(&old, "model.embed_tokens.weight"), bytes_of(&weights, "lm_head.weight"));
    weights[head].copy_from_slice(&old[embedding]);
    fs::write(folder.path().join(WEIGHTS), weights)?;
    Ok(folder)
}

/// Range of a tensor's bytes in a safetensors file.
fn bytes_of(file: &[u8], name: &str) -> Range<usize> {
    let length = u64::from_le_bytes(file[..8].try_into().expect("8 bytes")) as usize;
    let header: Value = serde_json::from_slice(&file[8..8 + length]).expect("a header");
    let offset = |end: usize| header[name]["data_offsets"][end].as_u64().expect("an offset") as usize;
    8 + length + offset(0)..8 + length + offset(1)
}
