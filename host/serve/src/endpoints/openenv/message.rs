//! Messages of a client on `/ws`.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::action::ActionRequest;
use super::episode::Reset;
use super::error::MessageRefusal;
use crate::endpoints::detail::{FieldFault, fields};

/// Largest message that is answered, in bytes.
pub(super) const MAX_MESSAGE: usize = 4 << 20;

/// Types of messages.
const TYPES: [&str; 5] = ["reset", "step", "state", "close", "mcp"];

/// A message.
#[derive(Debug)]
pub(super) enum ClientMessage {
    /// Begins an episode.
    Reset(Reset),
    /// Takes a turn.
    Step(ActionRequest),
    /// Asks for the state.
    State,
    /// A request of JSON-RPC.
    Rpc(Json),
    /// Ends the connection.
    Close,
}

/// The fields of every message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    data: Option<Json>,
}

impl ClientMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// If it is not JSON, its type is not known, or a field is wrong.
    pub(super) fn of(text: &str) -> Result<Self, MessageRefusal> {
        if text.len() > MAX_MESSAGE {
            return Err(too_large(text).into());
        }
        let json: Json = serde_json::from_str(text).map_err(|error| MessageRefusal::NotJson(error.to_string()))?;
        let kind = json.get("type").and_then(Json::as_str).unwrap_or_default();
        if !TYPES.contains(&kind) {
            return Err(MessageRefusal::UnknownType(kind.to_owned()));
        }
        let Envelope { kind, data } = fields(&json)?;
        let needed = |data: Option<Json>| {
            data.ok_or_else(|| FieldFault { kind: "missing", ..FieldFault::of("Field required", &json) }.at("data"))
        };
        Ok(match kind.as_str() {
            "reset" => Self::Reset(Reset::of(&data.unwrap_or_else(|| json!({})))?),
            "step" => Self::Step(ActionRequest::of(&needed(data)?)?),
            "state" => Self::State,
            "mcp" => Self::Rpc(needed(data)?),
            _ => Self::Close,
        })
    }
}

/// The fault of a message that is too large.
pub(super) fn too_large(text: &str) -> FieldFault {
    let message = format!("a message of {} bytes is too large: the limit is {MAX_MESSAGE} bytes", text.len());
    FieldFault { kind: "bytes_too_long", ..FieldFault::of(message, &Json::Null) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages and answers of the official server.
    const RECORDED: &str = include_str!("../../../tests/golden/openenv.json");

    #[test]
    fn messages_are_refused_with_the_codes_of_the_official_server() {
        let recorded: Json = serde_json::from_str(RECORDED).unwrap();
        let exchanges = recorded["messages"].as_array().unwrap();
        assert!(exchanges.len() > 10);
        for exchange in exchanges {
            let text = exchange["sent"].as_str().unwrap();
            let code = ClientMessage::of(text).err().map(|refusal| refusal.message()["data"]["code"].clone());
            assert_eq!(code.unwrap_or_default(), exchange["code"], "{text}");
        }
    }
}
