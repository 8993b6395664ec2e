//! OpenAI's Responses.

use gymkhana_chat::Role;
use serde_json::{Value as Json, json};

use super::chat_completions::{reads_calls, role};
use super::error::ApiError;
use super::fields::{Fields, content_text};
use super::reply::{Finish, PolicyReply};
use super::request::{InputCall, InputMessage, ReplyRequest};
use super::sse::{SseEvent, pieces};

/// Types of parts with text.
const TEXT: [&str; 4] = ["input_text", "output_text", "text", "refusal"];

/// Reads a request.
pub(super) fn parse(body: &Json) -> Result<ReplyRequest, ApiError> {
    let body = Fields::of(body, "")?;
    if body.flag("background")? {
        return Err(body.error("background", "must be false: replies are not fetched later"));
    }
    if let Some(text) = body.get("text")
        && !matches!(text["format"]["type"].as_str(), None | Some("text"))
    {
        return Err(body.error("text.format", "must be `text`: the policy samples without a grammar"));
    }
    let instructions = body.text("instructions")?.map(|text| InputMessage::of_text(Role::System, text));
    let mut messages: Vec<InputMessage> = instructions.into_iter().collect();
    match body.require("input")? {
        Json::String(text) => messages.push(InputMessage::of_text(Role::User, text)),
        Json::Array(items) => {
            let mut reasoning = String::new();
            for (index, item) in items.iter().enumerate() {
                add_item(&mut messages, &mut reasoning, item, &format!("input[{index}]"))?;
            }
        }
        _ => return Err(body.error("input", "must be a string or a list of items")),
    }
    if messages.iter().all(|message| message.role == Role::System) {
        return Err(body.error("input", "must hold a message that is not an instruction"));
    }
    let functions = body.list("tools")?.iter().enumerate().map(|(index, value)| {
        let path = format!("tools[{index}]");
        let tool = Fields::of(value, &path)?;
        match tool.required_text("type")? {
            "function" => tool.function("parameters"),
            other => Err(tool.error("type", format!("is `{other}`; only functions are supported"))),
        }
    });
    Ok(ReplyRequest {
        model: body.required_text("model")?.to_owned(),
        previous: body.text("previous_response_id")?.map(str::to_owned),
        messages,
        functions: functions.collect::<Result<Vec<_>, _>>()?,
        reads_calls: reads_calls(&body)?,
        max_tokens: body.count("max_output_tokens", 1)?,
        stop: vec![],
        sampling: body.sampling()?,
        stream: body.flag("stream")?,
        stream_usage: true,
        log_probs: false,
        stored: true,
        switches: serde_json::Map::new(),
    })
}

/// Adds an item. Adjacent items of the assistant are one message: its text, then its calls. `reasoning` is that of the
/// assistant's next item.
fn add_item(messages: &mut Vec<InputMessage>, reasoning: &mut String, item: &Json, path: &str) -> Result<(), ApiError> {
    let fields = Fields::of(item, path)?;
    match fields.text("type")?.unwrap_or("message") {
        "message" => {
            let name = fields.required_text("role")?;
            let role = role(name).filter(|role| *role != Role::Tool).ok_or_else(|| {
                fields.error("role", format!("is `{name}`; known: system, developer, user, assistant"))
            })?;
            let text = content_text(fields.require("content")?, &fields.path("content"), &TEXT)?;
            match role {
                Role::Assistant => spoken(messages, reasoning).text.push_str(&text),
                _ => messages.push(InputMessage::of_text(role, text)),
            }
        }
        "function_call" => {
            let name = fields.required_text("name")?.to_owned();
            let id = fields.text("call_id")?.map(str::to_owned);
            let call = InputCall { id, name, arguments: fields.required_text("arguments")?.to_owned() };
            spoken(messages, reasoning).calls.push(call);
        }
        "function_call_output" => {
            let text = content_text(fields.require("output")?, &fields.path("output"), &TEXT)?;
            let call_id = Some(fields.required_text("call_id")?.to_owned());
            messages.push(InputMessage { call_id, ..InputMessage::of_text(Role::Tool, text) });
        }
        "reasoning" => {
            let content = fields.get("content").unwrap_or(&Json::Null);
            if !content.is_null() {
                reasoning.push_str(&content_text(content, &fields.path("content"), &["reasoning_text"])?);
            }
        }
        other => return Err(fields.error("type", format!("is `{other}`, which this policy cannot read"))),
    }
    Ok(())
}

/// The message of the assistant to which an item belongs: the last one, or a new one.
fn spoken<'a>(messages: &'a mut Vec<InputMessage>, reasoning: &mut String) -> &'a mut InputMessage {
    if messages.last().is_none_or(|last| last.role != Role::Assistant) {
        messages.push(InputMessage::of_text(Role::Assistant, ""));
    }
    let place = messages.len() - 1;
    messages[place].reason(&std::mem::take(reasoning));
    &mut messages[place]
}

/// The items of the output.
fn output(reply: &PolicyReply) -> Vec<Json> {
    let mut items = vec![];
    if let Some(reasoning) = &reply.reasoning {
        items.push(json!({
            "id": format!("rs_{}", reply.id), "type": "reasoning", "summary": [],
            "content": [{"type": "reasoning_text", "text": reasoning}],
        }));
    }
    if !reply.text.is_empty() || reply.calls.is_empty() {
        items.push(message_item(reply, "completed", &[text_part(&reply.text)]));
    }
    items.extend(reply.calls.iter().map(|call| call_item(call, "completed", &call.arguments)));
    items
}

fn text_part(text: &str) -> Json {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn message_item(reply: &PolicyReply, status: &str, content: &[Json]) -> Json {
    json!({
        "id": format!("msg_{}", reply.id), "type": "message", "role": "assistant", "status": status, "content": content,
    })
}

fn call_item(call: &super::ReplyCall, status: &str, arguments: &str) -> Json {
    json!({
        "id": format!("fc_{}", call.id), "type": "function_call", "status": status, "call_id": call.id,
        "name": call.name, "arguments": arguments,
    })
}

/// The answer with these items.
fn response(reply: &PolicyReply, status: &str, items: &[Json], complete: bool) -> Json {
    let usage = reply.usage;
    let usage = json!({
        "input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.sampled, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.sampled,
    });
    let incomplete = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
    json!({
        "id": format!("resp_{}", reply.id), "object": "response", "created_at": reply.created, "status": status,
        "error": null, "incomplete_details": incomplete, "instructions": null, "metadata": {}, "model": reply.model,
        "output": items, "parallel_tool_calls": true, "temperature": null, "tool_choice": "auto", "tools": [],
        "top_p": null, "usage": if complete { usage } else { Json::Null },
    })
}

fn status(reply: &PolicyReply) -> &'static str {
    if reply.finish == Finish::Length { "incomplete" } else { "completed" }
}

/// The answer.
pub(super) fn reply(reply: &PolicyReply) -> Json {
    response(reply, status(reply), &output(reply), true)
}

/// Events with their numbers.
#[derive(Default)]
struct NumberedEvents(Vec<SseEvent>);

impl NumberedEvents {
    fn push(&mut self, kind: &str, mut data: Json) {
        data["type"] = kind.into();
        data["sequence_number"] = self.0.len().into();
        self.0.push(SseEvent::named(&data));
    }
}

/// The answer as a stream.
pub(super) fn stream(reply: &PolicyReply) -> Vec<SseEvent> {
    let mut events = NumberedEvents::default();
    let begun = response(reply, "in_progress", &[], false);
    events.push("response.created", json!({"response": begun}));
    events.push("response.in_progress", json!({"response": begun}));
    for (index, item) in output(reply).into_iter().enumerate() {
        match item["type"].as_str() {
            Some("message") => stream_message(&mut events, reply, index, &item),
            Some("function_call") => stream_call(&mut events, index, &item),
            _ => {
                events.push("response.output_item.added", json!({"output_index": index, "item": item}));
                events.push("response.output_item.done", json!({"output_index": index, "item": item}));
            }
        }
    }
    let kind = if status(reply) == "incomplete" { "response.incomplete" } else { "response.completed" };
    events.push(kind, json!({"response": response(reply, status(reply), &output(reply), true)}));
    events.0
}

fn stream_message(events: &mut NumberedEvents, reply: &PolicyReply, index: usize, item: &Json) {
    let at = || json!({"item_id": item["id"], "output_index": index, "content_index": 0});
    let with = |key: &str, value: Json| {
        let mut data = at();
        data[key] = value;
        data
    };
    let begun = message_item(reply, "in_progress", &[]);
    events.push("response.output_item.added", json!({"output_index": index, "item": begun}));
    events.push("response.content_part.added", with("part", text_part("")));
    for piece in pieces(&reply.text) {
        let mut delta = with("delta", piece.into());
        delta["logprobs"] = json!([]);
        events.push("response.output_text.delta", delta);
    }
    let mut done = with("text", reply.text.clone().into());
    done["logprobs"] = json!([]);
    events.push("response.output_text.done", done);
    events.push("response.content_part.done", with("part", text_part(&reply.text)));
    events.push("response.output_item.done", json!({"output_index": index, "item": item}));
}

fn stream_call(events: &mut NumberedEvents, index: usize, item: &Json) {
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    begun["arguments"] = "".into();
    events.push("response.output_item.added", json!({"output_index": index, "item": begun}));
    let arguments = item["arguments"].as_str().unwrap_or_default();
    for piece in pieces(arguments) {
        let delta = json!({"item_id": item["id"], "output_index": index, "delta": piece});
        events.push("response.function_call_arguments.delta", delta);
    }
    let done = json!({"item_id": item["id"], "output_index": index, "name": item["name"], "arguments": arguments});
    events.push("response.function_call_arguments.done", done);
    events.push("response.output_item.done", json!({"output_index": index, "item": item}));
}
