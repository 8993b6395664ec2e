//! What the protocol asks about a server: schemas, metadata and the list of its paths.

use gymkhana_record::Function;
use serde_json::{Map, Value as Json, json};

use crate::catalog::ServedEnvironment;
use crate::endpoints::json::schema;
use crate::error::ServeError;

/// Version of the HTTP API, which its clients read.
const API_VERSION: &str = "1.0.0";

/// The schemas of actions, observations and states.
///
/// # Errors
/// If the environment fails.
pub(super) async fn schemas(served: &ServedEnvironment) -> Result<Json, ServeError> {
    let functions = served.described().first_functions().await?;
    Ok(json!({
        "action": action(functions),
        "observation": step_observation(),
        "reset_observation": reset_observation(),
        "state": state(),
    }))
}

/// The schema of actions. Text is the one required field, so that clients can send a model's reply as it is.
fn action(functions: &[Function]) -> Json {
    let calls = functions.iter().map(|function| {
        json!({
            "type": "object",
            "description": function.description,
            "properties": { "name": { "const": function.name }, "arguments": schema(function) },
            "required": ["name", "arguments"],
        })
    });
    let calls = calls.collect::<Vec<_>>();
    let items = if calls.is_empty() { json!({ "type": "object" }) } else { json!({ "anyOf": calls }) };
    json!({
        "title": "PluginAction",
        "description": "A turn: text, calls of functions, or both.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "text": { "type": "string", "description": "Message; empty if the turn is only calls." },
            "calls": { "type": "array", "items": items, "description": "Calls of functions, in their order." },
            "seat": { "type": "integer", "minimum": 0, "description": "Seat that is meant; the one to move if absent." },
            "turn": {
                "type": "integer", "minimum": 0,
                "description": "Number of the turn in its episode. A turn that is repeated with its number is answered \
                                again and not taken twice.",
            },
            "metadata": { "type": "object" },
        },
        "required": ["text"],
    })
}

fn text() -> Json {
    json!({ "type": "string", "description": "What the seat to move sees." })
}

fn media() -> Json {
    let entry = json!({
        "type": "object",
        "properties": { "mime": { "type": "string" }, "data": { "type": "string", "contentEncoding": "base64" } },
        "required": ["mime", "data"],
    });
    json!({ "type": "array", "items": entry })
}

/// The schema of observations of steps: of a turn, of a call of the protocol's form, or a list of functions.
fn step_observation() -> Json {
    let answer = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "text": { "type": "string" },
            "failed": { "type": ["string", "null"], "description": "The party at fault, if the call failed." },
        },
        "required": ["name", "text", "failed"],
    });
    json!({
        "title": "PluginObservation",
        "type": "object",
        "properties": {
            "text": text(),
            "media": media(),
            "answers": { "type": "array", "items": answer },
            "seat": { "type": "integer", "minimum": 0 },
            "tool_name": { "type": "string" },
            "result": {},
            "error": { "type": ["object", "null"] },
            "tools": { "type": "array", "items": { "type": "object" } },
            "reward": { "type": ["number", "null"] },
            "done": { "type": "boolean" },
            "metadata": { "type": "object" },
        },
    })
}

fn reset_observation() -> Json {
    json!({
        "title": "PluginResetObservation",
        "type": "object",
        "properties": {
            "text": text(),
            "media": media(),
            "functions": { "type": "array", "items": { "type": "object" } },
            "seat": { "type": "integer", "minimum": 0 },
            "reward": { "type": ["number", "null"] },
            "done": { "type": "boolean" },
            "metadata": { "type": "object" },
        },
        "required": ["text", "media", "functions", "seat"],
    })
}

fn state() -> Json {
    json!({
        "title": "PluginState",
        "type": "object",
        "additionalProperties": true,
        "properties": {
            "episode_id": { "type": ["string", "null"] },
            "step_count": { "type": "integer", "minimum": 0 },
            "environment": { "type": "string" },
            "record": { "type": "string", "description": "Id of the episode's record." },
            "task": { "type": "object" },
            "seed": { "type": "integer", "minimum": 0 },
            "seat": { "type": "integer", "minimum": 0 },
            "rewards": { "type": "array", "items": { "type": "number" } },
            "ending": { "type": ["string", "null"] },
        },
        "required": ["episode_id", "step_count"],
    })
}

/// Name, version and description.
pub(super) fn metadata(served: &ServedEnvironment) -> Json {
    let facts = served.facts();
    let summary = &served.described().info().summary;
    json!({
        "name": served.name(),
        "description": if facts.description.is_empty() { summary } else { &facts.description },
        "readme_content": null,
        "version": facts.version,
        "author": facts.name.split_once('/').map(|(namespace, _)| namespace),
        "documentation_url": null,
        "plugin": facts.name,
        "digest": facts.digest,
        "seats": served.described().info().seats,
    })
}

/// The document at `/openapi.json`, from whose paths clients tell the mode of a server.
pub(super) fn openapi() -> Json {
    let gets = ["/health", "/metadata", "/schema", "/state", "/list_environments", "/{env_name}/splits"];
    let posts = [
        "/reset",
        "/step",
        "/mcp",
        "/{env_name}/tasks",
        "/{env_name}/num_tasks",
        "/{env_name}/task",
        "/{env_name}/task_range",
    ];
    let answers = json!({ "200": { "description": "JSON" }, "422": { "description": "Invalid request" } });
    let operation = |path: &str| json!({ "operationId": path.trim_start_matches('/'), "responses": answers });
    let gets = gets.iter().map(|path| ((*path).to_owned(), json!({ "get": operation(path) })));
    let posts = posts.iter().map(|path| ((*path).to_owned(), json!({ "post": operation(path) })));
    json!({
        "openapi": "3.1.0",
        "info": { "title": "OpenEnv Environment HTTP API", "version": API_VERSION },
        "paths": gets.chain(posts).collect::<Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_only_required_field_of_an_action() {
        let function = Function {
            name: "move".to_owned(),
            description: "Moves.".to_owned(),
            parameters: r#"{"type":"object"}"#.to_owned(),
            cost: 0.0,
        };
        let schema = action(&[function]);
        assert_eq!(schema["required"], json!(["text"]));
        assert_eq!(schema["properties"]["calls"]["items"]["anyOf"][0]["properties"]["name"]["const"], "move");
    }

    #[test]
    fn the_paths_are_those_of_a_simulation() {
        let document = openapi();
        assert!(["/reset", "/step", "/state"].iter().all(|path| document["paths"].get(path).is_some()));
        assert_eq!(document["info"]["version"], "1.0.0");
    }
}
