//! The model's chat format, stored in the run's folder so that a replay needs no weights.

use std::path::Path;

use gymkhana_chat::ChatFiles;
use serde_json::json;

use crate::error::{Classify, RunError, RunResult};

const FOLDER: &str = "chat";
const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
const GENERATION: &str = "generation_config.json";

/// Files of a model that define its chat format.
pub(crate) const CHAT_FILES: [&str; 5] = [TOKENIZER, CONFIG, TEMPLATE, GENERATION, "config.json"];

/// Stores the texts that define the chat format.
pub fn write_chat_files(run: &Path, files: &ChatFiles) -> RunResult<()> {
    let folder = run.join(FOLDER);
    let full = |path: &Path| format!("`{}` cannot be written\nhint: free space, then use --resume", path.display());
    std::fs::create_dir_all(&folder).user_context(full(&folder))?;
    let ends = (!files.ends.is_empty()).then(|| json!({"eos_token_id": files.ends}).to_string());
    let texts = [
        (TOKENIZER, Some(&files.tokenizer)),
        (CONFIG, Some(&files.config)),
        (TEMPLATE, files.template.as_ref()),
        (GENERATION, ends.as_ref()),
    ];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
        let path = folder.join(name);
        gymkhana_registry::write_atomically(&path, text.as_bytes()).user_context(full(&path))?;
    }
    Ok(())
}

/// Removes the texts that `write_chat_files` stored.
pub fn remove_chat_files(run: &Path) -> RunResult<()> {
    for path in [TOKENIZER, CONFIG, TEMPLATE, GENERATION].map(|name| run.join(FOLDER).join(name)) {
        if path.exists() {
            let stays = format!("`{}` cannot be removed\nhint: check its owner and permissions", path.display());
            std::fs::remove_file(&path).user_context(stays)?;
        }
    }
    Ok(())
}

/// The chat format of a folder whose episodes have no tokens. Its vocabulary is one token, so that it renders nothing.
#[must_use]
pub fn chat_files_without_tokens() -> ChatFiles {
    let end = "<|end|>";
    let added = json!({
        "id": 0, "content": end, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true,
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": { end: 0 }, "unk_token": end },
    });
    let template = "{% for message in messages %}{{ message.content }}<|end|>{% endfor %}".to_owned();
    ChatFiles {
        tokenizer: tokenizer.to_string(),
        config: json!({ "eos_token": end }).to_string(),
        template: Some(template),
        ends: vec![],
    }
}

/// Reads the texts that `write_chat_files` stored.
pub fn read_chat_files(run: &Path) -> RunResult<ChatFiles> {
    let folder = run.join(FOLDER);
    let read = |name: &str| read(&folder.join(name), "restore the file from a copy of the run");
    let optional = |name: &str| folder.join(name).exists().then(|| read(name)).transpose();
    let ends = ChatFiles::end_tokens(optional(GENERATION)?.as_deref());
    Ok(ChatFiles { tokenizer: read(TOKENIZER)?, config: read(CONFIG)?, template: optional(TEMPLATE)?, ends })
}

/// Reads the texts that define the chat format from the folder of a model. Only the tokenizer is required.
pub fn model_chat_files(folder: &Path) -> RunResult<ChatFiles> {
    let read = |name: &str| read(&folder.join(name), "name the folder of a model with a fast tokenizer");
    let optional = |name: &str| folder.join(name).exists().then(|| read(name)).transpose();
    let config = optional(CONFIG)?.unwrap_or_else(|| "{}".to_owned());
    let configs = [optional("config.json")?, optional(GENERATION)?];
    let ends = ChatFiles::end_tokens(configs.iter().flatten().map(String::as_str));
    Ok(ChatFiles { tokenizer: read(TOKENIZER)?, config, template: optional(TEMPLATE)?, ends })
}

fn read(path: &Path, hint: &str) -> RunResult<String> {
    gymkhana_registry::read_regular_text(path)
        .map_err(|error| RunError::user(format!("`{}` cannot be read: {error}\nhint: {hint}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_without_tokens_is_a_chat_format() {
        let format = gymkhana_chat::ChatFormat::new(&chat_files_without_tokens()).unwrap();
        assert_eq!((format.vocabulary(), format.stop()), (1, &[0][..]));
    }
}
