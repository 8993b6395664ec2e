//! A request of an agent program in the form that all protocols share.

use gymkhana_chat::Role;
use gymkhana_record::Function;

/// A call in an earlier message of the assistant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputCall {
    /// The id by which an answer names the call; programs may leave it out.
    pub id: Option<String>,
    /// The function's name.
    pub name: String,
    /// JSON text of the arguments.
    pub arguments: String,
}

/// A message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputMessage {
    /// The author.
    pub role: Role,
    /// The text.
    pub text: String,
    /// Reasoning before the text of a message of the assistant; none if the program dropped it.
    pub reasoning: Option<String>,
    /// Calls of a message of the assistant.
    pub calls: Vec<InputCall>,
    /// The id of the call that a message of a tool answers.
    pub call_id: Option<String>,
}

impl InputMessage {
    /// A message without reasoning and calls.
    #[must_use]
    pub fn of_text(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), reasoning: None, calls: vec![], call_id: None }
    }

    /// Bytes of text, reasoning and calls.
    pub(crate) fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
        self.text.len() + self.reasoning.as_ref().map_or(0, String::len) + calls
    }

    /// Adds reasoning behind that of the message; nothing if it is empty.
    pub(crate) fn reason(&mut self, text: &str) {
        match &mut self.reasoning {
            _ if text.is_empty() => {}
            Some(reasoning) => *reasoning = format!("{reasoning}\n{text}"),
            None => self.reasoning = Some(text.to_owned()),
        }
    }
}

/// Sampling settings that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RequestedSampling {
    /// Temperature.
    pub temperature: Option<f32>,
    /// Share of the probability that is kept.
    pub top_p: Option<f32>,
    /// Number of tokens kept.
    pub top_k: Option<u32>,
}

/// A request for a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyRequest {
    /// The model's name.
    pub model: String,
    /// The id of an earlier reply whose messages precede those of this request, in Responses.
    pub previous: Option<String>,
    /// The messages, instructions first.
    pub messages: Vec<InputMessage>,
    /// The functions that the policy may call.
    pub functions: Vec<Function>,
    /// Whether calls in the reply are read as calls.
    pub reads_calls: bool,
    /// Maximum number of tokens of the reply.
    pub max_tokens: Option<usize>,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// Sampling settings.
    pub sampling: RequestedSampling,
    /// Whether the answer is a stream of events.
    pub stream: bool,
    /// Whether a stream ends with the number of tokens.
    pub stream_usage: bool,
    /// Whether the answer holds log-probabilities.
    pub log_probs: bool,
    /// Whether a later request may name the reply as its `previous`.
    pub stored: bool,
    /// Variables for the chat template, besides those of the run.
    pub switches: serde_json::Map<String, serde_json::Value>,
}

impl ReplyRequest {
    /// Bytes of what a chat template may write: messages with reasoning and calls, and functions.
    pub(crate) fn bytes(&self) -> usize {
        let of_function = |one: &Function| one.name.len() + one.description.len() + one.parameters.len();
        let functions: usize = self.functions.iter().map(of_function).sum();
        functions + self.messages.iter().map(InputMessage::bytes).sum::<usize>()
    }
}
