//! Folder of a model whose weights are elsewhere: its configuration and texts, and what its trainer needs, with digests.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use crate::storage::checksums;
use crate::storage::files::ModelFiles;
use crate::storage::{read_text, sync_folder, write_synced, write_whole};
use crate::{ModelConfig, TrainerError};

const CONFIG: &str = "config.json";

/// A model without its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// `config.json`, of any family.
    config: Map<String, Value>,
    /// Tokenizer and chat template.
    pub files: ModelFiles,
}

impl ModelDescription {
    /// Reads the folder of a model, with or without weights.
    ///
    /// # Errors
    /// If the configuration or the tokenizer is missing, or a file does not have its digest.
    pub fn read(folder: &Path) -> Result<Self, TrainerError> {
        checksums::verify(folder)?;
        let path = folder.join(CONFIG);
        let config = serde_json::from_str(&read_text(&path)?).map_err(|source| TrainerError::Json { path, source })?;
        Ok(Self { config, files: ModelFiles::read(folder)? })
    }

    /// Sizes and family.
    ///
    /// # Errors
    /// If the family is not one that this crate computes.
    pub fn config(&self) -> Result<ModelConfig, TrainerError> {
        ModelConfig::from_source(self.config.clone(), Path::new(CONFIG))
    }

    /// The same model with an output layer of its own.
    #[must_use]
    pub fn untied(&self) -> Self {
        let mut config = self.config.clone();
        config.insert("tie_word_embeddings".to_owned(), Value::Bool(false));
        Self { config, files: self.files.clone() }
    }

    /// Writes a new folder, atomically, with what `beside` writes into it.
    ///
    /// # Errors
    /// If the folder exists or cannot be written, or those of `beside`.
    pub fn write<E: From<TrainerError>>(
        &self,
        folder: &Path,
        beside: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        write_whole(folder, |partial| {
            let config = format!("{:#}\n", Value::Object(self.config.clone()));
            for (name, text) in [(CONFIG, config.as_str())].into_iter().chain(self.files.iter()) {
                write_synced(&partial.join(name), text.as_bytes())?;
            }
            beside(partial)?;
            let mut names = BTreeSet::new();
            list(partial, "", &mut names)?;
            checksums::write(partial, &names)?;
            Ok(sync_folder(partial)?)
        })
    }
}

/// Adds the paths of all files below a folder, and makes sure that they are on the disk.
fn list(folder: &Path, below: &str, names: &mut BTreeSet<String>) -> Result<(), TrainerError> {
    let failed = || TrainerError::file("read", folder);
    for entry in std::fs::read_dir(folder).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let name = format!("{below}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            list(&path, &format!("{name}/"), names)?;
            sync_folder(&path)?;
        } else {
            std::fs::File::open(&path).and_then(|file| file.sync_all()).map_err(TrainerError::file("write", &path))?;
            names.insert(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TinyModel, tiny};

    #[test]
    fn a_description_is_read_as_it_was_written_and_not_if_it_was_changed() {
        let root = tempfile::tempdir().expect("a folder");
        let tiny = TinyModel::default();
        let config = serde_json::from_str(&tiny::config(&tiny).expect("a size").to_json()).expect("JSON");
        let written = ModelDescription { config, files: tiny::files(&tiny) };
        let folder = root.path().join("1-000001");
        let beside = |partial: &Path| {
            write_synced(&partial.join("torch.json"), b"{}")?;
            std::fs::create_dir(partial.join("state")).map_err(TrainerError::file("create", partial))?;
            write_synced(&partial.join("state/.metadata"), b"moments")
        };
        written.write(&folder, beside).expect("written");
        let read = ModelDescription::read(&folder).expect("whole");
        assert_eq!(read, written);
        assert_eq!(read.config().expect("a family").vocab_size, 264);
        assert!(!read.untied().config().expect("a family").tie_word_embeddings);
        // What was read is written again as it was.
        let again = root.path().join("again");
        read.write(&again, beside).expect("written");
        assert_eq!(ModelDescription::read(&again).expect("whole"), read);
        assert!(written.write(&folder, beside).is_err(), "the folder exists");
        std::fs::write(folder.join("state/.metadata"), "moment").expect("changed");
        let damaged = ModelDescription::read(&folder).expect_err("changed").to_string();
        assert!(damaged.contains("`state/.metadata` or its digest"), "{damaged}");
    }
}
