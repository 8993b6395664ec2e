//! `say`: the function by which an agent sends text to an environment without functions of its own.

use gymkhana_record::Function;
use serde_json::{Map, Value as Json, json};

use crate::catalog::ServedEnvironment;
use crate::session::TurnRequest;

/// Name of the function.
pub(super) const SAY: &str = "say";

/// Description of the function.
pub(super) const DESCRIPTION: &str = "Sends a message, such as the answer.";

/// The schema of its arguments.
pub(super) fn schema() -> Json {
    json!({
        "type": "object",
        "properties": { "text": { "type": "string", "description": "The message." } },
        "required": ["text"],
    })
}

/// The turn of a call with these arguments, or the mistake in them.
pub(super) fn turn(mut arguments: Map<String, Json>) -> Result<TurnRequest, &'static str> {
    match arguments.remove("text") {
        Some(Json::String(text)) if arguments.is_empty() => Ok(TurnRequest::say(text)),
        _ => Err("`say` takes one argument: `text`, a string"),
    }
}

/// Whether agents need the function: the environment has no functions beside the tools.
pub(super) fn plays_by_text<'a>(served: &ServedEnvironment, functions: impl IntoIterator<Item = &'a Function>) -> bool {
    let tools: Vec<&str> = served.described().tools().functions().map(|tool| tool.name.as_str()).collect();
    !served.is_tools_only() && says(functions, &tools)
}

fn says<'a>(functions: impl IntoIterator<Item = &'a Function>, tools: &[&str]) -> bool {
    let mut names = functions.into_iter().map(|function| function.name.as_str());
    names.all(|name| tools.contains(&name) && name != SAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> Function {
        Function { name: name.to_owned(), description: String::new(), parameters: "{}".to_owned(), cost: 0.0 }
    }

    #[test]
    fn an_environment_with_functions_is_not_played_by_text() {
        let (calculate, fly) = (function("calculate"), function("move"));
        assert!(says([&calculate], &["calculate"]));
        assert!(!says([&fly], &["calculate"]));
        assert!(says([], &[]));
        assert!(!says([&function(SAY)], &[SAY]));
    }

    #[test]
    fn a_message_has_a_text_alone() {
        let arguments = |json: Json| json.as_object().cloned().unwrap();
        assert_eq!(turn(arguments(json!({ "text": "up" }))), Ok(TurnRequest::say("up")));
        for wrong in [json!({}), json!({ "text": 3 }), json!({ "text": "up", "x": 1 })] {
            assert!(turn(arguments(wrong)).is_err());
        }
    }
}
