//! A conversation's messages, as the chat template takes them.

/// Who speaks in a conversation, from the policy's point of view.
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

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
    /// A reply's tokens as they were sampled, without the stop token: they stand for the text wherever it is shown
    /// again. Empty where the text is to be tokenised.
    pub tokens: Vec<u32>,
}

impl Message {
    /// A message whose text is to be tokenised.
    #[must_use]
    pub fn of_text(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), tokens: vec![] }
    }
}
