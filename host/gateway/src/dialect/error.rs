//! Errors for the agent program, in the form of each protocol.

use serde_json::{Value as Json, json};

/// The class of an error, which decides its status and its name in each protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request is malformed, or asks for something that the policy cannot do.
    Invalid,
    /// The prompt does not fit the context.
    ContextFull,
    /// The key is missing, wrong or expired.
    Unauthorized,
    /// There is no such model, response or address.
    NotFound,
    /// The body is too large.
    TooLarge,
    /// The episode's budget is used up. The status makes no client repeat the request.
    BudgetSpent,
    /// The policy failed.
    Policy,
    /// Every place is taken at present.
    Unavailable,
}

/// An error for the agent program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The class.
    pub class: ErrorClass,
    /// The message: what failed, why, and what to do.
    pub message: String,
    /// The field that is at fault, such as `messages[2].content`.
    pub field: Option<String>,
}

impl ApiError {
    /// An error of this class.
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), field: None }
    }

    /// A malformed field.
    pub(crate) fn field(field: &str, problem: impl std::fmt::Display) -> Self {
        let message = format!("invalid request: `{field}` {problem}");
        Self { class: ErrorClass::Invalid, message, field: Some(field.to_owned()) }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.class {
            ErrorClass::Invalid | ErrorClass::ContextFull => 400,
            ErrorClass::Unauthorized => 401,
            ErrorClass::BudgetSpent => 403,
            ErrorClass::NotFound => 404,
            ErrorClass::TooLarge => 413,
            ErrorClass::Policy => 500,
            ErrorClass::Unavailable => 503,
        }
    }

    /// OpenAI's body.
    pub(crate) fn as_openai(&self) -> Json {
        let (kind, code) = match self.class {
            ErrorClass::Invalid => ("invalid_request_error", Json::Null),
            ErrorClass::ContextFull => ("invalid_request_error", "context_length_exceeded".into()),
            ErrorClass::Unauthorized => ("invalid_request_error", "invalid_api_key".into()),
            ErrorClass::BudgetSpent => ("invalid_request_error", "budget_exceeded".into()),
            ErrorClass::NotFound => ("invalid_request_error", "not_found".into()),
            ErrorClass::TooLarge => ("invalid_request_error", "request_too_large".into()),
            ErrorClass::Policy => ("server_error", Json::Null),
            ErrorClass::Unavailable => ("server_error", "unavailable".into()),
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.field, "code": code}})
    }

    /// The event with which a stream of Responses fails.
    pub(crate) fn as_responses_event(&self) -> Json {
        let error = &self.as_openai()["error"];
        json!({
            "type": "error", "sequence_number": 0, "code": error["type"], "message": self.message, "param": self.field,
        })
    }

    /// Anthropic's body.
    pub(crate) fn as_anthropic(&self) -> Json {
        let kind = match self.class {
            ErrorClass::Invalid | ErrorClass::ContextFull => "invalid_request_error",
            ErrorClass::Unauthorized => "authentication_error",
            ErrorClass::BudgetSpent => "permission_error",
            ErrorClass::NotFound => "not_found_error",
            ErrorClass::TooLarge => "request_too_large",
            ErrorClass::Policy => "api_error",
            ErrorClass::Unavailable => "overloaded_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }
}
