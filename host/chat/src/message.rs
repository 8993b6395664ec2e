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
    /// The content; of a reply all of its text, with thoughts and calls.
    pub text: String,
    /// A reply's sampled tokens without the stop token: they replace the text in every later prompt. Empty for a text
    /// that is to be tokenised.
    pub tokens: Vec<u32>,
    /// A reply in its parts, for templates that write calls and thoughts themselves.
    pub parts: Option<Box<SpokenParts>>,
    /// The call that the message of a tool answers, where it is known.
    pub answers: Option<AnsweredCall>,
}

/// A reply in its parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpokenParts {
    /// The thoughts without their marks.
    pub thoughts: Option<String>,
    /// The text outside thoughts and calls.
    pub message: String,
    /// The calls that could be read.
    pub calls: Vec<SpokenCall>,
}

/// A call of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenCall {
    /// The id by which an answer names the call.
    pub id: String,
    /// The function.
    pub name: String,
    /// JSON text of an object.
    pub arguments: String,
}

/// The call that a tool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredCall {
    /// Id of the call.
    pub id: String,
    /// The function.
    pub name: String,
}

impl Message {
    /// A message without sampled tokens, whose text is to be tokenised.
    #[must_use]
    pub fn of_text(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), tokens: vec![], parts: None, answers: None }
    }

    /// A reply of the policy: its text, and its sampled tokens without the stop token.
    #[must_use]
    pub fn reply(text: impl Into<String>, tokens: Vec<u32>) -> Self {
        Self { tokens, ..Self::of_text(Role::Assistant, text) }
    }

    /// The same with the parts of the reply.
    #[must_use]
    pub fn with_parts(mut self, parts: SpokenParts) -> Self {
        self.parts = Some(Box::new(parts));
        self
    }

    /// The same as the answer to a call.
    #[must_use]
    pub fn answering(mut self, call: AnsweredCall) -> Self {
        self.answers = Some(call);
        self
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
