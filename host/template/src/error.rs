//! Errors of templates.

/// The reason why a template cannot be parsed or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The source is malformed.
    #[error("the chat template is malformed: line {line}: {reason}")]
    Syntax {
        /// Line of the source, from 1.
        line: u32,
        /// What is wrong.
        reason: String,
    },
    /// The template called `raise_exception`.
    #[error("the chat template refuses the conversation: {message}")]
    Raised {
        /// The template's message.
        message: String,
    },
    /// An expression or statement failed.
    #[error("the chat template failed: line {line}: {reason}")]
    Eval {
        /// Line of the source, from 1.
        line: u32,
        /// What failed.
        reason: String,
    },
    /// The source or its rendering exceeds a limit.
    #[error("the chat template exceeds a limit: it {excess}")]
    Limit {
        /// The limit, such as `takes more than 10000000 steps`.
        excess: String,
    },
}

/// A failure during a rendering, without its line.
#[derive(Debug)]
pub(crate) enum Fault {
    Failed(String),
    Raised(String),
    Limit(String),
}

impl Fault {
    pub(crate) fn at(self, line: u32) -> TemplateError {
        match self {
            Self::Failed(reason) => TemplateError::Eval { line, reason },
            Self::Raised(message) => TemplateError::Raised { message },
            Self::Limit(excess) => TemplateError::Limit { excess },
        }
    }
}

/// A failure with this reason.
pub(crate) fn fail<T>(reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(reason.into()))
}
