//! Weight files of a folder: a single file, or several with an index of the tensors in each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::TrainerError;
use crate::model::Model;
use crate::storage::tensor_file;

/// Name of a single file.
pub const SINGLE: &str = "model.safetensors";
/// Name of the index of several files.
pub const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    /// File name by tensor name.
    weight_map: BTreeMap<String, String>,
}

/// Names of a folder's weight files; `None` if it has neither a single file nor an index.
pub(crate) fn names(folder: &Path) -> Result<Option<Vec<String>>, TrainerError> {
    if folder.join(SINGLE).is_file() {
        return Ok(Some(vec![SINGLE.to_owned()]));
    }
    let path = folder.join(INDEX);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(TrainerError::file("read", &path))?;
    shards(&text, &path).map(Some)
}

/// Names of the files in an index. Names that lead out of the index's folder are refused.
///
/// # Errors
/// If the text is not an index, or a name is not that of a safetensors file in the same folder; `path` is used in
/// errors.
pub fn shards(text: &str, path: &Path) -> Result<Vec<String>, TrainerError> {
    let index: Index =
        serde_json::from_str(text).map_err(|source| TrainerError::Json { path: path.to_owned(), source })?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    let beside = |name: &&String| !is_plain(name) || !name.ends_with(".safetensors");
    match names.iter().find(beside) {
        Some(name) => {
            let problem = format!("it names `{name}`, which is not a safetensors file in its folder");
            Err(TrainerError::Weights { path: path.to_owned(), problem })
        }
        None => Ok(names.into_iter().collect()),
    }
}

/// Whether a name is that of a file in the folder itself.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(part)), None) if part == name)
}

/// Fills a model with a folder's weights, one file at a time.
pub(crate) fn fill(folder: &Path, model: &Model) -> Result<(), TrainerError> {
    let files: Vec<PathBuf> = names(folder)?.unwrap_or_default().iter().map(|name| folder.join(name)).collect();
    let mut missing: BTreeSet<&str> = model.parameters().named().map(|(name, _)| name).collect();
    for path in &files {
        for (name, values) in tensor_file::read(path)? {
            if is_left_over(&name, model) {
                continue;
            }
            let wrong = |problem: String| TrainerError::Weights { path: path.clone(), problem };
            let Some(own) = model.parameters().get(&name) else {
                return Err(wrong(format!("unknown tensor `{name}`")));
            };
            if own.size() != values.size() {
                let problem = format!("`{name}` has shape {:?} instead of {:?}", values.size(), own.size());
                return Err(wrong(problem));
            }
            if !missing.remove(name.as_str()) {
                return Err(wrong(format!("`{name}` is also in another file")));
            }
            model.parameters().set(&name, &values).map_err(TrainerError::torch("copied weights from a file"))?;
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(name) => {
            let path = if let [single] = &files[..] { single.clone() } else { folder.join(INDEX) };
            Err(TrainerError::Weights { path, problem: format!("`{name}` is missing") })
        }
    }
}

/// Whether a tensor is redundant and ignored: an output layer that shares the embedding, or a table of frequencies.
/// Some tools write them.
fn is_left_over(name: &str, model: &Model) -> bool {
    (model.config().tie_word_embeddings && name == "lm_head.weight") || name.ends_with(".rotary_emb.inv_freq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_in_the_folder_of_their_index() {
        let index =
            |file: &str| format!(r#"{{"metadata": {{}}, "weight_map": {{"a": "{file}", "b": "one.safetensors"}}}}"#);
        let path = Path::new("model.safetensors.index.json");
        assert_eq!(
            shards(&index("two.safetensors"), path).expect("plain names"),
            ["one.safetensors", "two.safetensors"]
        );
        for name in
            ["../two.safetensors", "/two.safetensors", "deep/two.safetensors", "two.safetensors/", "two.bin", ".."]
        {
            let message = shards(&index(name), path).expect_err(name).to_string();
            assert!(message.contains(name), "{message}");
        }
    }
}
