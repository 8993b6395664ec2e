//! Entries of a library: recorded conversations, and texts of skills.

use serde_json::Value as Json;

/// First line of what the wrapper shows. Messages with it are left out when an episode that saw them becomes an entry.
pub const HEADING: &str = "From the library:";

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The task, by which a search finds the entry.
    pub title: String,
    /// What the agent sees.
    pub text: String,
}

impl Entry {
    /// The entry of a line: `title` and `text`, or `messages` as `host data export --format openai` writes them.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn parse(line: &str) -> Result<Self, String> {
        let json: Json = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}"))?;
        let entry = match (&json["messages"], &json["title"], &json["text"]) {
            (Json::Array(messages), _, _) => Self::of_conversation(messages)?,
            (_, Json::String(title), Json::String(text)) => Self { title: title.clone(), text: text.clone() },
            _ => return Err("there is neither `messages` nor `title` and `text`, each a text".to_owned()),
        };
        let empty =
            [("title", &entry.title), ("text", &entry.text)].into_iter().find(|(_, text)| text.trim().is_empty());
        match empty {
            Some((name, _)) => Err(format!("the entry's {name} is empty")),
            None => Ok(entry),
        }
    }

    /// The task is what the user says before the first reply.
    fn of_conversation(messages: &[Json]) -> Result<Self, String> {
        let (mut task, mut lines) = (Vec::new(), Vec::new());
        let mut replies = 0;
        for (index, message) in messages.iter().enumerate() {
            let text =
                content(&message["content"]).ok_or_else(|| format!("`messages[{index}].content` is not a text"))?;
            match message["role"].as_str() {
                Some("system" | "developer") => {}
                Some("user") if text.starts_with(HEADING) => {}
                Some("user") => {
                    if replies == 0 {
                        task.push(text.clone());
                    }
                    lines.push(text);
                }
                Some("tool") => lines.push(text),
                Some("assistant") => {
                    replies += 1;
                    lines.extend(Some(text).filter(|text| !text.is_empty()).map(|text| format!("> {text}")));
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        lines.push(called(call).ok_or_else(|| format!("`messages[{index}].tool_calls` has no name"))?);
                    }
                }
                _ => return Err(format!("`messages[{index}].role` is not a role")),
            }
        }
        if replies == 0 {
            return Err("no message is the assistant's".to_owned());
        }
        Ok(Self { title: task.join("\n"), text: lines.join("\n") })
    }
}

/// A text, the texts of a list of parts, or nothing.
fn content(content: &Json) -> Option<String> {
    match content {
        Json::Null => Some(String::new()),
        Json::String(text) => Some(text.clone()),
        Json::Array(parts) => {
            let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
            texts.map(|texts| texts.join("\n"))
        }
        _ => None,
    }
}

/// A call in the form in which the agent reads it.
fn called(call: &Json) -> Option<String> {
    let (name, arguments) = (call["function"]["name"].as_str()?, &call["function"]["arguments"]);
    Some(match arguments {
        Json::String(text) => format!("> {name}({text})"),
        other => format!("> {name}({other})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_episode_becomes_its_task_and_transcript() {
        let line = r#"{"episode": "e", "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "From the library:\n\nsomething older"},
            {"role": "user", "content": "What is 2+3?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{\"x\": [2, 3]}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "5"},
            {"role": "assistant", "content": [{"type": "text", "text": "It is 5."}]},
            {"role": "user", "content": "Thanks."}]}"#;
        let expected = "What is 2+3?\n> add({\"x\": [2, 3]})\n5\n> It is 5.\nThanks.";
        assert_eq!(Entry::parse(line), Ok(Entry { title: "What is 2+3?".into(), text: expected.into() }));
    }

    #[test]
    fn a_skill_has_a_title_and_a_text() {
        let entry = Entry::parse(r#"{"title": "Sums", "text": "Call add."}"#);
        assert_eq!(entry, Ok(Entry { title: "Sums".into(), text: "Call add.".into() }));
    }

    #[test]
    fn wrong_lines_are_told() {
        for (line, reason) in [
            ("[", "no JSON"),
            ("[]", "neither `messages`"),
            (r#"{"title": "a", "text": 1}"#, "neither `messages`"),
            (r#"{"title": " ", "text": "b"}"#, "title is empty"),
            (r#"{"title": "a", "text": ""}"#, "text is empty"),
            (r#"{"messages": [{"role": "user", "content": "a"}]}"#, "no message is the assistant's"),
            (r#"{"messages": [{"role": "assistant", "content": "a"}]}"#, "title is empty"),
            (r#"{"messages": [{"role": "robot", "content": "a"}]}"#, "`messages[0].role`"),
            (r#"{"messages": [{"role": "user", "content": {}}]}"#, "`messages[0].content`"),
            (r#"{"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]}"#, "`messages[0].tool_calls`"),
        ] {
            let wrong = Entry::parse(line).expect_err(line);
            assert!(wrong.contains(reason), "{line}: {wrong}");
        }
    }
}
