//! Which messages of a row the agent sees, and when.

use gymkhana_rows::{Message, Role, Row};
use gymkhana_sdk::OptionValue;

/// Messages of the user that the agent answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Answered {
    Last,
    Each,
}

/// Observations of an episode in order, with the recorded reply to each but the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Texts for the agent.
    pub observations: Vec<String>,
    /// What the row's assistant said to all but the last.
    pub replies: Vec<String>,
}

impl Conversation {
    /// Conversation of a row. With `each`, the agent answers every message of the user; otherwise the last one, in front
    /// of which it sees the earlier messages as text.
    pub fn of(row: &Row, each: bool) -> Self {
        if each { Self::turns(&row.messages) } else { Self::last(&row.messages) }
    }

    fn last(messages: &[Message]) -> Self {
        let text = match messages {
            [only] => only.content.clone(),
            // Instructions and a question need no labels.
            [system, question] if system.role == Role::System => format!("{}\n\n{}", system.content, question.content),
            all => all.iter().map(Message::labelled).collect::<Vec<_>>().join("\n\n"),
        };
        Self { observations: vec![text], replies: vec![] }
    }

    fn turns(messages: &[Message]) -> Self {
        let (mut observations, mut replies) = (Vec::new(), Vec::new());
        let mut pending = String::new();
        for Message { role, content } in messages {
            if *role != Role::Assistant {
                pending = if pending.is_empty() { content.clone() } else { format!("{pending}\n\n{content}") };
            } else if pending.is_empty() {
                // Several replies in a row, or one before the first question: the next question shows it.
                pending = format!("Assistant: {content}");
            } else {
                observations.push(std::mem::take(&mut pending));
                replies.push(content.clone());
            }
        }
        // The last message is the user's.
        observations.push(pending);
        Self { observations, replies }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(messages: &[(&str, &str)]) -> Row {
        let messages: Vec<_> =
            messages.iter().map(|(role, content)| serde_json::json!({ "role": role, "content": content })).collect();
        Row::parse(serde_json::json!({ "messages": messages }).to_string().as_bytes()).expect("a row")
    }

    #[test]
    fn the_last_question_follows_the_earlier_messages() {
        let shown = |messages: &[(&str, &str)]| Conversation::of(&row(messages), false).observations;
        assert_eq!(shown(&[("user", "2+2")]), ["2+2"]);
        assert_eq!(shown(&[("system", "Add."), ("user", "2+2")]), ["Add.\n\n2+2"]);
        let all = [("system", "Add."), ("user", "1+1"), ("assistant", "2"), ("user", "2+2")];
        assert_eq!(shown(&all), ["Add.\n\nUser: 1+1\n\nAssistant: 2\n\nUser: 2+2"]);
    }

    #[test]
    fn each_question_is_an_observation() {
        let all = [("system", "Add."), ("user", "1+1"), ("assistant", "2"), ("user", "2+2")];
        let conversation = Conversation::of(&row(&all), true);
        assert_eq!(conversation.observations, ["Add.\n\n1+1", "2+2"]);
        assert_eq!(conversation.replies, ["2"]);
        let odd =
            [("assistant", "Hello."), ("user", "1+1"), ("assistant", "2"), ("assistant", "Right?"), ("user", "Yes")];
        let conversation = Conversation::of(&row(&odd), true);
        assert_eq!(conversation.observations, ["Assistant: Hello.\n\n1+1", "Assistant: Right?\n\nYes"]);
        assert_eq!(conversation.replies, ["2"]);
    }
}
