//! Conversations of a seat as chat messages: lines of OpenAI's fine-tuning format, and of ShareGPT.
//!
//! Summaries that a policy wrote for itself are left out: the line is the transcript, not the contexts made from it.

use gymkhana_record::{Call, EpisodeRecord, Value};
use serde_json::{Map, Value as Json, json};

use crate::events::{TraceEvent, events};
use crate::function::{arguments, definition, functions, tool};
use crate::{About, trace_id};

/// A line of OpenAI's format: `messages` and `tools`, with the figures of the episode; none for a seat that did nothing.
pub(crate) fn openai(record: &EpisodeRecord, seat: u32, about: &About) -> serde_json::Result<Option<String>> {
    let Some(messages) = messages(record, seat, about) else { return Ok(None) };
    let mut line = figures(record, seat);
    line.insert("messages".to_owned(), messages.iter().map(ConversationMessage::openai).collect());
    let tools = tools(record, seat);
    if !tools.is_empty() {
        line.insert("tools".to_owned(), tools.into());
    }
    serde_json::to_string(&line).map(Some)
}

/// A line of ShareGPT's format: `conversations` of `from` and `value`, and `tools` as text; none for a seat that did
/// nothing. The text of a reply with calls is a turn of its own before them. Thoughts stand before the text, in the
/// marks `<think>` and `</think>`.
pub(crate) fn share_gpt(record: &EpisodeRecord, seat: u32, about: &About) -> serde_json::Result<Option<String>> {
    let Some(messages) = messages(record, seat, about) else { return Ok(None) };
    let mut line = figures(record, seat);
    line.insert("conversations".to_owned(), messages.iter().flat_map(ConversationMessage::share_gpt).collect());
    let functions = functions(record, seat).iter();
    let tools: Vec<Json> = functions.map(definition).collect();
    if !tools.is_empty() {
        line.insert("tools".to_owned(), serde_json::to_string(&tools)?.into());
    }
    serde_json::to_string(&line).map(Some)
}

/// A message of a conversation.
enum ConversationMessage<'r> {
    System(&'r str),
    User(String),
    Assistant { thoughts: Option<&'r str>, text: String, calls: Vec<&'r Call> },
    Tool { id: &'r str, text: String },
}

impl ConversationMessage<'_> {
    fn openai(&self) -> Json {
        match self {
            Self::System(text) => json!({"role": "system", "content": text}),
            Self::User(text) => json!({"role": "user", "content": text}),
            Self::Tool { id, text } => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Self::Assistant { thoughts, text, calls } => {
                let call = |call: &&Call| {
                    json!({"id": call.id, "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments}})
                };
                let content = if text.is_empty() && !calls.is_empty() { Json::Null } else { text.as_str().into() };
                let mut message = json!({"role": "assistant", "content": content});
                if let Some(thoughts) = thoughts {
                    message["reasoning_content"] = (*thoughts).into();
                }
                if !calls.is_empty() {
                    message["tool_calls"] = calls.iter().map(call).collect();
                }
                message
            }
        }
    }

    fn share_gpt(&self) -> Vec<Json> {
        let turn = |from: &str, value: &str| json!({"from": from, "value": value});
        match self {
            Self::System(text) => vec![turn("system", text)],
            Self::User(text) => vec![turn("human", text)],
            Self::Tool { text, .. } => vec![turn("observation", text)],
            Self::Assistant { thoughts, text, calls } => {
                let thoughts =
                    thoughts.map(|thoughts| format!("<think>\n{thoughts}\n</think>\n\n")).unwrap_or_default();
                let text = thoughts + text;
                let call = |call: &&Call| json!({"name": call.name, "arguments": arguments(call)});
                let spoken = (!text.is_empty() || calls.is_empty()).then(|| turn("gpt", &text));
                let made = match &calls[..] {
                    [] => None,
                    [only] => Some(call(only)),
                    several => Some(several.iter().map(call).collect()),
                };
                let made = made.map(|calls: Json| turn("function_call", &calls.to_string()));
                spoken.into_iter().chain(made).collect()
            }
        }
    }
}

/// The conversation of a seat; none if it has no message of the seat itself.
fn messages<'r>(record: &'r EpisodeRecord, seat: u32, about: &'r About) -> Option<Vec<ConversationMessage<'r>>> {
    let mut messages: Vec<ConversationMessage<'r>> =
        about.system.as_deref().map(ConversationMessage::System).into_iter().collect();
    for event in events(record, seat) {
        match event {
            TraceEvent::Heard(text) => messages.push(ConversationMessage::User(text)),
            TraceEvent::Answered { id: Some(id), text, .. } => messages.push(ConversationMessage::Tool { id, text }),
            // A tool's message without a call is refused by trainers and servers.
            TraceEvent::Answered { id: None, text, .. } => messages.push(ConversationMessage::User(text)),
            TraceEvent::Did(action) if action.is_note => {}
            TraceEvent::Did(action) => {
                let (thoughts, text) = (action.thoughts, action.said());
                messages.push(ConversationMessage::Assistant { thoughts, text, calls: action.calls });
            }
        }
    }
    messages.iter().any(|message| matches!(message, ConversationMessage::Assistant { .. })).then_some(messages)
}

/// The conversation as a text for people: a paragraph of each message, with the role before it.
pub(crate) fn for_people(record: &EpisodeRecord, seat: u32, about: &About) -> String {
    let paragraph = |message: &ConversationMessage<'_>| match message {
        ConversationMessage::System(text) => format!("system: {text}"),
        ConversationMessage::User(text) => format!("user: {text}"),
        ConversationMessage::Tool { text, .. } => format!("tool: {text}"),
        ConversationMessage::Assistant { thoughts, text, calls } => {
            let thoughts = thoughts.map(|thoughts| format!("(thinks: {thoughts})"));
            let calls = calls.iter().map(|call| format!("{}({})", call.name, call.arguments));
            let said = (!text.is_empty() || calls.len() == 0).then(|| text.clone());
            format!("assistant: {}", thoughts.into_iter().chain(said).chain(calls).collect::<Vec<_>>().join("\n"))
        }
    };
    let messages = messages(record, seat, about).unwrap_or_default();
    messages.iter().map(paragraph).collect::<Vec<_>>().join("\n\n")
}

fn tools(record: &EpisodeRecord, seat: u32) -> Vec<Json> {
    functions(record, seat).iter().map(tool).collect()
}

/// Columns beside the conversation, such as a weight for training. `answer` is the environment's privileged fact of this
/// name, where it is a text.
fn figures(record: &EpisodeRecord, seat: u32) -> Map<String, Json> {
    let reward = record.rewards.get(seat as usize);
    let figures = json!({
        "episode": trace_id(record, seat), "task": record.task_name(), "success": record.success, "reward": reward,
    });
    let mut figures = match figures {
        Json::Object(figures) => figures,
        _ => Map::new(),
    };
    let answer = record.privileged.iter().find(|fact| fact.name == "answer");
    if let Some(Value::Text(answer)) = answer.map(|answer| &answer.value) {
        figures.insert("answer".to_owned(), answer.as_str().into());
    }
    figures
}
