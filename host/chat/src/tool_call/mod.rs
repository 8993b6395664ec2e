//! Tool calls in the text of a reply, in the formats that models were trained on.
//!
//! A reply that cannot be read as a call is not an error of the host: the call becomes [`WrittenCall::Malformed`], and
//! the agent receives the reason as the call's answer. Parsing keeps all text: it is in the message, in a call, or in
//! a malformed call.

mod deepseek;
mod fenced_json;
mod hermes;
mod json;
mod llama;
mod mistral;
mod qwen_coder;

use gymkhana_record::{Function, WrittenCall};
use serde::{Deserialize, Serialize};

use crate::message::ReplyPiece;

/// A reply split into its message and its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedReply {
    /// The text outside the calls, trimmed.
    pub message: String,
    /// The calls in their order.
    pub calls: Vec<WrittenCall>,
}

/// A call that the host writes for a policy, as an oracle's demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCall<'a> {
    /// The function's name.
    pub name: &'a str,
    /// JSON text of an object.
    pub arguments: &'a str,
}

/// A piece of written calls; see [`ReplyPiece`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPiece {
    /// Marks of the format, tokenised with control tokens.
    Frame(String),
    /// Names and arguments from outside, which cannot become control tokens.
    Plain(String),
}

impl CallPiece {
    /// The piece as [`crate::ChatFormat::encode_reply`] takes it.
    #[must_use]
    pub fn as_reply(&self) -> ReplyPiece<'_> {
        match self {
            Self::Frame(text) => ReplyPiece::Frame(text),
            Self::Plain(text) => ReplyPiece::Plain(text),
        }
    }

    fn frame(text: impl Into<String>) -> Self {
        Self::Frame(text.into())
    }

    fn plain(text: impl Into<String>) -> Self {
        Self::Plain(text.into())
    }
}

/// The format in which a model writes tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen2.5, Qwen3.
    #[default]
    Hermes,
    /// `{"name": …, "parameters": {…}}`, optionally behind `<|python_tag|>`: Llama 3.1, 3.2, 3.3.
    #[serde(rename = "llama3-json")]
    Llama3Json,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]` or `[TOOL_CALLS]name[ARGS]{…}`: Mistral, Ministral, Devstral.
    Mistral,
    /// `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: Qwen3-Coder.
    #[serde(rename = "qwen3-coder-xml")]
    Qwen3CoderXml,
    /// `<｜tool▁calls▁begin｜>…<｜tool▁calls▁end｜>`: DeepSeek-V3, V3.1 and R1.
    #[serde(rename = "deepseek")]
    DeepSeek,
    /// A Markdown code block of JSON with a name and arguments: models without a format of their own.
    FencedJson,
}

impl ToolFormat {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Hermes, Self::Llama3Json, Self::Mistral, Self::Qwen3CoderXml, Self::DeepSeek, Self::FencedJson];

    /// The name in the run file, which is also the serialised form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Llama3Json => "llama3-json",
            Self::Mistral => "mistral",
            Self::Qwen3CoderXml => "qwen3-coder-xml",
            Self::DeepSeek => "deepseek",
            Self::FencedJson => "fenced-json",
        }
    }

    /// Detects the format from the text of a chat template; `None` if the template holds no known mark.
    #[must_use]
    pub fn detect(template: &str) -> Option<Self> {
        let has = |mark: &str| template.contains(mark);
        // A template may quote a simpler format beside its own, so the most specific marks come first.
        if has(deepseek::CALLS_BEGIN) {
            Some(Self::DeepSeek)
        } else if has(mistral::TOOL_CALLS) {
            Some(Self::Mistral)
        } else if has(qwen_coder::FUNCTION) && has(qwen_coder::PARAMETER) {
            Some(Self::Qwen3CoderXml)
        } else if has(hermes::OPEN) {
            Some(Self::Hermes)
        } else if has(llama::PYTHON_TAG) || (has("<|start_header_id|>") && has("ipython")) {
            Some(Self::Llama3Json)
        } else if has(fenced_json::FENCE) {
            Some(Self::FencedJson)
        } else {
            None
        }
    }

    /// Splits a reply into its message and its calls.
    ///
    /// `functions` are those the policy may call. Only [`Self::Qwen3CoderXml`] uses them: its arguments are untyped
    /// text, which the functions' schemas turn into JSON.
    #[must_use]
    pub fn parse(self, text: &str, functions: &[Function]) -> ParsedReply {
        match self {
            Self::Hermes => hermes::parse(text),
            Self::Llama3Json => llama::parse(text),
            Self::Mistral => mistral::parse(text),
            Self::Qwen3CoderXml => qwen_coder::parse(text, functions),
            Self::DeepSeek => deepseek::parse(text),
            Self::FencedJson => fenced_json::parse(text),
        }
    }

    /// Writes calls as the model would. Empty for no calls.
    #[must_use]
    pub fn write(self, calls: &[NewCall<'_>]) -> Vec<CallPiece> {
        if calls.is_empty() {
            return vec![];
        }
        match self {
            Self::Hermes => hermes::write(calls),
            Self::Llama3Json => llama::write(calls),
            Self::Mistral => mistral::write(calls),
            Self::Qwen3CoderXml => qwen_coder::write(calls),
            Self::DeepSeek => deepseek::write(calls),
            Self::FencedJson => fenced_json::write(calls),
        }
    }

    /// Control tokens that end a turn with calls and that neither the template nor the configuration reveals.
    pub(crate) fn end_tokens(self) -> &'static [&'static str] {
        match self {
            // https://github.com/meta-llama/llama-models, models/llama3_1/prompt_format.md: "end of message".
            Self::Llama3Json => &["<|eom_id|>"],
            Self::Hermes | Self::Mistral | Self::Qwen3CoderXml | Self::DeepSeek | Self::FencedJson => &[],
        }
    }
}

impl std::fmt::Display for ToolFormat {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The message and the calls of a reply while it is parsed.
#[derive(Default)]
struct ReplyBuilder {
    message: String,
    calls: Vec<WrittenCall>,
}

impl ReplyBuilder {
    fn finish(self) -> ParsedReply {
        ParsedReply { message: self.message.trim().to_owned(), calls: self.calls }
    }
}

#[cfg(test)]
mod tests;
