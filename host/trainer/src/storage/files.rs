//! Text files of a model's folder: tokenizer, chat template, generation defaults.

use std::collections::BTreeMap;
use std::path::Path;

use super::fs::read_text;
use crate::TrainerError;

const TOKENIZER: &str = "tokenizer.json";
const CHAT_TEMPLATE: &str = "chat_template.jinja";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// A model's text files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    texts: BTreeMap<String, String>,
    /// `config.json` as it was read; each checkpoint gets one of its own.
    config: Option<String>,
}

impl ModelFiles {
    /// Files that are read and written again with every checkpoint. Only the first is required.
    pub const NAMES: [&str; 8] = [
        TOKENIZER,
        TOKENIZER_CONFIG,
        CHAT_TEMPLATE,
        "generation_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
    ];

    pub(crate) fn from_texts<const COUNT: usize>(texts: [(&str, String); COUNT]) -> Self {
        Self { texts: texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(), config: None }
    }

    /// Reads the text files of a folder that exist.
    ///
    /// # Errors
    /// If the tokenizer is missing, or a file cannot be read.
    pub fn read(folder: &Path) -> Result<Self, TrainerError> {
        let read = |name: &str| {
            let path = folder.join(name);
            if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                return Ok(None);
            }
            read_text(&path).map(Some)
        };
        let mut texts = BTreeMap::new();
        for name in Self::NAMES {
            texts.extend(read(name)?.map(|text| (name.to_owned(), text)));
        }
        if !texts.contains_key(TOKENIZER) {
            let problem = format!("`{TOKENIZER}` is missing\nhint: save the model with a fast tokenizer");
            return Err(TrainerError::Folder { path: folder.to_owned(), problem });
        }
        Ok(Self { texts, config: read("config.json")? })
    }

    /// `config.json` of the folder from which the files were read.
    #[must_use]
    pub fn config(&self) -> Option<&str> {
        self.config.as_deref()
    }

    /// Names and texts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Tokenizer, in Hugging Face's format.
    #[must_use]
    pub fn tokenizer(&self) -> &str {
        &self.texts[TOKENIZER]
    }

    /// Chat template, from its own file or, in older models, from the tokenizer's configuration.
    #[must_use]
    pub fn chat_template(&self) -> Option<String> {
        if let Some(template) = self.texts.get(CHAT_TEMPLATE) {
            return Some(template.clone());
        }
        let config: serde_json::Value = serde_json::from_str(self.texts.get(TOKENIZER_CONFIG)?).ok()?;
        config.get("chat_template")?.as_str().map(str::to_owned)
    }
}
