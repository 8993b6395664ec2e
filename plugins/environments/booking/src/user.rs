//! Guest, played by the run's `model` or by rules.

use gymkhana_sdk::model::{self, Message, Role};
use gymkhana_sdk::{Error, OptionValue, text};

use crate::wish::{SLOTS, Wish, asked_in};

/// Maximum length of a model's reply, in tokens.
const MAX_TOKENS: u32 = 60;

/// Player of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum User {
    /// Model that the run grants.
    Model,
    /// Rule-based guest with three states: it answers one question per message, asks back after a message without a
    /// question, and hangs up after a second one in a row.
    Rules,
}

/// Message of the agent and the guest's reply.
pub type Exchange = (String, String);

/// Opening of a guest who names these slots.
pub fn opening(wish: &Wish, named: &[bool; SLOTS.len()]) -> String {
    let said =
        SLOTS.iter().zip(wish).zip(named).filter(|(_, named)| **named).map(|((slot, value), _)| slot.said(*value));
    ["I would like a table.".to_owned()].into_iter().chain(said).collect::<Vec<_>>().join(" ")
}

/// Reply of a rule-based guest; `None` if it hangs up after `wondered` consecutive messages without a question.
pub fn by_rules(wish: &Wish, message: &str, wondered: u64) -> Option<String> {
    match asked_in(message) {
        Some(slot) => Some(SLOTS[slot].said(wish[slot])),
        None if wondered == 0 => Some("What would you like to know?".to_owned()),
        None => None,
    }
}

/// Reply of the model as the guest.
///
/// # Errors
/// Errors of the model: denied, failed or over budget.
pub fn by_model(wish: &Wish, opening: &str, before: &[Exchange], message: &str) -> Result<String, Error> {
    let says = |role, words: &str| Message { role, content: text(words) };
    let mut messages = vec![says(Role::System, &instruction(wish)), says(Role::Assistant, opening)];
    for (agent, guest) in before {
        messages.extend([says(Role::User, agent), says(Role::Assistant, guest)]);
    }
    messages.push(says(Role::User, message));
    let request = model::Request { messages, max_tokens: MAX_TOKENS, temperature: 0.0, stop: vec![] };
    Ok(model::complete(&request)?.text.trim().to_owned())
}

/// System prompt for the model.
fn instruction(wish: &Wish) -> String {
    let wants = SLOTS.iter().zip(wish).map(|(slot, value)| format!("{}: {}", slot.name, slot.values[*value]));
    format!(
        "You are a guest who books a table in a restaurant; the user is its clerk. You want: {}. Answer what you are \
         asked in one short sentence. Say nothing that you are not asked for, and want nothing else than this.",
        wants.collect::<Vec<_>>().join(", ")
    )
}
