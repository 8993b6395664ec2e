//! Message of an earlier conversation, such as an example, as text.

use serde_json::{Value as Json, json};

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    const ALL: [Self; 3] = [Self::System, Self::User, Self::Assistant];

    /// Name in the file.
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Message with its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    role: Role,
    content: String,
}

impl Message {
    /// Message of the user.
    pub fn user(content: &str) -> Self {
        Self { role: Role::User, content: content.to_owned() }
    }

    /// Messages of the column `messages`; `null` is an empty list. The error says what is wrong with the column.
    pub fn parse_all(column: &Json) -> Result<Vec<Self>, String> {
        match column {
            Json::Null => Ok(vec![]),
            Json::Array(entries) => {
                entries.iter().enumerate().map(|(index, entry)| Self::parse(index, entry)).collect()
            }
            _ => Err("`messages` is not a list".to_owned()),
        }
    }

    fn parse(index: usize, entry: &Json) -> Result<Self, String> {
        let text = |key: &str| entry.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
        let role = text("role").and_then(|name| Role::ALL.into_iter().find(|role| role.name() == name));
        match (role, text("content")) {
            (Some(role), Some(content)) => Ok(Self { role, content: content.to_owned() }),
            (None, _) => Err(format!("`messages[{index}].role` is not `system`, `user` or `assistant`")),
            (_, None) => Err(format!("`messages[{index}].content` is not a text, or is empty")),
        }
    }

    /// The message as an entry of the column.
    pub fn json(&self) -> Json {
        json!({ "role": self.role.name(), "content": self.content })
    }

    /// The message for the agent. The system's message has no label.
    pub fn text(&self) -> String {
        let content = &self.content;
        match self.role {
            Role::System => content.clone(),
            Role::User => format!("User: {content}"),
            Role::Assistant => format!("Assistant: {content}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_messages_are_named_by_index() {
        let wrong =
            |entry: Json| Message::parse_all(&json!([{ "role": "user", "content": "a" }, entry])).expect_err("wrong");
        let role = "`messages[1].role` is not `system`, `user` or `assistant`";
        for entry in [json!("b"), json!({ "content": "b" }), json!({ "role": "tool", "content": "b" })] {
            assert_eq!(wrong(entry), role);
        }
        let content = "`messages[1].content` is not a text, or is empty";
        for entry in [
            json!({ "role": "user" }),
            json!({ "role": "user", "content": [] }),
            json!({ "role": "user", "content": " " }),
        ] {
            assert_eq!(wrong(entry), content);
        }
        assert_eq!(Message::parse_all(&json!({})).expect_err("wrong"), "`messages` is not a list");
    }
}
