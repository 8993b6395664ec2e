//! Text files of a model's folder: tokenizer, chat template, generation defaults.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::read_text;
use crate::TrainerError;

const TOKENIZER: &str = "tokenizer.json";
const CHAT_TEMPLATE: &str = "chat_template.jinja";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

const GENERATION: &str = "generation_config.json";
const CONFIG: &str = "config.json";
/// File of an adapter that PEFT wrote.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Refuses a folder that holds an adapter without a model.
///
/// # Errors
/// If the folder is one.
pub fn check_base(folder: &Path) -> Result<(), TrainerError> {
    if !folder.join(ADAPTER_CONFIG).is_file() || folder.join(CONFIG).is_file() {
        return Ok(());
    }
    let problem = "it holds an adapter without its base model\nhint: merge it into its base model with PEFT's \
                   `merge_and_unload`, and give the merged model";
    Err(TrainerError::Folder { path: folder.to_owned(), problem: problem.to_owned() })
}

/// Adds the end tokens of `config.json` to `generation_config.json`, which checkpoints keep, where it lacks one.
fn keep_ends(config: &str, texts: &mut BTreeMap<String, String>) {
    let object = |text: &str| serde_json::from_str::<serde_json::Map<String, Value>>(text).ok();
    let ids = |config: &serde_json::Map<String, Value>| match config.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.clone(),
        Some(id @ Value::Number(_)) => vec![id.clone()],
        _ => vec![],
    };
    let generation = texts.get(GENERATION).map_or_else(|| Some(serde_json::Map::new()), |text| object(text));
    // Files that are not JSON are refused by their other readers.
    let (Some(config), Some(mut generation)) = (object(config), generation) else { return };
    let known = ids(&generation);
    let new: Vec<Value> = ids(&config).into_iter().filter(|id| !known.contains(id)).collect();
    if !new.is_empty() {
        generation.insert("eos_token_id".to_owned(), known.into_iter().chain(new).collect());
        texts.insert(GENERATION.to_owned(), format!("{:#}\n", Value::Object(generation)));
    }
}

/// A model's text files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    texts: BTreeMap<String, String>,
}

impl ModelFiles {
    /// Files that are read and written again with every checkpoint. Only the first is required.
    pub const NAMES: [&str; 8] = [
        TOKENIZER,
        TOKENIZER_CONFIG,
        CHAT_TEMPLATE,
        GENERATION,
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
    ];

    pub(crate) fn from_texts<'a>(texts: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Self { texts: texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect() }
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
        if let Some(config) = read(CONFIG)? {
            keep_ends(&config, &mut texts);
        }
        Ok(Self { texts })
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
        let config: Value = serde_json::from_str(self.texts.get(TOKENIZER_CONFIG)?).ok()?;
        config.get("chat_template")?.as_str().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_keep_all_end_tokens() {
        let merged = |config: &str, generation: Option<&str>| {
            let mut texts: BTreeMap<String, String> =
                generation.map(|text| (GENERATION.to_owned(), text.to_owned())).into_iter().collect();
            keep_ends(config, &mut texts);
            texts.remove(GENERATION)
        };
        let ends = |text: Option<String>| -> Value {
            serde_json::from_str::<Value>(&text.expect("a file")).expect("JSON")["eos_token_id"].clone()
        };
        assert_eq!(ends(merged("{\"eos_token_id\": [1, 2]}", None)), serde_json::json!([1, 2]));
        let both = merged("{\"eos_token_id\": [1, 2]}", Some("{\"eos_token_id\": 2, \"top_k\": 5}"));
        assert!(both.as_ref().is_some_and(|text| text.contains("top_k")));
        assert_eq!(ends(both), serde_json::json!([2, 1]));
        let same = "{ \"eos_token_id\": 258 }";
        assert_eq!(merged("{\"eos_token_id\": 258}", Some(same)).as_deref(), Some(same), "the text stays");
        assert_eq!(merged("{}", None), None);
    }
}
