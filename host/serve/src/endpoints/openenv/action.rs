//! Actions: a turn of text and calls, or one of the protocol's two actions for tools.

use gymkhana_driver::Reply;
use gymkhana_record::WrittenCall;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::endpoints::detail::{FieldFault, fields};
use crate::session::TurnRequest;

/// What a client asks of a running episode.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ActionRequest {
    /// The functions.
    ListTools,
    /// One call, whose answer has the protocol's form of tool calls.
    CallTool {
        /// Name of the function.
        name: String,
        /// The turn with this call.
        action: TurnRequest,
    },
    /// A turn.
    Turn(TurnRequest),
}

/// The action `{"type": "call_tool"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallTool {
    #[serde(rename = "type")]
    _type: String,
    tool_name: String,
    #[serde(default)]
    arguments: Map<String, Json>,
    #[serde(default, rename = "metadata")]
    _metadata: Json,
}

/// A turn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentTurn {
    text: Option<Json>,
    #[serde(default)]
    calls: Vec<CallOfTurn>,
    seat: Option<u32>,
    turn: Option<u64>,
    #[serde(default, rename = "metadata")]
    _metadata: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallOfTurn {
    name: String,
    #[serde(default)]
    arguments: Json,
}

impl ActionRequest {
    /// Reads an action.
    ///
    /// # Errors
    /// If a field is missing, has a wrong type or is not known.
    pub(super) fn of(json: &Json) -> Result<Self, FieldFault> {
        match json.get("type").and_then(Json::as_str) {
            Some("list_tools") => Ok(Self::ListTools),
            Some("call_tool") => {
                let CallTool { tool_name: name, arguments, .. } = fields(json)?;
                let action = TurnRequest::call(name.clone(), &Json::Object(arguments));
                Ok(Self::CallTool { name, action })
            }
            _ => turn(json).map(Self::Turn),
        }
    }
}

fn turn(json: &Json) -> Result<TurnRequest, FieldFault> {
    let SentTurn { text, calls, seat, turn, .. } = fields(json)?;
    if text.is_none() && calls.is_empty() {
        return Err(FieldFault { kind: "missing", ..FieldFault::of("Field required", json) }.at("text"));
    }
    let calls = calls.into_iter().map(|call| written(call.name, &call.arguments)).collect();
    Ok(TurnRequest { seat, reply: Reply { thoughts: None, message: text.map(words).unwrap_or_default(), calls }, turn })
}

fn written(name: String, arguments: &Json) -> WrittenCall {
    match arguments {
        Json::Null => WrittenCall::Sound { name, arguments: "{}".to_owned() },
        Json::Object(_) => WrittenCall::Sound { name, arguments: arguments.to_string() },
        other => WrittenCall::malformed(&other.to_string(), "the arguments are not a JSON object"),
    }
}

/// The text of a field. Clients that read a model's reply as JSON send a number where the model wrote one.
fn words(text: Json) -> String {
    match text {
        Json::String(text) => text,
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn_of(json: &Json) -> TurnRequest {
        match ActionRequest::of(json).unwrap() {
            ActionRequest::Turn(action) => action,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_turn_has_text_and_calls() {
        let action = turn_of(&json!({ "text": "go", "calls": [{ "name": "move", "arguments": { "to": "up" } }] }));
        assert_eq!(action.reply.message, "go");
        let sound = WrittenCall::Sound { name: "move".to_owned(), arguments: r#"{"to":"up"}"#.to_owned() };
        assert_eq!(action.reply.calls, [sound]);
    }

    #[test]
    fn a_number_is_its_text() {
        assert_eq!(turn_of(&json!({ "text": 42 })), TurnRequest::say("42"));
        assert_eq!(turn_of(&json!({ "text": "42", "seat": 1, "turn": 3 })), TurnRequest::say("42").by(1).as_turn(3));
    }

    #[test]
    fn tool_actions_are_those_of_the_protocol() {
        assert_eq!(ActionRequest::of(&json!({ "type": "list_tools", "metadata": {} })), Ok(ActionRequest::ListTools));
        let asked = ActionRequest::of(&json!({ "type": "call_tool", "tool_name": "add", "arguments": { "a": 1 } }));
        let action = TurnRequest::call("add", &json!({ "a": 1 }));
        assert_eq!(asked, Ok(ActionRequest::CallTool { name: "add".to_owned(), action }));
    }

    #[test]
    fn faults_name_the_field() {
        let fault = |json| ActionRequest::of(&json).unwrap_err();
        assert_eq!(fault(json!({})).entry()["loc"], json!(["text"]));
        assert_eq!(fault(json!({ "metadata": {} })).kind, "missing");
        assert!(fault(json!({ "texts": "a" })).message.starts_with("unknown field `texts`"));
        assert_eq!(fault(json!([1])).kind, "dict_type");
        assert!(ActionRequest::of(&json!({ "type": "call_tool", "tool_name": "add", "arguments": "x" })).is_err());
    }
}
