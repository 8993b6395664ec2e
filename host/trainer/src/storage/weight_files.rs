//! A folder's files of weights: one, or several with an index that says which tensor is in which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::TrainerError;
use crate::model::Model;
use crate::storage::tensor_file;

/// The name of a single file.
pub const SINGLE: &str = "model.safetensors";
/// The name of the index of several.
pub const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    /// Which tensor is in which file.
    weight_map: BTreeMap<String, String>,
}

/// The files of weights that a folder should have, by their names; none if it has neither kind.
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

/// The files that an index names. They lie beside it: a name that leads elsewhere is refused.
///
/// # Errors
/// If the text is no index, or names what does not lie beside it; `path` is for messages.
pub fn shards(text: &str, path: &Path) -> Result<Vec<String>, TrainerError> {
    let index: Index =
        serde_json::from_str(text).map_err(|source| TrainerError::Json { path: path.to_owned(), source })?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    let beside = |name: &&String| !is_plain(name) || !name.ends_with(".safetensors");
    match names.iter().find(beside) {
        Some(name) => {
            let problem = format!("it names `{name}`, which is no safetensors file beside it");
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
            let Some(own) = model.parameters().get(&name) else { return Err(wrong(format!("nothing uses `{name}`"))) };
            if own.size() != values.size() {
                let problem = format!("`{name}` has the shape {:?} and should have {:?}", values.size(), own.size());
                return Err(wrong(problem));
            }
            if !missing.remove(name.as_str()) {
                return Err(wrong(format!("`{name}` is in another file too")));
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

/// What some tools write though it follows from the rest: an output layer that is the embedding, tables of frequencies.
fn is_left_over(name: &str, model: &Model) -> bool {
    (model.config().tie_word_embeddings && name == "lm_head.weight") || name.ends_with(".rotary_emb.inv_freq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_lie_beside_their_index() {
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
