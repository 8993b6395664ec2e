//! Rows of a prompt and an answer in columns of their own, as texts or messages.

use serde_json::{Map, Value as Json};

use super::conversation::{ChatConversation, ChatMessage, functions, openai, system, weight};

/// Conversation of a row in any form: of `messages`, of `conversations`, or of `prompt` and `completion`. `weight_column`
/// names the column with its weight.
///
/// # Errors
/// What is wrong with the row.
pub(crate) fn conversation_of(
    columns: Map<String, Json>,
    weight_column: Option<&str>,
) -> Result<ChatConversation, String> {
    let has = |name: &str| columns.get(name).is_some_and(|value| !value.is_null());
    if !has("completion") || has("messages") || has("conversations") {
        return ChatConversation::of(columns, weight_column);
    }
    let weight = weight_column.map_or(Ok(1.0), |column| weight(column, &columns))?;
    Ok(ChatConversation { weight, ..completed(&columns, "completion")? })
}

/// The conversation of `prompt` and the answer in a column: a text, or messages, which may repeat the prompt.
///
/// # Errors
/// What is wrong with the columns.
pub(super) fn completed(columns: &Map<String, Json>, name: &str) -> Result<ChatConversation, String> {
    let prompt = match columns.get("prompt") {
        None | Some(Json::Null) => return Err("there is no `prompt`".to_owned()),
        Some(value) => match (entries(value), value) {
            (Some(entries), _) => messages(&entries, "prompt")?,
            (None, Json::String(text)) => vec![ChatMessage::User(text.clone())],
            (None, other) => return Err(format!("`prompt` is {other}, not a text or a list of messages")),
        },
    };
    let value = columns.get(name).unwrap_or(&Json::Null);
    let answer = match (entries(value), value) {
        (Some(entries), _) => {
            let mut answer = messages(&entries, name)?;
            if answer.starts_with(&prompt) {
                answer.drain(..prompt.len());
            }
            answer
        }
        (None, Json::String(text)) => {
            vec![ChatMessage::Assistant { thoughts: None, text: text.clone(), calls: vec![] }]
        }
        (None, other) => return Err(format!("`{name}` is {other}, not a text or a list of messages")),
    };
    with_answer(&prompt, &answer, name, columns)
}

/// A conversation whose last replies are an answer. Messages after the last reply are left out.
pub(super) fn with_answer(
    prompt: &[ChatMessage],
    answer: &[ChatMessage],
    name: &str,
    columns: &Map<String, Json>,
) -> Result<ChatConversation, String> {
    let is_reply = |message: &ChatMessage| matches!(message, ChatMessage::Assistant { .. });
    if prompt.last().is_some_and(is_reply) {
        return Err(format!("the prompt ends with a reply of the assistant, which `{name}` cannot continue"));
    }
    match answer.first() {
        Some(ChatMessage::Assistant { thoughts: None, text, calls }) if text.is_empty() && calls.is_empty() => {
            return Err(format!("`{name}` is empty"));
        }
        Some(ChatMessage::Assistant { .. }) => {}
        Some(_) => return Err(format!("`{name}` does not begin with a reply of the assistant after the prompt")),
        None => return Err(format!("`{name}` has no reply after the prompt")),
    }
    let length = answer.iter().rposition(is_reply).map_or(0, |last| last + 1);
    let prompt_replies = Some(prompt.iter().filter(|message| is_reply(message)).count());
    let starts_with_system = matches!(prompt.first(), Some(ChatMessage::System(_)));
    let system = system(columns).filter(|_| !starts_with_system);
    let messages = system.into_iter().chain(prompt.iter().chain(&answer[..length]).cloned()).collect();
    let functions = functions(columns.get("tools").cloned())?;
    Ok(ChatConversation { messages, functions, weight: 1.0, prompt_replies })
}

/// Messages of a list, which may be written as JSON in a text; `None` for another value.
pub(super) fn entries(value: &Json) -> Option<Vec<Json>> {
    match value {
        Json::Array(entries) => Some(entries.clone()),
        Json::String(text) => {
            let entries: Vec<Json> = serde_json::from_str(text).ok()?;
            let are_messages = !entries.is_empty() && entries.iter().all(|entry| entry.get("role").is_some());
            are_messages.then_some(entries)
        }
        _ => None,
    }
}

/// Messages of OpenAI's form. `name` is that of their column.
pub(super) fn messages(entries: &[Json], name: &str) -> Result<Vec<ChatMessage>, String> {
    let numbered = entries.iter().zip(1..);
    numbered.map(|(entry, number)| openai(entry).map_err(|why| format!("`{name}`, message {number}: {why}"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(row: Json) -> Result<ChatConversation, String> {
        let Json::Object(columns) = row else { panic!("{row}") };
        conversation_of(columns, None)
    }

    #[test]
    fn a_completion_is_imitated_after_its_prompt() {
        let begun = ["Hello", "Hi", "Bye?"].into_iter().zip(["user", "assistant", "user"]);
        let begun: Vec<Json> = begun.map(|(text, role)| json!({"role": role, "content": text})).collect();
        let found = read(json!({"prompt": begun, "completion": [{"role": "assistant", "content": "Bye"}]})).unwrap();
        assert_eq!((found.messages.len(), found.prompt_replies, found.weight), (4, Some(1), 1.0));
        let text = Json::from("Bye");
        assert_eq!(read(json!({"prompt": "Hello", "completion": text})).unwrap().prompt_replies, Some(0));
        assert!(read(json!({"completion": text})).unwrap_err().contains("there is no `prompt`"));
    }
}
