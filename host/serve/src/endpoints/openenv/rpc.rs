//! JSON-RPC 2.0 as the protocol's server answers it: status 200 whatever happens, and errors with an owner.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::endpoints::detail::{FieldFault, fields};
use crate::error::{ErrorKind, ServeError};

/// A request. The id is a string, an integer or absent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RpcRequest {
    jsonrpc: String,
    /// The method.
    pub(super) method: String,
    /// Its parameters.
    #[serde(default)]
    pub(super) params: Map<String, Json>,
    #[serde(default)]
    id: Json,
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RpcError {
    code: i32,
    message: String,
    data: Json,
}

impl RpcError {
    /// The body is not JSON.
    pub(super) fn parse(error: &dyn std::fmt::Display) -> Self {
        Self::new(-32700, format!("Parse error: {error}"))
    }

    /// The JSON is not a request.
    pub(super) fn request(fault: &FieldFault) -> Self {
        Self::new(-32600, format!("Invalid request: {}", fault.message))
    }

    /// The method is not known.
    pub(super) fn method(name: &str) -> Self {
        Self::new(-32601, format!("Method not found: {name}"))
    }

    /// A parameter is missing or has a wrong type.
    pub(super) fn parameter(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// A function's call that failed: its answer, the party at fault, and what the turn brought.
    pub(super) fn call(message: String, owner: &str, facts: &Json) -> Self {
        Self { code: -32603, message, data: json!({ "owner": owner, "step": facts }) }
    }

    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: json!({ "owner": "agent" }) }
    }

    /// The answer to the request of an id.
    pub(super) fn answer(&self, id: &Json) -> Json {
        let error = json!({ "code": self.code, "message": self.message, "data": self.data });
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

impl From<ServeError> for RpcError {
    fn from(error: ServeError) -> Self {
        let code = match error.kind {
            ErrorKind::UnknownSession | ErrorKind::UnknownName | ErrorKind::BadInput => -32602,
            ErrorKind::OutOfOrder | ErrorKind::Busy | ErrorKind::TooLarge => -32600,
            ErrorKind::Unsupported => -32601,
            ErrorKind::Full | ErrorKind::Closing | ErrorKind::Unauthorized => -32000,
            ErrorKind::Deadline | ErrorKind::Failed => -32603,
        };
        let data = json!({ "kind": error.kind.label(), "owner": error.owner.label() });
        Self { code, message: error.message, data }
    }
}

impl RpcRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// If it is not one.
    pub(super) fn of(json: &Json) -> Result<Self, RpcError> {
        let request: Self = fields(json).map_err(|fault| RpcError::request(&fault))?;
        let is_id = request.id.is_null() || request.id.is_string() || request.id.is_i64() || request.id.is_u64();
        if request.jsonrpc != "2.0" || !is_id {
            let message = "`jsonrpc` must be \"2.0\" and `id` a string or an integer";
            return Err(RpcError::request(&FieldFault::of(message, json)));
        }
        Ok(request)
    }

    /// A parameter that is text; `None` if it is absent or empty.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, RpcError> {
        match self.params.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(RpcError::parameter(format!("Invalid params - '{name}' must be a string"))),
        }
    }

    /// The answer with this result.
    pub(super) fn answer(&self, result: Result<Json, RpcError>) -> Json {
        match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": self.id, "result": result }),
            Err(error) => error.answer(&self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests and answers of the official server.
    const RECORDED: &str = include_str!("../../../tests/golden/openenv.json");

    #[test]
    fn requests_are_refused_with_the_codes_of_the_official_server() {
        let recorded: Json = serde_json::from_str(RECORDED).unwrap();
        let exchanges = recorded["requests"].as_array().unwrap();
        assert!(exchanges.len() > 4);
        for exchange in exchanges {
            let error =
                RpcRequest::of(&exchange["sent"]).err().map(|error| error.answer(&Json::Null)["error"]["code"].clone());
            assert_eq!(error.unwrap_or_default(), exchange["code"], "{}", exchange["sent"]);
        }
    }

    #[test]
    fn an_empty_object_is_an_invalid_request() {
        let answer = RpcRequest::of(&json!({})).unwrap_err().answer(&Json::Null);
        assert_eq!((&answer["jsonrpc"], &answer["error"]["code"]), (&json!("2.0"), &json!(-32600)));
    }

    #[test]
    fn an_answer_repeats_the_id() {
        let request = RpcRequest::of(&json!({ "jsonrpc": "2.0", "method": "tools/list", "id": "a" })).unwrap();
        let answer = request.answer(Err(RpcError::method("tools/list")));
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32601)));
        assert!(RpcRequest::of(&json!({ "jsonrpc": "2.0", "method": "x", "id": [] })).is_err());
        assert!(RpcRequest::of(&json!({ "jsonrpc": "1.0", "method": "x" })).is_err());
    }

    #[test]
    fn a_parameter_of_a_wrong_type_is_named() {
        let request = json!({ "jsonrpc": "2.0", "method": "x", "params": { "session_id": 3 } });
        let error = RpcRequest::of(&request).unwrap().text("session_id").unwrap_err();
        assert_eq!(error, RpcError::parameter("Invalid params - 'session_id' must be a string"));
    }
}
