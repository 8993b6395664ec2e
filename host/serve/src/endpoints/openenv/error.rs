//! Errors of a session in the protocol's two forms: codes of the WebSocket and codes of JSON-RPC.

use serde_json::{Value as Json, json};

use crate::endpoints::detail::FieldFault;
use crate::error::{ErrorKind, ServeError};

/// A message of a WebSocket that cannot be answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MessageRefusal {
    /// It is not JSON.
    NotJson(String),
    /// Its type is not known.
    UnknownType(String),
    /// A field is wrong.
    Fault(FieldFault),
    /// The session refuses or fails.
    Session(ServeError),
}

impl From<ServeError> for MessageRefusal {
    fn from(error: ServeError) -> Self {
        Self::Session(error)
    }
}

impl From<FieldFault> for MessageRefusal {
    fn from(fault: FieldFault) -> Self {
        Self::Fault(fault)
    }
}

impl MessageRefusal {
    /// The message of the type `error`.
    pub(super) fn message(&self) -> Json {
        let data = match self {
            Self::NotJson(error) => json!({ "message": format!("Invalid JSON: {error}"), "code": "INVALID_JSON" }),
            Self::UnknownType(name) => {
                json!({ "message": format!("Unknown message type: {name}"), "code": "UNKNOWN_TYPE" })
            }
            Self::Fault(fault) => {
                let message = format!("Invalid message: {}", fault.message);
                json!({ "message": message, "code": "VALIDATION_ERROR", "errors": [fault.entry()] })
            }
            Self::Session(error) => json!({
                "message": error.message,
                "code": code(error.kind),
                "kind": error.kind.label(),
                "owner": error.owner.label(),
            }),
        };
        json!({ "type": "error", "data": data })
    }
}

/// The protocol's code of a kind of error.
fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Full => "CAPACITY_REACHED",
        ErrorKind::UnknownSession | ErrorKind::Unauthorized | ErrorKind::Closing => "SESSION_ERROR",
        ErrorKind::BadInput | ErrorKind::UnknownName | ErrorKind::TooLarge => "VALIDATION_ERROR",
        ErrorKind::OutOfOrder | ErrorKind::Unsupported | ErrorKind::Busy => "EXECUTION_ERROR",
        ErrorKind::Deadline | ErrorKind::Failed => "EXECUTION_ERROR",
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Owner;

    use super::*;

    #[test]
    fn an_error_has_a_code_and_an_owner() {
        let error = ServeError::new(Owner::Environment, ErrorKind::Failed, "it trapped");
        let message = MessageRefusal::from(error).message();
        assert_eq!(message["data"]["code"], "EXECUTION_ERROR");
        assert_eq!(message["data"]["owner"], "environment");
        let full = MessageRefusal::from(ServeError::host(ErrorKind::Full, "no place")).message();
        assert_eq!(full["data"]["code"], "CAPACITY_REACHED");
    }
}
