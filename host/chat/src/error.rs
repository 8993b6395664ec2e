//! Errors of chat formats.

use gymkhana_template::TemplateError;

/// A model's tokenizer or chat template cannot be used, or not for this conversation.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A file of the model is malformed.
    #[error(
        "the model's {file} cannot be used: {reason}\nhint: take the file of the model's publisher, or another model"
    )]
    Malformed {
        /// The file's name.
        file: &'static str,
        /// The reason.
        reason: String,
    },
    /// The model has no chat template.
    #[error(
        "the model has no chat template\nhint: put one into chat_template.jinja or `chat_template` of tokenizer_config.json"
    )]
    NoTemplate,
    /// The template is malformed, or fails on a conversation.
    #[error("cannot render a conversation")]
    Template(#[source] TemplateError),
    /// The template exceeds a limit.
    #[error(
        "cannot render a conversation: the chat template {excess}\nhint: use a model folder from a source that you trust"
    )]
    TemplateLimit {
        /// The limit, as a verb phrase.
        excess: String,
    },
    /// The model has no template of the name that the run asks for.
    #[error("the model has no chat template `{name}`\nhint: choose one of `{known}`")]
    NoTemplateNamed {
        /// The name.
        name: String,
        /// The names of its templates.
        known: String,
    },
    /// The template shows no replies of the policy, or puts no control token after them.
    #[error(
        "the chat template does not show the policy's replies where its generation prompt announces them\nhint: use the chat \
         template of the original model, or name one of several with policy.template_name"
    )]
    NoReply,
    /// The parameters of a function are not JSON.
    #[error("function `{function}` cannot be listed in the prompt: its parameters are not a JSON Schema: {reason}")]
    Schema {
        /// The function's name.
        function: String,
        /// The parser's reason.
        reason: String,
    },
    /// The tokenizer cannot encode a text.
    #[error("the tokenizer cannot encode a text: {0}")]
    Tokenize(String),
    /// The tokenizer cannot decode tokens.
    #[error("the tokenizer cannot decode tokens: {0}")]
    Decode(String),
    /// The tokenizer turned plain text into a control token.
    #[error("the tokenizer turns plain text into the control token {0}: its vocabulary holds control tokens as text")]
    Forged(u32),
}

impl From<TemplateError> for ChatError {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::Limit { excess } => Self::TemplateLimit { excess },
            other => Self::Template(other),
        }
    }
}
