//! Anthropic's Messages.

use gymkhana_chat::Role;
use serde_json::{Value as Json, json};

use super::error::ApiError;
use super::fields::{Fields, content_text, unsupported_part};
use super::reply::{Finish, PolicyReply};
use super::request::{InputCall, InputMessage, ReplyRequest};
use super::sse::{SseEvent, pieces};

/// Reads a request. `samples` is false for a request that only counts tokens, which has no limit.
pub(super) fn parse(body: &Json, samples: bool) -> Result<ReplyRequest, ApiError> {
    let body = Fields::of(body, "")?;
    let mut messages = vec![];
    if let Some(system) = body.get("system") {
        messages.push(InputMessage::of_text(Role::System, content_text(system, "system", &["text"])?));
    }
    let given = body.list("messages")?;
    if given.is_empty() {
        return Err(body.error("messages", "must hold a message"));
    }
    for (index, message) in given.iter().enumerate() {
        add_message(&mut messages, message, &format!("messages[{index}]"))?;
    }
    let functions = body.list("tools")?.iter().enumerate().map(|(index, value)| {
        let path = format!("tools[{index}]");
        let tool = Fields::of(value, &path)?;
        match tool.text("type")? {
            None | Some("custom") => tool.function("input_schema"),
            Some(other) => Err(tool.error("type", format!("is `{other}`; only custom tools are supported"))),
        }
    });
    let functions = functions.collect::<Result<Vec<_>, _>>()?;
    let max_tokens = body.count("max_tokens", 1)?;
    if samples && max_tokens.is_none() {
        return Err(body.error("max_tokens", "is missing"));
    }
    Ok(ReplyRequest {
        model: body.required_text("model")?.to_owned(),
        previous: None,
        messages,
        functions,
        reads_calls: reads_calls(&body)?,
        max_tokens,
        stop: body.stop_texts("stop_sequences")?,
        sampling: body.sampling()?,
        stream: body.flag("stream")?,
        stream_usage: true,
        log_probs: false,
        stored: false,
        switches: serde_json::Map::new(),
    })
}

fn reads_calls(body: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(choice) = body.get("tool_choice") else { return Ok(true) };
    match choice["type"].as_str() {
        // The policy decides whether it calls, whatever the program wishes.
        Some("auto" | "any" | "tool") => Ok(true),
        Some("none") => Ok(false),
        _ => Err(body.error("tool_choice", "must be of type `auto`, `any`, `tool` or `none`")),
    }
}

/// Adds a message. Each result of a tool becomes a message of its own.
fn add_message(messages: &mut Vec<InputMessage>, value: &Json, path: &str) -> Result<(), ApiError> {
    let fields = Fields::of(value, path)?;
    let name = fields.required_text("role")?;
    let role = match name {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => return Err(fields.error("role", format!("is `{other}`; known: user, assistant"))),
    };
    let place = fields.path("content");
    let blocks = match fields.require("content")? {
        Json::String(text) => {
            messages.push(InputMessage::of_text(role, text));
            return Ok(());
        }
        Json::Array(blocks) => blocks,
        _ => return Err(ApiError::field(&place, "must be a string or a list of blocks")),
    };
    let mut message = InputMessage::of_text(role, "");
    let mut results = false;
    for (index, block) in blocks.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let block = Fields::of(block, &place)?;
        match (block.required_text("type")?, role) {
            ("text", _) => message.text.push_str(block.required_text("text")?),
            ("tool_use", Role::Assistant) => {
                let arguments = block.get("input").map_or_else(|| "{}".to_owned(), Json::to_string);
                let id = block.text("id")?.map(str::to_owned);
                message.calls.push(InputCall { id, name: block.required_text("name")?.to_owned(), arguments });
            }
            ("tool_result", Role::User) => {
                results = true;
                messages.push(tool_result(&block)?);
            }
            ("thinking", Role::Assistant) => message.reason(block.text("thinking")?.unwrap_or_default()),
            // Reasoning that the program cannot read either.
            ("redacted_thinking", Role::Assistant) => {}
            (kind, _) => return Err(unsupported_part(&place, kind)),
        }
    }
    // A message of results alone has no text of the user.
    if !results || !message.text.is_empty() {
        messages.push(message);
    }
    Ok(())
}

fn tool_result(block: &Fields<'_>) -> Result<InputMessage, ApiError> {
    let text = block.get("content").map(|content| content_text(content, &block.path("content"), &["text"]));
    let call_id = Some(block.required_text("tool_use_id")?.to_owned());
    Ok(InputMessage { call_id, ..InputMessage::of_text(Role::Tool, text.transpose()?.unwrap_or_default()) })
}

fn stop_reason(reply: &PolicyReply) -> (&'static str, Option<&str>) {
    match &reply.finish {
        Finish::Stop => ("end_turn", None),
        Finish::StopText(text) => ("stop_sequence", Some(text)),
        Finish::Length => ("max_tokens", None),
        Finish::Calls => ("tool_use", None),
    }
}

/// A block of a reply: as it begins in a stream, its deltas, and the whole.
struct ReplyBlock {
    begun: Json,
    deltas: Vec<Json>,
    whole: Json,
}

fn blocks(reply: &PolicyReply) -> Vec<ReplyBlock> {
    let mut blocks = vec![];
    if let Some(reasoning) = &reply.reasoning {
        let deltas = pieces(reasoning).into_iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
        blocks.push(ReplyBlock {
            begun: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas: deltas.collect(),
            whole: json!({"type": "thinking", "thinking": reasoning, "signature": ""}),
        });
    }
    if !reply.text.is_empty() || reply.calls.is_empty() {
        let deltas = pieces(&reply.text).into_iter().map(|piece| json!({"type": "text_delta", "text": piece}));
        blocks.push(ReplyBlock {
            begun: json!({"type": "text", "text": ""}),
            deltas: deltas.collect(),
            whole: json!({"type": "text", "text": reply.text}),
        });
    }
    for call in &reply.calls {
        // Arguments of a call are the JSON text of an object.
        let input: Json = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        let deltas = pieces(&call.arguments).into_iter();
        let deltas = deltas.map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        blocks.push(ReplyBlock {
            begun: json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
            deltas: deltas.collect(),
            whole: json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}),
        });
    }
    blocks
}

fn usage(reply: &PolicyReply, sampled: usize) -> Json {
    let usage = reply.usage;
    json!({
        "input_tokens": usage.prompt - usage.cached, "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0, "output_tokens": sampled,
    })
}

fn message(reply: &PolicyReply, content: &[Json], reason: Option<&str>, text: Option<&str>, sampled: usize) -> Json {
    json!({
        "id": format!("msg_{}", reply.id), "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": reason, "stop_sequence": text, "usage": usage(reply, sampled),
    })
}

/// The answer.
pub(super) fn reply(reply: &PolicyReply) -> Json {
    let content: Vec<Json> = blocks(reply).into_iter().map(|block| block.whole).collect();
    let (reason, text) = stop_reason(reply);
    message(reply, &content, Some(reason), text, reply.usage.sampled)
}

/// The answer as a stream.
pub(super) fn stream(reply: &PolicyReply) -> Vec<SseEvent> {
    let begun = message(reply, &[], None, None, 0);
    let mut events = vec![SseEvent::named(&json!({"type": "message_start", "message": begun}))];
    for (index, block) in blocks(reply).into_iter().enumerate() {
        let start = json!({"type": "content_block_start", "index": index, "content_block": block.begun});
        events.push(SseEvent::named(&start));
        for delta in block.deltas {
            events.push(SseEvent::named(&json!({"type": "content_block_delta", "index": index, "delta": delta})));
        }
        events.push(SseEvent::named(&json!({"type": "content_block_stop", "index": index})));
    }
    let (reason, text) = stop_reason(reply);
    let delta = json!({"stop_reason": reason, "stop_sequence": text});
    let usage = usage(reply, reply.usage.sampled);
    events.push(SseEvent::named(&json!({"type": "message_delta", "delta": delta, "usage": usage})));
    events.push(SseEvent::named(&json!({"type": "message_stop"})));
    events
}

/// One model.
pub(super) fn model(name: &str) -> Json {
    json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
}

/// The list of models.
pub(super) fn models(names: &[String]) -> Json {
    let data: Vec<Json> = names.iter().map(|name| model(name)).collect();
    json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()})
}
