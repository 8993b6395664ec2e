//! Attributes by OpenInference, the conventions of Arize and Phoenix. Lists are keys with numbers.
//!
//! Source: the OpenInference specification; names as in version 0.1.42 of the package `openinference-semantic-conventions`.

use serde_json::{Map, Value as Json, json};

use super::{Attributes, Execution, Inference, SpanContext, figures};
use crate::events::{AgentAction, TraceEvent};
use crate::function::{functions, tool};

pub(super) fn of_episode(context: &SpanContext<'_>, events: &[TraceEvent<'_>]) -> (String, Attributes) {
    let mut attributes = of_kind(context, "AGENT");
    attributes.push(("agent.name".to_owned(), context.about.agent.as_str().into()));
    let heard = events.iter().find_map(|event| match event {
        TraceEvent::Heard(text) => Some(text.clone()),
        _ => None,
    });
    let said = events.iter().rev().find_map(|event| match event {
        TraceEvent::Did(action) => Some(action.said()),
        _ => None,
    });
    value(&mut attributes, "input", heard, "text/plain");
    value(&mut attributes, "output", said, "text/plain");
    let figures: Map<String, Json> = figures(context).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    attributes.push(("metadata".to_owned(), Json::Object(figures).to_string().into()));
    (context.about.agent.clone(), attributes)
}

pub(super) fn of_reply(context: &SpanContext<'_>, inference: &Inference<'_, '_>) -> (String, Attributes) {
    let SpanContext { about, record, seat, .. } = context;
    let Inference { before, action, reply } = inference;
    let mut attributes = of_kind(context, "LLM");
    attributes.push(("llm.model_name".to_owned(), about.model.as_str().into()));
    let mut number = 0;
    if let Some(system) = &about.system {
        said(&mut attributes, "llm.input_messages.0", "system", system);
        number = 1;
    }
    for (number, event) in (number..).zip(*before) {
        message(&mut attributes, &format!("llm.input_messages.{number}"), event);
    }
    assistant(&mut attributes, "llm.output_messages.0", action);
    for (number, function) in functions(record, *seat).iter().enumerate() {
        let schema = tool(function);
        let key = |name: &str| format!("llm.tools.{number}.tool.{name}");
        attributes.extend([
            (key("name"), function.name.as_str().into()),
            (key("description"), function.description.as_str().into()),
            (key("json_schema"), schema.to_string().into()),
        ]);
    }
    if let Some(reply) = reply {
        let (prompt, completion) = (reply.prompt.len(), reply.tokens.len());
        let count = |name: &str| format!("llm.token_count.{name}");
        attributes.extend([
            (count("prompt"), prompt.into()),
            (count("completion"), completion.into()),
            (count("total"), (prompt + completion).into()),
            ("metadata".to_owned(), json!({"weight_version": reply.version}).to_string().into()),
        ]);
    }
    (about.model.clone(), attributes)
}

pub(super) fn of_call(context: &SpanContext<'_>, execution: &Execution<'_>) -> (String, Attributes) {
    let Execution { call, description, answer, .. } = execution;
    let mut attributes = of_kind(context, "TOOL");
    attributes.extend([
        ("tool.name".to_owned(), call.name.as_str().into()),
        ("tool_call.id".to_owned(), call.id.as_str().into()),
    ]);
    attributes.extend(description.map(|text| ("tool.description".to_owned(), text.into())));
    value(&mut attributes, "input", Some(call.arguments.clone()), "application/json");
    value(&mut attributes, "output", answer.map(str::to_owned), "text/plain");
    (call.name.clone(), attributes)
}

fn of_kind(context: &SpanContext<'_>, kind: &str) -> Attributes {
    vec![("openinference.span.kind".to_owned(), kind.into()), ("session.id".to_owned(), context.name.as_str().into())]
}

/// Sets what went in or came out.
fn value(attributes: &mut Attributes, side: &str, text: Option<String>, kind: &str) {
    if let Some(text) = text {
        attributes.push((format!("{side}.value"), text.into()));
        attributes.push((format!("{side}.mime_type"), kind.into()));
    }
}

fn said(attributes: &mut Attributes, prefix: &str, role: &str, text: &str) {
    attributes.push((format!("{prefix}.message.role"), role.into()));
    attributes.push((format!("{prefix}.message.content"), text.into()));
}

fn message(attributes: &mut Attributes, prefix: &str, event: &TraceEvent<'_>) {
    match event {
        TraceEvent::Heard(text) | TraceEvent::Answered { id: None, text, .. } => said(attributes, prefix, "user", text),
        TraceEvent::Answered { id: Some(id), text, .. } => {
            said(attributes, prefix, "tool", text);
            attributes.push((format!("{prefix}.message.tool_call_id"), (*id).into()));
        }
        TraceEvent::Did(action) => assistant(attributes, prefix, action),
    }
}

fn assistant(attributes: &mut Attributes, prefix: &str, action: &AgentAction<'_>) {
    said(attributes, prefix, "assistant", &action.said());
    for (number, call) in action.calls.iter().enumerate() {
        let key = |name: &str| format!("{prefix}.message.tool_calls.{number}.tool_call.{name}");
        attributes.extend([
            (key("id"), call.id.as_str().into()),
            (key("function.name"), call.name.as_str().into()),
            (key("function.arguments"), call.arguments.as_str().into()),
        ]);
    }
}
