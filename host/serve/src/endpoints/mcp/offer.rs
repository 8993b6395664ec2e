//! The tools of one episode: its functions, `say` where the environment takes text, and `observe`.
//!
//! The list is fixed when the episode begins and the same for every connection: functions in the order in which the
//! plugins offer them, then the host's own.

use std::borrow::Cow;
use std::sync::Arc;

use gymkhana_record::{Function, SeatFunctions};
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value as Json, json};

use crate::catalog::ServedEnvironment;
use crate::endpoints::json::schema;
use crate::endpoints::speech::{self, SAY, plays_by_text};

/// The function that shows the last observation again.
pub(super) const OBSERVE: &str = "observe";

/// The tools of an episode.
#[derive(Debug, PartialEq)]
pub(super) struct Offer {
    /// All tools.
    pub(super) tools: Vec<Tool>,
    /// Whether `say` is the host's.
    pub(super) says: bool,
    /// Whether `observe` is the host's.
    pub(super) observes: bool,
}

impl Offer {
    /// The tools of an episode in which the seats have these functions.
    pub(super) fn new(served: &ServedEnvironment, offered: &[SeatFunctions]) -> Self {
        let mut functions: Vec<&Function> = Vec::new();
        for function in offered.iter().flat_map(|seat| &seat.functions) {
            if functions.iter().all(|known| known.name != function.name) {
                functions.push(function);
            }
        }
        let says = plays_by_text(served, functions.iter().copied());
        let observes = !served.is_tools_only() && functions.iter().all(|function| function.name != OBSERVE);
        Self::of(&functions, says, observes)
    }

    fn of(functions: &[&Function], says: bool, observes: bool) -> Self {
        let mut tools: Vec<Tool> = functions.iter().map(|function| tool(function)).collect();
        if says {
            tools.push(host_tool(SAY, speech::DESCRIPTION, speech::schema()));
        }
        if observes {
            let description = "Shows the last observation of the environment again. It does not count as a turn.";
            let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
            tools.push(host_tool(OBSERVE, description, schema));
        }
        Self { tools, says, observes }
    }

    /// Whether there is a tool of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// The names of all tools, for a hint.
    pub(super) fn names(&self) -> String {
        self.tools.iter().map(|tool| format!("`{}`", tool.name)).collect::<Vec<_>>().join(", ")
    }
}

/// A tool of the host itself.
pub(super) fn host_tool(name: &'static str, description: impl Into<Cow<'static, str>>, schema: Json) -> Tool {
    Tool::new(name, description, object(schema))
}

fn tool(function: &Function) -> Tool {
    Tool::new(function.name.clone(), function.description.clone(), object(schema(function)))
}

/// A schema as the protocol has it: an object with the type `object`.
fn object(schema: Json) -> Arc<JsonObject> {
    let mut object = match schema {
        Json::Object(object) => object,
        _ => JsonObject::new(),
    };
    if object.get("type").is_none() {
        object.insert("type".to_owned(), json!("object"));
    }
    Arc::new(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, parameters: &str) -> Function {
        let description = format!("Does {name}.");
        Function { name: name.to_owned(), description, parameters: parameters.to_owned(), cost: 0.0 }
    }

    #[test]
    fn the_hosts_functions_come_last() {
        let (step, add) = (function("step", "{}"), function("add", "{}"));
        let names = |offer: &Offer| offer.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&Offer::of(&[&step, &add], true, true)), ["step", "add", SAY, OBSERVE]);
        assert_eq!(names(&Offer::of(&[], false, false)), [] as [&str; 0]);
    }

    #[test]
    fn a_schema_keeps_its_keys() {
        let parameters = r##"{"$defs":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##;
        let offer = Offer::of(&[&function("f", parameters)], false, false);
        let schema = &offer.tools[0].input_schema;
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"]["x"]["$ref"], "#/$defs/a");
    }
}
