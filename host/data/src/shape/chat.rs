//! Conversations of other projects as messages of a row.

use serde_json::{Map, Value as Json, json};

/// JSON in a text, or the value itself.
pub(super) fn parsed(value: &Json) -> Json {
    match value {
        Json::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    }
}

/// Whether a message is the assistant's.
pub(super) fn is_reply(message: &Json) -> bool {
    message.get("role").and_then(Json::as_str) == Some("assistant")
}

/// Sets `messages`, without the assistant's last message, which becomes `answer` and, if it calls functions, `calls`.
pub(super) fn split_reply(messages: Json, columns: &mut Map<String, Json>) -> Result<(), String> {
    let Json::Array(mut messages) = messages else { return Err("`messages` is not a list".to_owned()) };
    // A new question follows in `prompt`.
    if !columns.contains_key("prompt")
        && let Some(reply) = messages.pop_if(|last| is_reply(last))
    {
        let calls = calls_of(&reply)?;
        if !calls.is_empty() {
            columns.entry("calls").or_insert(calls.into());
        }
        if let Some(text) = text_of(&reply) {
            columns.entry("answer").or_insert(text.into());
        }
    }
    let messages: Vec<Json> = messages.iter().map(plain).collect::<Result<_, _>>()?;
    columns.insert("messages".to_owned(), messages.into());
    Ok(())
}

/// A message of a row: calls and answers of tools are text, since they are the past of this task.
fn plain(message: &Json) -> Result<Json, String> {
    let role = message.get("role").and_then(Json::as_str).unwrap_or_default();
    let text = text_of(message);
    Ok(match role {
        "assistant" => {
            let calls = calls_of(message)?;
            let lines = text.into_iter().chain(calls.iter().map(|call| format!("<tool_call>{call}</tool_call>")));
            json!({ "role": role, "content": lines.collect::<Vec<_>>().join("\n") })
        }
        "tool" | "function" => {
            json!({ "role": "user", "content": format!("<tool_response>{}</tool_response>", text.unwrap_or_default()) })
        }
        "developer" => json!({ "role": "system", "content": text }),
        _ => json!({ "role": role, "content": text }),
    })
}

/// Text of a message; parts of other kinds than text are refused later, as an empty text.
fn text_of(message: &Json) -> Option<String> {
    match message.get("content")? {
        Json::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Json::Array(parts) => {
            let texts: Option<Vec<&str>> = parts.iter().map(|part| part.get("text")?.as_str()).collect();
            texts.map(|texts| texts.concat())
        }
        _ => None,
    }
}

/// Calls of a message, as `tool-match` expects them.
fn calls_of(message: &Json) -> Result<Vec<Json>, String> {
    let calls = match message.get("tool_calls").map(parsed) {
        Some(Json::Array(calls)) => calls,
        None | Some(Json::Null) => return Ok(vec![]),
        Some(_) => return Err("`tool_calls` is not a list".to_owned()),
    };
    let call = |call: &Json| {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").and_then(Json::as_str).ok_or("a call has no `name`")?;
        let arguments = function.get("arguments").map_or_else(|| json!({}), parsed);
        Ok(json!({ "name": name, "arguments": arguments }))
    };
    calls.iter().map(call).collect()
}

/// Messages of OpenAI's form of a conversation of ShareGPT, whose turns may also have OpenAI's form.
pub(super) fn of_share_gpt(turns: &[Json]) -> Result<Vec<Json>, String> {
    let mut messages = Vec::new();
    for (turn, number) in turns.iter().zip(1..) {
        add_turn(turn, &mut messages).map_err(|why| format!("turn {number}: {why}"))?;
    }
    Ok(messages)
}

/// Adds a turn. Calls belong to the text before them, and a reply is one message.
fn add_turn(turn: &Json, messages: &mut Vec<Json>) -> Result<(), String> {
    let Some(from) = turn.get("from").and_then(Json::as_str) else {
        let is_message = turn.get("role").is_some();
        messages.push(is_message.then(|| turn.clone()).ok_or("there is no `from`")?);
        return Ok(());
    };
    let value = turn.get("value").filter(|value| !value.is_null()).ok_or("there is no `value`")?;
    let role = match from {
        "human" | "user" => "user",
        "gpt" | "assistant" | "chatgpt" | "model" | "bot" => "assistant",
        "system" => "system",
        "tool" | "observation" | "function_response" | "function-response" | "tool_response" => "tool",
        "function_call" | "function-call" | "tool_call" => {
            add_calls(value, messages)?;
            return Ok(());
        }
        _ => {
            return Err(format!(
                "`from` is `{from}`, which is none of system, human, user, gpt, assistant, chatgpt, model, bot, \
                 function_call, tool_call, tool, observation, function_response and tool_response"
            ));
        }
    };
    messages.push(json!({ "role": role, "content": value }));
    Ok(())
}

/// Adds calls, a list or a single one, which may be JSON in a text.
fn add_calls(value: &Json, messages: &mut Vec<Json>) -> Result<(), String> {
    let written = match value {
        Json::String(text) => serde_json::from_str(text).map_err(|error| format!("the calls are not JSON: {error}"))?,
        other => other.clone(),
    };
    let calls = if written.is_array() { written } else { json!([written]) };
    match messages.last_mut() {
        Some(Json::Object(last)) if last["role"] == "assistant" && !last.contains_key("tool_calls") => {
            last.insert("tool_calls".to_owned(), calls);
        }
        _ => messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls })),
    }
    Ok(())
}
