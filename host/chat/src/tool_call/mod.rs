//! Tool calls in the text of a reply, in the formats that models were trained on.
//!
//! A reply that cannot be read as a call is not an error of the host: the call becomes [`WrittenCall::Malformed`], and
//! the agent receives the reason as the call's answer. Parsing keeps all text: it is in the message, in a call, or in
//! a malformed call. Left out are marks, ids, and the channel of thoughts of [`ToolFormat::Harmony`].

mod custom;
mod deepseek;
mod detect;
mod format;
mod gemma;
mod harmony;
mod json;
mod llama;
mod marked;
mod mistral;
mod named;
mod python;
mod scan;
mod schema;
mod tags;

use gymkhana_record::WrittenCall;

use crate::message::ReplyPiece;

pub use self::custom::{CustomMarks, CustomMarksError};
pub use self::format::{ToolFormat, UnknownToolFormat};

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
