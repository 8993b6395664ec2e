//! Outbound calls of plugins and their answers, which let a replay work without a network.

use serde::{Deserialize, Serialize};

use crate::{Boundary, Call, CallSite, Content};

/// The role of a message to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelRole {
    /// The instruction before the conversation.
    System,
    /// The party that the model answers.
    User,
    /// The model itself, earlier.
    Assistant,
}

/// One message to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMessage {
    /// The role.
    pub role: ModelRole,
    /// The content.
    pub content: Content,
}

/// Asks a model for a completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The conversation so far.
    pub messages: Vec<ModelMessage>,
    /// The most tokens of the reply.
    pub max_tokens: u32,
    /// A finite number.
    pub temperature: f32,
    /// The reply ends before one of these texts.
    pub stop: Vec<String>,
}

/// A model's completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The reply.
    pub text: String,
    /// It was cut at `max_tokens`.
    pub cut: bool,
    /// How many tokens the question had, as the model counts them.
    pub prompt_tokens: u32,
    /// How many tokens the reply had.
    pub completion_tokens: u32,
}

/// One request over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Where to.
    pub url: String,
    /// Names and values, as the plugin gave them; secrets are added later and stand nowhere.
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(with = "crate::bytes")]
    pub body: Vec<u8>,
    /// How long the plugin wants to wait, in milliseconds.
    pub timeout_ms: u32,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(with = "crate::bytes")]
    pub body: Vec<u8>,
}

/// A tool's answer to a reward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The answer.
    pub content: Content,
    /// The call did not work; the content says why.
    pub failed: bool,
}

/// An outbound request of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// A model.
    Model(ModelRequest),
    /// A server.
    Http(HttpRequest),
    /// A tool, as only rewards may.
    Tool(Call),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// By a model.
    Model(ModelReply),
    /// By a server.
    Http(HttpResponse),
    /// By a tool.
    Tool(ToolReply),
    /// A refusal.
    Refused(Refused),
}

/// The reason why a request was refused, for the plugin's author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// The run does not allow it.
    Denied(String),
    /// The question makes no sense.
    Invalid(String),
    /// There is no such thing.
    NotFound(String),
    /// What was asked did not answer.
    Failed(String),
}

/// One outbound request of a plugin and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The plugin that asked.
    #[serde(flatten)]
    pub at: Boundary,
    /// The call during which the plugin asked.
    pub call_site: CallSite,
    /// The request.
    pub question: Question,
    /// The answer.
    pub reply: Reply,
}
