//! Context edits as actions: a function by which a policy deletes or rewrites turns of its own context (MemAct).
//!
//! A turn is a reply with the messages received after it, so that a call always keeps its answer. The first message
//! after a reply starts with the turn's number. An unknown number is answered with an error text, because it is the
//! agent's mistake.

use std::collections::BTreeSet;

use gymkhana_record::Function;
use serde::Deserialize;

use super::ContextMessage;
use gymkhana_chat::{Message, Role};

/// Name of the function.
pub(super) const EDIT: &str = "edit_context";

/// Function that the host offers to every seat.
pub(super) fn function() -> Function {
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {
            "turns": { "type": "array", "items": { "type": "integer" }, "description": "numbers of earlier turns" },
            "text": { "type": "string", "description": "what to remember of them; leave it out to forget them" },
        },
        "required": ["turns"],
        "additionalProperties": false,
    });
    let description = "Takes earlier turns out of your context. If `text` is given, it replaces them.";
    let (name, description) = (EDIT.to_owned(), description.to_owned());
    Function { name, description, parameters: parameters.to_string(), cost: 0.0 }
}

/// Prefix of the first message after a reply.
pub(super) fn mark(turn: u32) -> String {
    format!("[turn {turn}]\n")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    turns: BTreeSet<u32>,
    text: Option<String>,
}

/// Applies an edit that was requested in turn `now`, and returns the text for the agent.
///
/// # Errors
/// A text for the agent, if the arguments are invalid or name unknown turns. The entries do not change then.
pub(super) fn edit(entries: &mut Vec<ContextMessage>, arguments: &str, now: u32) -> Result<String, String> {
    let EditArguments { turns, text } = serde_json::from_str(arguments).map_err(|error| {
        format!("the arguments are not of the form {{\"turns\": [0, 1], \"text\": \"…\"}}: {error}")
    })?;
    let known: BTreeSet<u32> = entries.iter().filter_map(|entry| entry.turn).filter(|turn| *turn < now).collect();
    let unknown: BTreeSet<u32> = turns.difference(&known).copied().collect();
    let Some(first) = turns.first().copied() else {
        return Err("`turns` is empty: name the turns to be edited".to_owned());
    };
    if !unknown.is_empty() {
        let there = if known.is_empty() { "none".to_owned() } else { listed(&known) };
        return Err(format!("no such turn to edit: {}; there is {there}", listed(&unknown)));
    }
    let named = |entry: &ContextMessage| entry.turn.is_some_and(|turn| turns.contains(&turn));
    let place = entries.iter().position(named).unwrap_or(entries.len());
    entries.retain(|entry| !named(entry));
    let done = if text.is_some() { "rewritten" } else { "deleted" };
    if let Some(text) = text {
        let message = Message::of_text(Role::User, format!("{}{text}", mark(first)));
        entries.insert(place, ContextMessage { message, turn: Some(first), left_out: false });
    }
    Ok(format!("{done}: {}", listed(&turns)))
}

fn listed(turns: &BTreeSet<u32>) -> String {
    turns.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<ContextMessage> {
        let entry =
            |role, text: &str, turn| ContextMessage { message: Message::of_text(role, text), turn, left_out: false };
        let mut entries = vec![entry(Role::User, "task", None)];
        for turn in 0..3 {
            entries.push(entry(Role::Assistant, "call", Some(turn)));
            entries.push(entry(Role::Tool, &format!("result {turn}"), Some(turn)));
        }
        entries
    }

    fn texts(entries: &[ContextMessage]) -> Vec<&str> {
        entries.iter().map(|entry| entry.message.text.as_str()).collect()
    }

    #[test]
    fn whole_turns_are_replaced_by_a_text_at_the_first_one() {
        let mut edited = entries();
        assert_eq!(edit(&mut edited, r#"{"turns": [1]}"#, 3), Ok("deleted: 1".to_owned()));
        assert_eq!(texts(&edited), ["task", "call", "result 0", "call", "result 2"]);
        assert_eq!(edit(&mut edited, r#"{"turns": [2, 0], "text": "6"}"#, 3), Ok("rewritten: 0, 2".to_owned()));
        assert_eq!(texts(&edited), ["task", "[turn 0]\n6"]);
        // A rewritten turn can be edited again.
        assert_eq!(edit(&mut edited, r#"{"turns": [0]}"#, 3), Ok("deleted: 0".to_owned()));
        assert_eq!(texts(&edited), ["task"]);
    }

    #[test]
    fn invalid_edits_are_answered_and_change_nothing() {
        for (arguments, now, words) in [
            (r#"{"turns": [0, 7, 8]}"#, 3, "no such turn to edit: 7, 8; there is 0, 1, 2"),
            // A turn cannot edit itself, because its answers are still missing.
            (r#"{"turns": [2]}"#, 2, "no such turn to edit: 2; there is 0, 1"),
            (r#"{"turns": [0]}"#, 0, "no such turn to edit: 0; there is none"),
            (r#"{"turns": []}"#, 3, "`turns` is empty"),
            (r#"{"turns": [-1]}"#, 3, "not of the form"),
            (r#"{"turn": [0]}"#, 3, "not of the form"),
            (r#"{"turns": [0], "role": "system"}"#, 3, "not of the form"),
        ] {
            let mut edited = entries();
            let answer = edit(&mut edited, arguments, now).expect_err(arguments);
            assert!(answer.contains(words), "{arguments}: {answer}");
            assert_eq!(edited, entries());
        }
    }
}
