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
    /// An earlier reply of the model.
    Assistant,
}

/// A message to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMessage {
    /// The author's role.
    pub role: ModelRole,
    /// The content.
    pub content: Content,
}

/// A request for a completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The conversation so far.
    pub messages: Vec<ModelMessage>,
    /// Maximum length of the reply (tokens).
    pub max_tokens: u32,
    /// Sampling temperature; finite.
    pub temperature: f32,
    /// Texts before which the reply ends.
    pub stop: Vec<String>,
}

/// A model's completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The reply.
    pub text: String,
    /// True if the reply was cut at `max_tokens`.
    pub cut: bool,
    /// Length of the prompt, as the model's server counts it (tokens).
    pub prompt_tokens: u32,
    /// Length of the reply (tokens).
    pub completion_tokens: u32,
}

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// The method, such as `GET` or `POST`.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Names and values of the headers, as the plugin gave them. Secrets are added after recording.
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(with = "crate::bytes")]
    pub body: Vec<u8>,
    /// Time limit that the plugin asks for (milliseconds).
    pub timeout_ms: u32,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Names and values of the headers, with secrets removed.
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
    /// True if the call failed; the content gives the reason.
    pub failed: bool,
}

/// An outbound request of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// A completion by a model.
    Model(ModelRequest),
    /// A request to an HTTP server.
    Http(HttpRequest),
    /// A call of a tool; rewards only.
    Tool(Call),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The model's completion.
    Model(ModelReply),
    /// The server's response.
    Http(HttpResponse),
    /// The tool's answer.
    Tool(ToolReply),
    /// A refusal by the host.
    Refused(Refused),
}

/// The reason why a request was refused, for the plugin's author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// The run's grants do not allow the request.
    Denied(String),
    /// The request is malformed.
    Invalid(String),
    /// The model, server or function does not exist.
    NotFound(String),
    /// The model, server or tool did not answer.
    Failed(String),
}

/// An outbound request of a plugin and its answer.
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
