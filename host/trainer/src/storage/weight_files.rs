//! Weight files of a folder: a single file, or several with an index of the tensors in each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::model::Model;
use crate::storage::read_text;
use crate::storage::{tensor_file, weight_header};
use crate::{ModelConfig, TrainerError};

/// Name of a single file.
pub const SINGLE: &str = "model.safetensors";
/// Name of the index of several files.
pub const INDEX: &str = "model.safetensors.index.json";
/// Files of one model. Published models have up to some hundreds.
const MAX_FILES: usize = 1000;

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
    let text = read_text(&path)?;
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
    if names.len() > MAX_FILES {
        let problem = format!("it names {} files, and at most {MAX_FILES} are supported", names.len());
        return Err(TrainerError::Weights { path: path.to_owned(), problem });
    }
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

/// Checks the headers of a folder's weight files against the config, and the index against them.
///
/// # Errors
/// If a file is damaged, its tensors are not those of the config, or the index names another file for one.
pub(crate) fn check(folder: &Path, config: &ModelConfig) -> Result<(), TrainerError> {
    let files = paths(folder)?;
    let index = if let [single] = &files[..] { single.clone() } else { folder.join(INDEX) };
    weight_header::check(&files, &index, config)?;
    let mut places = BTreeMap::new();
    for path in &files {
        places.extend(weight_header::formats(path)?.into_keys().map(|name| (name, file_name(path))));
    }
    check_index(folder, &places)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The weight files of a folder that fit a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightFiles {
    /// Number of files.
    pub files: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number formats of the tensors, such as `BF16`, sorted.
    pub formats: Vec<String>,
}

/// Checks all that the loader checks. No weights are read.
///
/// # Errors
/// If weights are missing, damaged, or quantised, or the tensors are not those of the config.
pub fn inspect(folder: &Path, config: &ModelConfig) -> Result<WeightFiles, TrainerError> {
    if names(folder)?.is_none() {
        let problem =
            format!("neither `{SINGLE}` nor `{INDEX}` is there\nhint: save the model with safetensors weights");
        return Err(TrainerError::Folder { path: folder.to_owned(), problem });
    }
    check(folder, config)?;
    let (files, mut bytes, mut formats) = (paths(folder)?, 0, BTreeSet::new());
    for path in &files {
        bytes += std::fs::metadata(path).map_err(TrainerError::file("read", path))?.len();
        for (name, format) in weight_header::formats(path)? {
            if !tensor_file::is_readable(format) {
                return Err(tensor_file::unreadable(path, &name, format));
            }
            formats.insert(format!("{format:?}"));
        }
    }
    Ok(WeightFiles { files: files.len(), bytes, formats: formats.into_iter().collect() })
}

/// Checks that the index of several files names these places of the tensors.
fn check_index(folder: &Path, places: &BTreeMap<String, String>) -> Result<(), TrainerError> {
    let path = folder.join(INDEX);
    if folder.join(SINGLE).is_file() {
        return Ok(());
    }
    let index: Index =
        serde_json::from_str(&read_text(&path)?).map_err(|source| TrainerError::Json { path: path.clone(), source })?;
    let wrong = places.iter().find(|(name, file)| index.weight_map.get(*name) != Some(*file));
    let Some((name, file)) = wrong else { return Ok(()) };
    let named =
        index.weight_map.get(name).map_or_else(|| "does not list it".to_owned(), |named| format!("names `{named}`"));
    let problem = format!("`{name}` is in `{file}`, but the index {named}\nhint: download the index again");
    Err(TrainerError::Weights { path, problem })
}

/// Paths of the weight files, which exist.
fn paths(folder: &Path) -> Result<Vec<PathBuf>, TrainerError> {
    let names = names(folder)?.unwrap_or_default();
    if let Some(name) = names.iter().find(|name| !folder.join(name).exists()) {
        let problem = format!("`{name}`, which it names, is missing\nhint: download the missing file");
        return Err(TrainerError::Weights { path: folder.join(INDEX), problem });
    }
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

/// Fills a model with a folder's weights, one tensor at a time. [`check`] has accepted the files.
pub(crate) fn fill(folder: &Path, model: &Model) -> Result<(), TrainerError> {
    for path in paths(folder)? {
        tensor_file::read(&path, |name, values| {
            let own = model.config().own_name(name);
            let own = own.filter(|name| !weight_header::is_left_over(name, model.config()));
            let set = own.map_or(Ok(()), |name| model.parameters().set(&name, &values));
            set.map_err(TrainerError::torch("copied weights from a file"))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_shards_is_limited() {
        let index = |count: usize| {
            let files: Vec<String> = (0..count).map(|file| format!(r#""t{file}": "{file}.safetensors""#)).collect();
            format!(r#"{{"weight_map": {{{}}}}}"#, files.join(", "))
        };
        let path = Path::new("model.safetensors.index.json");
        assert_eq!(shards(&index(1000), path).expect("many files").len(), 1000);
        let message = shards(&index(1001), path).expect_err("too many files").to_string();
        assert!(message.contains("it names 1001 files"), "{message}");
    }

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
