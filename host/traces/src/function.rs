//! Functions of a seat in the form of OpenAI's protocol.

use gymkhana_record::{EpisodeRecord, Function};
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
