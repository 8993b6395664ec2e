//! Data sets in folders: as saved by Hugging Face's library, or files named after their splits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{DataFile, Format};
use crate::error::DataError;

/// Names of splits at the begin of a file's name.
const SPLITS: [&str; 6] = ["train", "test", "validation", "valid", "dev", "eval"];

/// Depth of folders that are searched: a folder of splits, and `data` in a downloaded data set.
const DEPTH: usize = 2;

/// Files of a folder in the order of their paths.
pub(super) fn files(folder: &Path) -> Result<Vec<DataFile>, DataError> {
    let mut paths = BTreeSet::new();
    collect(folder, DEPTH, &mut paths)?;
    let file = |path: PathBuf| {
        let format = Format::of(&path).filter(|format| *format != Format::Rows)?;
        let split = split_of(&path, folder);
        Some(DataFile { path, format, split })
    };
    let files: Vec<DataFile> = paths.into_iter().filter_map(file).collect();
    if files.is_empty() { Err(DataError::EmptyFolder(folder.to_owned())) } else { Ok(files) }
}

fn collect(folder: &Path, depth: usize, into: &mut BTreeSet<PathBuf>) -> Result<(), DataError> {
    for entry in fs::read_dir(folder).map_err(DataError::read(folder))? {
        let path = entry.map_err(DataError::read(folder))?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['.', '_']));
        // Intermediate results of Hugging Face's library.
        let is_cache = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cache-"));
        if is_hidden || is_cache {
            continue;
        }
        if !path.is_dir() {
            into.insert(path);
        } else if depth > 0 {
            collect(&path, depth - 1, into)?;
        }
    }
    Ok(())
}

/// Split that a file's folder or name names: `train/data-00000-of-00001.arrow`, `data/train-00000-of-00001.parquet`,
/// `test.jsonl`.
fn split_of(path: &Path, folder: &Path) -> Option<String> {
    let name = path.file_stem()?.to_str()?;
    let named = SPLITS.iter().find(|split| {
        name.strip_prefix(**split).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
    });
    if let Some(split) = named {
        return Some((*split).to_owned());
    }
    let parent = path.parent().filter(|parent| *parent != folder)?.file_name()?.to_str()?;
    (parent != "data").then(|| parent.to_owned())
}

/// Names of the folders that have splits of their own, if there are several: `main` and `socratic` of
/// `main/train-00000-of-00001.parquet` and `socratic/train-00000-of-00001.parquet`.
pub(super) fn configurations(files: &[DataFile], folder: &Path) -> Vec<String> {
    let names: BTreeSet<String> = files.iter().filter_map(|file| configuration(&file.path, folder)).collect();
    if names.len() > 1 { names.into_iter().collect() } else { vec![] }
}

/// Path of a file's folder without the folder of its split; `.` for a file of the data set's own folder or of `data`.
fn configuration(path: &Path, folder: &Path) -> Option<String> {
    let parent = path.strip_prefix(folder).ok()?.parent()?;
    let name = parent.file_name().and_then(|name| name.to_str());
    let split = split_of(path, folder)?;
    let parent = if name == Some(&*split) { parent.parent()? } else { parent };
    let name = parent.to_str()?;
    Some(if matches!(name, "" | "data") { ".".to_owned() } else { name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_come_from_names_and_folders() {
        let split = |path: &str| split_of(Path::new(path), Path::new("d"));
        assert_eq!(split("d/train-00000-of-00002.parquet").as_deref(), Some("train"));
        assert_eq!(split("d/data/test-00000-of-00001.parquet").as_deref(), Some("test"));
        assert_eq!(split("d/validation/data-00000-of-00001.arrow").as_deref(), Some("validation"));
        assert_eq!(split("d/dev.jsonl").as_deref(), Some("dev"));
        assert_eq!((split("d/questions.jsonl"), split("d/training.jsonl"), split("d/data/a.csv")), (None, None, None));
    }

    #[test]
    fn folders_with_splits_of_their_own_are_configurations() {
        let configurations = |paths: &[&str]| {
            let file = |path: &&str| {
                let path = Path::new("d").join(path);
                DataFile { split: split_of(&path, Path::new("d")), format: Format::Parquet, path }
            };
            configurations(&paths.iter().map(file).collect::<Vec<_>>(), Path::new("d")).join(" ")
        };
        let part = "train-00000-of-00001.parquet";
        for (paths, expected) in [
            (&["main/train-0.parquet", "main/test-0.parquet", "socratic/train-0.parquet"][..], "main socratic"),
            // As Hugging Face converts data sets.
            (&["main/train/0000.parquet", "main/test/0000.parquet", "socratic/train/0000.parquet"], "main socratic"),
            (&["en/test.jsonl", "fr/test.jsonl"], "en fr"),
            (&["a/train/data-00000-of-00001.arrow", "b/train/data-00000-of-00001.arrow"], "a b"),
            (&["data/en/train.csv", "data/fr/train.csv"], "data/en data/fr"),
            (&[part, "extra/train.csv"], ". extra"),
            // Splits of one data set.
            (&["train/data-00000-of-00001.arrow", "test/data-00000-of-00001.arrow"], ""),
            (&["data/train-0.parquet", "data/test-0.parquet"], ""),
            (&["train.jsonl", "test/a.jsonl"], ""),
            (&["main/train-0.parquet", "main/test-0.parquet"], ""),
            (&["questions.jsonl", "data/train.jsonl"], ""),
        ] {
            assert_eq!(configurations(paths), expected, "{paths:?}");
        }
    }
}
