//! Folder of a model whose weights are elsewhere: its configuration and texts, and what its trainer needs, with digests.

use std::collections::BTreeSet;
use std::path::Path;

use crate::storage::checksums;
use crate::storage::files::ModelFiles;
use crate::storage::{sync_folder, write_synced, write_whole};
use crate::{ModelConfig, TrainerError};

const CONFIG: &str = "config.json";

/// A model without its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// Sizes and family.
    pub config: ModelConfig,
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
        Ok(Self { config: ModelConfig::read(&folder.join(CONFIG))?, files: ModelFiles::read(folder)? })
    }

    /// Writes a new folder, atomically, with one file of the trainer besides.
    ///
    /// # Errors
    /// If the folder exists or cannot be written.
    pub fn write(&self, folder: &Path, (name, text): (&str, &str)) -> Result<(), TrainerError> {
        write_whole(folder, |partial| {
            let config = self.config.to_json();
            let own = [(CONFIG, config.as_str()), (name, text)];
            let mut names = BTreeSet::new();
            for (name, text) in own.into_iter().chain(self.files.iter()) {
                write_synced(&partial.join(name), text.as_bytes())?;
                names.insert(name.to_owned());
            }
            checksums::write(partial, &names)?;
            sync_folder(partial)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TinyModel, tiny};

    #[test]
    fn a_description_is_read_as_it_was_written_and_not_if_it_was_changed() {
        let root = tempfile::tempdir().expect("a folder");
        let tiny = TinyModel::default();
        let written = ModelDescription { config: tiny::config(&tiny).expect("a size"), files: tiny::files(&tiny) };
        let folder = root.path().join("1-000001");
        written.write(&folder, ("tinker.json", "{}")).expect("written");
        let read = ModelDescription::read(&folder).expect("whole");
        assert_eq!(read.files, written.files);
        assert_eq!(read.config.vocab_size, written.config.vocab_size);
        // What was read is written again as it was.
        let again = root.path().join("again");
        read.write(&again, ("tinker.json", "{}")).expect("written");
        assert_eq!(ModelDescription::read(&again).expect("whole"), read);
        assert!(written.write(&folder, ("tinker.json", "{}")).is_err(), "the folder exists");
        std::fs::write(folder.join("tinker.json"), "{ }").expect("changed");
        let damaged = ModelDescription::read(&folder).expect_err("changed").to_string();
        assert!(damaged.contains("`tinker.json` or its digest"), "{damaged}");
    }
}
