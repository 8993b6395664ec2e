//! The guest: played by the run's `model`, or by rules, which ask nobody.

use gymkhana_sdk::model::{self, Message, Role};
use gymkhana_sdk::{Error, text};

use crate::wish::{SLOTS, Wish, asked_in};

/// The most tokens of what a model says.
const MAX_TOKENS: u32 = 60;

/// Who plays the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The model that the run grants.
    Model,
    /// A machine of three states: it answers what it is asked, one thing at a time; it wonders at a message that asks
    /// for nothing; at the second one in a row it loses patience.
    Rules,
}

impl User {
    /// As the option writes them.
    pub const NAMES: [&str; 2] = ["model", "rules"];
}

/// A message of the agent and the guest's reply.
pub type Exchange = (String, String);

/// What a guest says first, who names these slots.
pub fn opening(wish: &Wish, named: &[bool; SLOTS.len()]) -> String {
    let said =
        SLOTS.iter().zip(wish).zip(named).filter(|(_, named)| **named).map(|((slot, value), _)| slot.said(*value));
    ["I would like a table.".to_owned()].into_iter().chain(said).collect::<Vec<_>>().join(" ")
}

/// What a guest of rules answers; none when it has no patience left for `wondered` messages that asked for nothing.
pub fn by_rules(wish: &Wish, message: &str, wondered: u64) -> Option<String> {
    match asked_in(message) {
        Some(slot) => Some(SLOTS[slot].said(wish[slot])),
        None if wondered == 0 => Some("What would you like to know?".to_owned()),
        None => None,
    }
}

/// What the model answers in the guest's place.
///
/// # Errors
/// If the model may not be asked, fails, or has used up what it may.
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

/// Tells the model who it is.
fn instruction(wish: &Wish) -> String {
    let wants = SLOTS.iter().zip(wish).map(|(slot, value)| format!("{}: {}", slot.name, slot.values[*value]));
    format!(
        "You are a guest who books a table in a restaurant; the user is its clerk. You want: {}. Answer what you are \
         asked in one short sentence. Say nothing that you are not asked for, and want nothing else than this.",
        wants.collect::<Vec<_>>().join(", ")
    )
}
