//! The chat format of the trainer's model.

use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_trainer::ModelFiles;

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
const GENERATION: &str = "generation_config.json";

/// Chat format of a model.
pub(crate) fn chat_format(files: &ModelFiles) -> RunResult<ChatFormat> {
    ChatFormat::new(&chat_files(files)).user_error()
}

/// Texts of a model that define its chat format.
pub fn chat_files(files: &ModelFiles) -> ChatFiles {
    let text = |wanted: &str| files.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.to_owned());
    ChatFiles {
        tokenizer: text(TOKENIZER).unwrap_or_default(),
        config: text(CONFIG).unwrap_or_else(|| "{}".to_owned()),
        template: text(TEMPLATE),
        ends: ChatFiles::end_tokens(text(GENERATION).as_deref()),
    }
}
