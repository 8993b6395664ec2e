//! Constructors of a tool's answers.

use crate::tool::exports::gymkhana::plugin::tool::Answer;
use crate::{Call, Content, text};

impl Answer {
    /// Successful answer with text.
    #[must_use]
    pub fn text(words: impl Into<String>) -> Self {
        Self::content(text(words))
    }

    /// Successful answer with parts of any kind.
    #[must_use]
    pub fn content(content: Content) -> Self {
        Self { content, failed: false }
    }

    /// Failed answer; the text tells the agent why.
    #[must_use]
    pub fn failed(words: impl Into<String>) -> Self {
        Self { content: text(words), failed: true }
    }

    /// Failed answer for an unknown function.
    #[must_use]
    pub fn no_function(call: &Call) -> Self {
        Self::failed(format!("unknown function `{}`", call.name))
    }
}

/// Converts `Ok` into a successful answer and `Err`, an error of the agent, into a failed one.
impl From<Result<String, String>> for Answer {
    fn from(outcome: Result<String, String>) -> Self {
        outcome.map_or_else(Self::failed, Self::text)
    }
}
