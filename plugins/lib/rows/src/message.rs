//! Message of a conversation.

use serde_json::{Value as Json, json};

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The environment's side.
    User,
    /// The agent's side.
    Assistant,
}

impl Role {
    const ALL: [Self; 3] = [Self::System, Self::User, Self::Assistant];

    /// Name in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
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
    /// Author.
    pub role: Role,
    /// Text.
    pub content: String,
}

impl Message {
    /// Message of an author.
    #[must_use]
    pub fn new(role: Role, content: String) -> Self {
        Self { role, content }
    }

    /// Messages of a column; `null` is an empty list.
    ///
    /// # Errors
    /// What is wrong with the column.
    pub fn parse_all(column: &Json) -> Result<Vec<Self>, String> {
        match column {
            Json::Null => Ok(vec![]),
            Json::Array(entries) => (1..).zip(entries).map(|(number, entry)| Self::parse(number, entry)).collect(),
            _ => Err("`messages` is not a list".to_owned()),
        }
    }

    fn parse(number: usize, entry: &Json) -> Result<Self, String> {
        let text = |key: &str| entry.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
        let role = text("role").and_then(|name| Role::ALL.into_iter().find(|role| role.name() == name));
        match (role, text("content")) {
            (Some(role), Some(content)) => Ok(Self::new(role, content.to_owned())),
            (None, _) => Err(format!("message {number}: `role` is not `system`, `user` or `assistant`")),
            (_, None) => Err(format!("message {number}: `content` is not a text, or is empty")),
        }
    }

    /// The message as an entry of a column.
    #[must_use]
    pub fn json(&self) -> Json {
        json!({ "role": self.role.name(), "content": self.content })
    }

    /// The message as a part of a longer text. The system's message has no label.
    #[must_use]
    pub fn labelled(&self) -> String {
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
    fn wrong_messages_are_named_by_number() {
        let wrong =
            |entry: Json| Message::parse_all(&json!([{ "role": "user", "content": "a" }, entry])).expect_err("wrong");
        let role = "message 2: `role` is not `system`, `user` or `assistant`";
        for entry in [json!("b"), json!({ "content": "b" }), json!({ "role": "tool", "content": "b" })] {
            assert_eq!(wrong(entry), role);
        }
        let content = "message 2: `content` is not a text, or is empty";
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
