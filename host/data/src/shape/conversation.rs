//! Whole conversations with tool calls, as demonstrations: rows of OpenAI's `messages` or of ShareGPT's `conversations`.

use gymkhana_rows::{Function, Row};
use serde_json::{Map, Value as Json, json};

use super::chat::{of_share_gpt, parsed};

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// Instructions.
    System(String),
    /// A user's message, or an observation.
    User(String),
    /// A reply: its text, and its calls after it.
    Assistant {
        /// The thoughts before the text, where the row gives them apart from it.
        thoughts: Option<String>,
        /// The text; empty if the reply has calls only.
        text: String,
        /// The calls.
        calls: Vec<ChatCall>,
    },
    /// The answer to a call.
    Tool(String),
}

/// A call of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatCall {
    /// Name of the function.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Json>,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatConversation {
    /// Messages in their order, at least one of them the assistant's.
    pub messages: Vec<ChatMessage>,
    /// Functions that the assistant may call.
    pub functions: Vec<Function>,
    /// Weight of the row, at least 0; 1 without a column of weights.
    pub weight: f64,
    /// Number of replies in the prompt, of which nothing is imitated; `None` for a conversation without a prompt.
    pub prompt_replies: Option<usize>,
}

impl ChatConversation {
    /// Conversation of a row with `messages` or `conversations`; `weight_column` names the column with its weight.
    ///
    /// # Errors
    /// What is wrong with the row.
    pub(super) fn of(mut columns: Map<String, Json>, weight_column: Option<&str>) -> Result<Self, String> {
        let weight = weight_column.map_or(Ok(1.0), |column| weight(column, &columns))?;
        let functions = functions(columns.remove("tools"))?;
        let mut messages: Vec<ChatMessage> = system(&columns).into_iter().collect();
        let entries = match (columns.get("messages").map(parsed), columns.get("conversations").map(parsed)) {
            (Some(Json::Array(entries)), _) => entries,
            (_, Some(Json::Array(turns))) => of_share_gpt(&turns)?,
            _ => return Err("the row lacks a list `messages` or `conversations`, or a text `completion`".to_owned()),
        };
        for (entry, number) in entries.iter().zip(1..) {
            messages.push(openai(entry).map_err(|why| format!("message {number}: {why}"))?);
        }
        if !messages.iter().any(|message| matches!(message, ChatMessage::Assistant { .. })) {
            return Err("the conversation has no message of the assistant".to_owned());
        }
        Ok(Self { messages, functions, weight, prompt_replies: None })
    }
}

/// The message of the column `system`.
pub(super) fn system(columns: &Map<String, Json>) -> Option<ChatMessage> {
    let text = columns.get("system").and_then(Json::as_str).filter(|text| !text.is_empty());
    text.map(|text| ChatMessage::System(text.to_owned()))
}

/// The weight of a row in a column.
pub(super) fn weight(column: &str, columns: &Map<String, Json>) -> Result<f64, String> {
    let value = columns.get(column).ok_or_else(|| format!("there is no column `{column}` with a weight"))?;
    let weight = value.as_f64().filter(|weight| *weight >= 0.0 && weight.is_finite());
    weight.ok_or_else(|| format!("`{column}` is {value}, not a weight of at least 0"))
}

/// Functions of a row, read as those of a task.
pub(super) fn functions(tools: Option<Json>) -> Result<Vec<Function>, String> {
    let task = [("prompt", json!("tools")), ("tools", tools.unwrap_or(Json::Null))];
    let task = task.into_iter().map(|(column, value)| (column.to_owned(), value)).collect();
    Row::of(task).map(|row| row.functions)
}

/// A message of OpenAI's form.
pub(super) fn openai(entry: &Json) -> Result<ChatMessage, String> {
    let role = entry.get("role").and_then(Json::as_str).ok_or("there is no `role`")?;
    let text = text(entry.get("content"))?;
    let spoken = |text: Option<String>| text.ok_or_else(|| "there is no `content`".to_owned());
    match role {
        "system" | "developer" => spoken(text).map(ChatMessage::System),
        "user" => spoken(text).map(ChatMessage::User),
        "tool" | "function" => spoken(text).map(ChatMessage::Tool),
        "assistant" => {
            let calls: Vec<ChatCall> = match entry.get("tool_calls").map(parsed) {
                None | Some(Json::Null) => vec![],
                Some(Json::Array(calls)) => calls
                    .iter()
                    .zip(1..)
                    .map(|(entry, number)| call(entry).map_err(|why| format!("call {number}: {why}")))
                    .collect::<Result<_, _>>()?,
                Some(_) => return Err("`tool_calls` is not a list".to_owned()),
            };
            let text = if calls.is_empty() { spoken(text)? } else { text.unwrap_or_default() };
            Ok(ChatMessage::Assistant { thoughts: thoughts(entry)?, text, calls })
        }
        other => Err(format!("the role `{other}` is none of system, developer, user, assistant, tool and function")),
    }
}

/// Keys of a message that hold its thoughts.
pub(crate) const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Thoughts of a message.
fn thoughts(entry: &Json) -> Result<Option<String>, String> {
    let given =
        THOUGHTS.iter().find_map(|key| entry.get(key).filter(|value| !value.is_null()).map(|value| (key, value)));
    match given {
        None => Ok(None),
        Some((_, Json::String(text))) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Some((key, _)) => Err(format!("`{key}` is not a text")),
    }
}

fn call(entry: &Json) -> Result<ChatCall, String> {
    let function = entry.get("function").unwrap_or(entry);
    let name = function.get("name").and_then(Json::as_str).filter(|name| !name.is_empty()).ok_or("it has no `name`")?;
    match function.get("arguments").map(parsed) {
        None | Some(Json::Null) => Ok(ChatCall { name: name.to_owned(), arguments: Map::new() }),
        Some(Json::Object(arguments)) => Ok(ChatCall { name: name.to_owned(), arguments }),
        Some(other) => Err(format!("the arguments of `{name}` are not a JSON object: {other}")),
    }
}

/// Text of a message; none if it is absent or null.
fn text(content: Option<&Json>) -> Result<Option<String>, String> {
    match content {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(Json::Array(parts)) => {
            let text = |part: &Json| Some(part.get("text")?.as_str()?.to_owned());
            let texts: Option<Vec<String>> = parts.iter().map(text).collect();
            texts.map(|texts| Some(texts.concat())).ok_or_else(|| "a part of the content is not text".to_owned())
        }
        Some(_) => Err("the content is not text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(row: Json) -> Result<ChatConversation, String> {
        let Json::Object(columns) = row else { panic!("{row}") };
        ChatConversation::of(columns, None)
    }

    fn expected() -> Vec<ChatMessage> {
        let arguments = json!({"a": 2, "b": "x"}).as_object().unwrap().clone();
        let call = ChatCall { name: "add".to_owned(), arguments };
        vec![
            ChatMessage::System("Add.".to_owned()),
            ChatMessage::User("2 + 2?".to_owned()),
            ChatMessage::Assistant { thoughts: None, text: "I add.".to_owned(), calls: vec![call] },
            ChatMessage::Tool("4".to_owned()),
            ChatMessage::Assistant { thoughts: None, text: "Four.".to_owned(), calls: vec![] },
        ]
    }

    #[test]
    fn both_forms_are_read() {
        let tool = json!({"name": "add", "description": "Adds.", "parameters": {"type": "object"}});
        let arguments = json!({"a": 2, "b": "x"});
        for arguments in [arguments.clone(), arguments.to_string().into()] {
            let calls = json!([{"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}]);
            let row = json!({
                "messages": [
                    {"role": "system", "content": "Add."},
                    {"role": "user", "content": [{"type": "text", "text": "2 + "}, {"type": "text", "text": "2?"}]},
                    {"role": "assistant", "content": "I add.", "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "1", "content": "4"},
                    {"role": "assistant", "content": "Four."},
                ],
                "tools": [{"type": "function", "function": tool}],
            });
            let conversation = read(row).unwrap();
            assert_eq!(conversation.messages, expected());
            assert_eq!((&*conversation.functions[0].name, conversation.weight), ("add", 1.0));
        }
        let turn = |from: &str, value: &str| json!({"from": from, "value": value});
        let call = json!({"name": "add", "arguments": arguments}).to_string();
        let row = json!({
            "system": "Add.",
            "conversations": [turn("human", "2 + 2?"), turn("gpt", "I add."), turn("function_call", &call),
                turn("observation", "4"), turn("gpt", "Four.")],
            "tools": json!([tool]).to_string(),
        });
        assert_eq!(read(row).unwrap().messages, expected());
    }

    /// Without a text, a list of calls, as objects, and roles of other files.
    #[test]
    fn calls_of_share_gpt_are_read_in_other_forms() {
        let call = json!({"name": "f", "arguments": {"a": 1}});
        let made = ChatCall { name: "f".to_owned(), arguments: json!({"a": 1}).as_object().unwrap().clone() };
        let calls =
            |made: &[ChatCall]| ChatMessage::Assistant { thoughts: None, text: String::new(), calls: made.to_vec() };
        for (from, value, count) in [
            ("function_call", call.clone(), 1),
            ("tool_call", json!([call, call]), 2),
            ("function-call", json!([call]).to_string().into(), 1),
        ] {
            let row = json!({"conversations": [{"from": "human", "value": "?"}, {"from": from, "value": value},
                {"from": "tool_response", "value": "4"}, {"role": "assistant", "content": "Four."}]});
            let replied = ChatMessage::Assistant { thoughts: None, text: "Four.".to_owned(), calls: vec![] };
            let expected = [
                ChatMessage::User("?".to_owned()),
                calls(&vec![made.clone(); count]),
                ChatMessage::Tool("4".to_owned()),
                replied,
            ];
            assert_eq!(read(row).unwrap().messages, expected, "{from}");
        }
    }

    #[test]
    fn wrong_rows_say_where() {
        let user = json!({"role": "user", "content": "?"});
        let reply = |calls: Json| json!({"role": "assistant", "content": null, "tool_calls": calls});
        for (row, why) in [
            (json!({"text": "x"}), "the row lacks a list `messages` or `conversations`"),
            (json!({"messages": [user]}), "no message of the assistant"),
            (
                json!({"messages": [user, {"role": "asistant", "content": "x"}]}),
                "message 2: the role `asistant` is none of",
            ),
            (json!({"messages": [user, {"content": "x"}]}), "message 2: there is no `role`"),
            (json!({"messages": [user, {"role": "assistant"}]}), "message 2: there is no `content`"),
            (json!({"messages": [user, reply(json!([{"id": "1"}]))]}), "message 2: call 1: it has no `name`"),
            (
                json!({"messages": [user, reply(json!([{"name": "f", "arguments": "{\"a\": "}]))]}),
                "the arguments of `f` are not a JSON object",
            ),
            (
                json!({"messages": [user, reply(json!([{"name": "f", "arguments": [1]}]))]}),
                "the arguments of `f` are not a JSON object",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}),
                "message 1: a part of the content is not text",
            ),
            (json!({"conversations": [{"from": "alien", "value": "x"}]}), "turn 1: `from` is `alien`"),
            (
                json!({"conversations": [{"from": "function_call", "value": "add(2)"}]}),
                "turn 1: the calls are not JSON",
            ),
            (json!({"messages": [user], "tools": [{}]}), "tool 1 has no `name`"),
        ] {
            let found = read(row.clone()).unwrap_err();
            assert!(found.contains(why), "{row}: {found}");
        }
    }

    #[test]
    fn weights_are_numbers_of_at_least_0() {
        let row = |weight: Json| json!({"messages": [{"role": "assistant", "content": "x"}], "score": weight});
        let read = |weight: Json| ChatConversation::of(row(weight).as_object().unwrap().clone(), Some("score"));
        assert_eq!(read(json!(0.25)).unwrap().weight, 0.25);
        assert_eq!(read(json!(0)).unwrap().weight, 0.0);
        for wrong in [json!(-1), json!("high"), json!(null)] {
            assert!(read(wrong).unwrap_err().contains("not a weight of at least 0"));
        }
        let none = ChatConversation::of(row(json!(1)).as_object().unwrap().clone(), Some("weight"));
        assert!(none.unwrap_err().contains("there is no column `weight`"));
    }
}
