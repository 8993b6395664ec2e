//! Attributes by OpenTelemetry's semantic conventions for generative AI.
//!
//! Source: "Semantic conventions for generative AI systems" and its schemas of messages; names as in version 0.66b2 of the
//! package `opentelemetry-semantic-conventions`.

use serde_json::{Value as Json, json};

use super::{Attributes, Execution, Inference, SpanContext, figures};
use crate::events::{AgentAction, TraceEvent};
use crate::function::{arguments, definition, functions};

/// Name of the system that answers for the model: this program, as the conventions list none for it.
const PROVIDER: &str = "gymkhana";

pub(super) fn of_episode(context: &SpanContext<'_>) -> (String, Attributes) {
    let SpanContext { about, name, .. } = context;
    let mut attributes = vec![
        ("gen_ai.operation.name".to_owned(), "invoke_agent".into()),
        ("gen_ai.provider.name".to_owned(), PROVIDER.into()),
        ("gen_ai.agent.name".to_owned(), about.agent.as_str().into()),
        ("gen_ai.conversation.id".to_owned(), name.as_str().into()),
        ("gen_ai.request.model".to_owned(), about.model.as_str().into()),
    ];
    attributes.extend(figures(context).into_iter().map(|(key, value)| (format!("gymkhana.{key}"), value)));
    (format!("invoke_agent {}", about.agent), attributes)
}

pub(super) fn of_reply(context: &SpanContext<'_>, inference: &Inference<'_, '_>) -> (String, Attributes) {
    let SpanContext { about, name, record, seat } = context;
    let Inference { before, action, reply } = inference;
    let reason = if action.calls.is_empty() { "stop" } else { "tool_call" };
    let mut output = assistant(action);
    output["finish_reason"] = reason.into();
    let mut attributes = vec![
        ("gen_ai.operation.name".to_owned(), "chat".into()),
        ("gen_ai.provider.name".to_owned(), PROVIDER.into()),
        ("gen_ai.conversation.id".to_owned(), name.as_str().into()),
        ("gen_ai.request.model".to_owned(), about.model.as_str().into()),
        ("gen_ai.response.finish_reasons".to_owned(), json!([reason])),
        ("gen_ai.input.messages".to_owned(), text(&before.iter().map(message).collect())),
        ("gen_ai.output.messages".to_owned(), text(&json!([output]))),
    ];
    if let Some(system) = &about.system {
        let instructions = text(&json!([{"type": "text", "content": system}]));
        attributes.push(("gen_ai.system_instructions".to_owned(), instructions));
    }
    let offered: Vec<Json> = functions(record, *seat).iter().map(tool).collect();
    if !offered.is_empty() {
        attributes.push(("gen_ai.tool.definitions".to_owned(), text(&offered.into())));
    }
    if let Some(reply) = reply {
        attributes.extend([
            ("gen_ai.usage.input_tokens".to_owned(), reply.prompt.len().into()),
            ("gen_ai.usage.output_tokens".to_owned(), reply.tokens.len().into()),
            ("gymkhana.weight_version".to_owned(), reply.version.into()),
        ]);
    }
    (format!("chat {}", about.model), attributes)
}

pub(super) fn of_call(context: &SpanContext<'_>, execution: &Execution<'_>) -> (String, Attributes) {
    let Execution { call, description, answer, failed } = execution;
    let mut attributes = vec![
        ("gen_ai.operation.name".to_owned(), "execute_tool".into()),
        ("gen_ai.conversation.id".to_owned(), context.name.as_str().into()),
        ("gen_ai.tool.name".to_owned(), call.name.as_str().into()),
        ("gen_ai.tool.type".to_owned(), "function".into()),
        ("gen_ai.tool.call.id".to_owned(), call.id.as_str().into()),
        ("gen_ai.tool.call.arguments".to_owned(), call.arguments.as_str().into()),
    ];
    attributes.extend(description.map(|text| ("gen_ai.tool.description".to_owned(), text.into())));
    attributes.extend(answer.map(|answer| ("gen_ai.tool.call.result".to_owned(), answer.into())));
    if *failed {
        attributes.push(("error.type".to_owned(), "tool_error".into()));
    }
    (format!("execute_tool {}", call.name), attributes)
}

/// An attribute of structure as a text of JSON, which every receiver stores.
fn text(structure: &Json) -> Json {
    structure.to_string().into()
}

fn message(event: &TraceEvent<'_>) -> Json {
    match event {
        TraceEvent::Heard(content) | TraceEvent::Answered { id: None, text: content, .. } => {
            json!({"role": "user", "parts": [{"type": "text", "content": content}]})
        }
        TraceEvent::Answered { id: Some(id), text, .. } => {
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": text}]})
        }
        TraceEvent::Did(action) => assistant(action),
    }
}

fn assistant(action: &AgentAction<'_>) -> Json {
    let said = action.said();
    let thought = action.thoughts.map(|thoughts| json!({"type": "reasoning", "content": thoughts}));
    let spoken = (!said.is_empty()).then(|| json!({"type": "text", "content": said}));
    let calls = action
        .calls
        .iter()
        .map(|call| json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments(call)}));
    json!({"role": "assistant", "parts": thought.into_iter().chain(spoken).chain(calls).collect::<Vec<_>>()})
}

fn tool(function: &gymkhana_record::Function) -> Json {
    let mut tool = definition(function);
    tool["type"] = "function".into();
    tool
}
