//! OpenAI's chat completions.

use gymkhana_chat::Role;
use serde_json::{Value as Json, json};

use super::error::ApiError;
use super::fields::{Fields, content_text};
use super::reply::{Finish, PolicyReply, TokenLogProb};
use super::request::{InputCall, InputMessage, ReplyRequest};
use super::sse::{SseEvent, pieces};

/// Types of parts with text.
const TEXT: [&str; 2] = ["text", "refusal"];

/// Reads a request.
pub(super) fn parse(body: &Json) -> Result<ReplyRequest, ApiError> {
    let body = Fields::of(body, "")?;
    refuse_unsupported(&body)?;
    let messages = body.list("messages")?;
    if messages.is_empty() {
        return Err(body.error("messages", "must hold a message"));
    }
    let messages = messages.iter().enumerate().map(|(index, value)| message(value, &format!("messages[{index}]")));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let functions = body.list("tools")?.iter().enumerate().map(|(index, value)| {
        let path = format!("tools[{index}]");
        let tool = Fields::of(value, &path)?;
        match tool.required_text("type")? {
            "function" => Fields::of(tool.require("function")?, &tool.path("function"))?.function("parameters"),
            other => Err(tool.error("type", format!("is `{other}`; only functions are supported"))),
        }
    });
    let functions = functions.collect::<Result<Vec<_>, _>>()?;
    let limit = body.count("max_completion_tokens", 1)?;
    let options = body.get("stream_options").map(|value| Fields::of(value, "stream_options")).transpose()?;
    Ok(ReplyRequest {
        model: body.required_text("model")?.to_owned(),
        previous: None,
        messages,
        functions,
        reads_calls: reads_calls(&body)?,
        max_tokens: limit.or(body.count("max_tokens", 1)?),
        stop: body.stop_texts("stop")?,
        sampling: body.sampling()?,
        stream: body.flag("stream")?,
        stream_usage: options.map_or(Ok(false), |options| options.flag("include_usage"))?,
        log_probs: body.flag("logprobs")?,
        stored: false,
        switches: switches(&body)?,
    })
}

/// Variables for the chat template, in the field of vLLM and SGLang.
fn switches(body: &Fields<'_>) -> Result<serde_json::Map<String, Json>, ApiError> {
    match body.get("chat_template_kwargs") {
        None => Ok(serde_json::Map::new()),
        Some(Json::Object(switches)) => Ok(switches.clone()),
        Some(_) => Err(body.error("chat_template_kwargs", "must be an object")),
    }
}

/// Refuses what would change the reply and that the policy cannot do.
fn refuse_unsupported(body: &Fields<'_>) -> Result<(), ApiError> {
    if body.count("n", 1)?.is_some_and(|number| number > 1) {
        return Err(body.error("n", "must be 1: a request has one reply\nhint: send several requests"));
    }
    if let Some(format) = body.get("response_format")
        && format["type"] != "text"
    {
        return Err(body.error("response_format", "must be `text`: the policy samples without a grammar"));
    }
    for legacy in ["functions", "function_call"] {
        if body.get(legacy).is_some() {
            return Err(body.error(legacy, "is not supported\nhint: use `tools`"));
        }
    }
    Ok(())
}

/// Whether calls are read, by `tool_choice`. OpenAI's protocols share the field. A choice that asks for a call
/// is taken as `auto`: nothing constrains the policy, and a program must handle a reply without a call anyway.
pub(super) fn reads_calls(body: &Fields<'_>) -> Result<bool, ApiError> {
    match body.get("tool_choice") {
        None => Ok(true),
        Some(Json::String(choice)) if choice == "auto" || choice == "required" => Ok(true),
        Some(Json::Object(_)) => Ok(true),
        Some(Json::String(choice)) if choice == "none" => Ok(false),
        Some(_) => Err(body.error("tool_choice", "must be `auto`, `required`, `none` or an object")),
    }
}

/// The role of a name that OpenAI's protocols use.
pub(super) fn role(name: &str) -> Option<Role> {
    match name {
        "system" | "developer" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "tool" => Some(Role::Tool),
        _ => None,
    }
}

fn message(value: &Json, path: &str) -> Result<InputMessage, ApiError> {
    let fields = Fields::of(value, path)?;
    let name = fields.required_text("role")?;
    let role = role(name)
        .ok_or_else(|| fields.error("role", format!("is `{name}`; known: system, developer, user, assistant, tool")))?;
    let text = fields.get("content").map(|content| content_text(content, &fields.path("content"), &TEXT));
    let text = match (text, role) {
        (Some(text), _) => text?,
        // A message of calls has no content.
        (None, Role::Assistant) => String::new(),
        (None, _) => return Err(fields.error("content", "is missing")),
    };
    let calls = if role == Role::Assistant { calls(&fields)? } else { vec![] };
    let call_id = if role == Role::Tool { Some(fields.required_text("tool_call_id")?.to_owned()) } else { None };
    let mut message = InputMessage { calls, call_id, ..InputMessage::of_text(role, text) };
    if role == Role::Assistant {
        // The names of the field at inference servers.
        let reasoning = fields.text("reasoning_content")?.or(fields.text("reasoning")?);
        message.reason(reasoning.unwrap_or_default());
    }
    Ok(message)
}

fn calls(fields: &Fields<'_>) -> Result<Vec<InputCall>, ApiError> {
    let list = fields.path("tool_calls");
    let calls = fields.list("tool_calls")?.iter().enumerate().map(|(index, value)| {
        let path = format!("{list}[{index}]");
        let call = Fields::of(value, &path)?;
        let function = call.path("function");
        let function = Fields::of(call.require("function")?, &function)?;
        let (name, arguments) = (function.required_text("name")?, function.text("arguments")?.unwrap_or("{}"));
        let id = call.text("id")?.map(str::to_owned);
        Ok(InputCall { id, name: name.to_owned(), arguments: arguments.to_owned() })
    });
    calls.collect()
}

fn finish_reason(reply: &PolicyReply) -> &'static str {
    match reply.finish {
        Finish::Stop | Finish::StopText(_) => "stop",
        Finish::Length => "length",
        Finish::Calls => "tool_calls",
    }
}

fn usage(reply: &PolicyReply) -> Json {
    let usage = reply.usage;
    json!({
        "prompt_tokens": usage.prompt, "completion_tokens": usage.sampled, "total_tokens": usage.prompt + usage.sampled,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn log_probs(tokens: &[TokenLogProb]) -> Json {
    let content = tokens.iter().map(|token| {
        json!({
            "token": token.text, "bytes": token.text.as_bytes(), "logprob": token.log_prob, "top_logprobs": [],
        })
    });
    json!({"content": content.collect::<Vec<_>>(), "refusal": null})
}

fn call(call: &super::ReplyCall) -> Json {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// The answer.
pub(super) fn reply(reply: &PolicyReply) -> Json {
    // A message of calls alone has no content, as OpenAI's have.
    let content = if reply.text.is_empty() && !reply.calls.is_empty() { Json::Null } else { reply.text.clone().into() };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if let Some(reasoning) = &reply.reasoning {
        message["reasoning_content"] = reasoning.clone().into();
    }
    if !reply.calls.is_empty() {
        message["tool_calls"] = reply.calls.iter().map(call).collect();
    }
    json!({
        "id": format!("chatcmpl-{}", reply.id), "object": "chat.completion", "created": reply.created,
        "model": reply.model,
        "choices": [{
            "index": 0, "message": message, "finish_reason": finish_reason(reply),
            "logprobs": reply.log_probs.as_deref().map(log_probs),
        }],
        "usage": usage(reply),
    })
}

/// The answer as a stream.
pub(super) fn stream(reply: &PolicyReply) -> Vec<SseEvent> {
    let chunk = |choices: Json, usage: Json| {
        SseEvent::unnamed(&json!({
            "id": format!("chatcmpl-{}", reply.id), "object": "chat.completion.chunk", "created": reply.created,
            "model": reply.model, "choices": choices, "usage": usage,
        }))
    };
    let delta = |delta: Json, finish: Option<&str>, log_probs: Json| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish, "logprobs": log_probs});
        chunk(json!([choice]), Json::Null)
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), None, Json::Null)];
    for piece in pieces(reply.reasoning.as_deref().unwrap_or_default()) {
        events.push(delta(json!({"reasoning_content": piece}), None, Json::Null));
    }
    for piece in pieces(&reply.text) {
        events.push(delta(json!({"content": piece}), None, Json::Null));
    }
    for (index, one) in reply.calls.iter().enumerate() {
        let mut begun = call(one);
        begun["index"] = index.into();
        begun["function"]["arguments"] = "".into();
        events.push(delta(json!({"tool_calls": [begun]}), None, Json::Null));
        for piece in pieces(&one.arguments) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            events.push(delta(json!({"tool_calls": [more]}), None, Json::Null));
        }
    }
    let log_probs = reply.log_probs.as_deref().map_or(Json::Null, log_probs);
    events.push(delta(json!({}), Some(finish_reason(reply)), log_probs));
    if reply.stream_usage {
        events.push(chunk(json!([]), usage(reply)));
    }
    events.push(SseEvent::done());
    events
}

/// One model.
pub(super) fn model(name: &str) -> Json {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "gymkhana"})
}

/// The list of models.
pub(super) fn models(names: &[String]) -> Json {
    json!({"object": "list", "data": names.iter().map(|name| model(name)).collect::<Vec<_>>()})
}
