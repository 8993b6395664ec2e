//! Functions of a seat in the form of OpenAI's protocol.

use gymkhana_record::{Call, EpisodeRecord, Function};
use serde_json::{Value as Json, json};

/// The functions that a seat may call.
pub(crate) fn functions(record: &EpisodeRecord, seat: u32) -> &[Function] {
    let offered = record.opening.functions.iter().find(|offered| offered.seat == seat);
    offered.map_or(&[], |offered| offered.functions.as_slice())
}

/// The schema of a function's arguments. A schema that is not JSON allows any object.
pub(crate) fn parameters(function: &Function) -> Json {
    serde_json::from_str(&function.parameters).unwrap_or_else(|_| json!({"type": "object"}))
}

/// Name, description and schema of a function.
pub(crate) fn definition(function: &Function) -> Json {
    json!({"name": function.name, "description": function.description, "parameters": parameters(function)})
}

/// The arguments of a call as JSON; a text that is not JSON stays a text.
pub(crate) fn arguments(call: &Call) -> Json {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.as_str().into())
}

/// A function as a tool of OpenAI's protocol.
pub(crate) fn tool(function: &Function) -> Json {
    json!({"type": "function", "function": definition(function)})
}
