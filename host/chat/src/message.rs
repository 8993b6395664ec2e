//! A conversation's messages, as the chat template takes them, and the pieces of replies that the host writes.

/// The author of a message, from the policy's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The run's instructions.
    System,
    /// The environment.
    User,
    /// The policy itself.
    Assistant,
    /// A tool, or the environment's answer to a call.
    Tool,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// The name in chat templates.
impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content.
    pub text: String,
    /// A reply's sampled tokens without the stop token: they replace the text in every later prompt. Empty for a text
    /// that is to be tokenised.
    pub tokens: Vec<u32>,
}

impl Message {
    /// A message without sampled tokens, whose text is to be tokenised.
    #[must_use]
    pub fn of_text(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), tokens: vec![] }
    }
}

/// A piece of a reply that the host writes for the policy, as an oracle's demonstration.
#[derive(Debug, Clone, Copy)]
pub enum ReplyPiece<'a> {
    /// Marks of the format, tokenised with control tokens.
    Frame(&'a str),
    /// Text from outside, which cannot become control tokens.
    Plain(&'a str),
}
