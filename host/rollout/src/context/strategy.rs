//! Context strategies: rules for the first messages of a context's next segment.
//!
//! A strategy works on the messages that a seat's policy sees. It never changes sampled tokens: it only selects which
//! replies and other messages are shown again.

use gymkhana_chat::{EarlierThoughts, Role};
use gymkhana_record::Function;
use gymkhana_rules::{ContextStrategy, EarlierReasoning, Window};

use super::{ContextMessage, edits};

/// Action of a strategy before the policy generates.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ContextAction {
    /// Continues the segment.
    Append,
    /// Begins a new segment with these entries.
    Begin(Vec<ContextMessage>),
    /// Asks the policy for a note, with this instruction.
    Ask(String),
}

/// What happens to the thoughts of earlier replies.
pub(crate) fn earlier_thoughts(strategy: &ContextStrategy) -> EarlierThoughts {
    match strategy {
        ContextStrategy::Append { reasoning: EarlierReasoning::Template } => EarlierThoughts::Template,
        ContextStrategy::Append { reasoning: EarlierReasoning::Keep }
        | ContextStrategy::Window(_)
        | ContextStrategy::Summary(_)
        | ContextStrategy::State {}
        | ContextStrategy::Edits {} => EarlierThoughts::Keep,
    }
}

/// Functions that the host itself offers to every seat.
pub(crate) fn host_functions(strategy: &ContextStrategy) -> Vec<Function> {
    if matches!(strategy, ContextStrategy::Edits {}) { vec![edits::function()] } else { vec![] }
}

/// Whether the host itself offers this function.
pub(super) fn offers(strategy: &ContextStrategy, function: &str) -> bool {
    matches!(strategy, ContextStrategy::Edits {}) && function == edits::EDIT
}

/// Action of a strategy for a context of these entries; `tokens` is its length if it is continued.
pub(super) fn next_action(strategy: &ContextStrategy, entries: &[ContextMessage], tokens: usize) -> ContextAction {
    match strategy {
        ContextStrategy::Append { .. } | ContextStrategy::Edits {} => ContextAction::Append,
        ContextStrategy::Window(window) => slide(window, entries, tokens),
        ContextStrategy::State {} => newest(entries),
        // Without a reply to summarise, the context would not get shorter.
        ContextStrategy::Summary(summary)
            if tokens > summary.tokens && entries.iter().any(ContextMessage::is_reply) =>
        {
            ContextAction::Ask(summary.instruction.clone())
        }
        ContextStrategy::Summary(_) => ContextAction::Append,
    }
}

/// Replaces the oldest tool results if there are too many, or if the context is too long.
fn slide(window: &Window, entries: &[ContextMessage], tokens: usize) -> ContextAction {
    let stands = |entry: &ContextMessage| entry.message.role == Role::Tool && !entry.left_out;
    let standing = entries.iter().filter(|entry| stands(entry)).count();
    let too_many = standing > window.most as usize || window.tokens.is_some_and(|most| tokens > most);
    let leaving = standing.saturating_sub(window.keep as usize);
    if !too_many || leaving == 0 {
        return ContextAction::Append;
    }
    let mut entries = entries.to_vec();
    for entry in entries.iter_mut().filter(|entry| stands(entry)).take(leaving) {
        entry.message.text.clone_from(&window.placeholder);
        entry.left_out = true;
    }
    ContextAction::Begin(entries)
}

/// Keeps the task, the last reply and the messages after it; continues if there is nothing else.
fn newest(entries: &[ContextMessage]) -> ContextAction {
    let last = entries.iter().rev().find_map(|entry| entry.turn);
    let stays = |entry: &&ContextMessage| entry.turn.is_none() || entry.turn == last;
    let kept: Vec<ContextMessage> = entries.iter().filter(stays).cloned().collect();
    if kept.len() == entries.len() { ContextAction::Append } else { ContextAction::Begin(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_chat::Message;
    use gymkhana_rules::Summary;

    fn entry(role: Role, text: &str, turn: Option<u32>) -> ContextMessage {
        ContextMessage { message: Message::of_text(role, text), turn, left_out: false }
    }

    /// A task and `count` turns with one result each.
    fn turns(count: u32) -> Vec<ContextMessage> {
        let exchange = |turn: u32| {
            let reply = entry(Role::Assistant, &format!("call {turn}"), Some(turn));
            [reply, entry(Role::Tool, &format!("result {turn}"), Some(turn))]
        };
        std::iter::once(entry(Role::User, "task", None)).chain((0..count).flat_map(exchange)).collect()
    }

    fn texts(next: &ContextAction) -> Vec<&str> {
        let ContextAction::Begin(entries) = next else { panic!("a new segment begins: {next:?}") };
        entries.iter().map(|entry| entry.message.text.as_str()).collect()
    }

    #[test]
    fn the_window_keeps_the_newest_results_and_every_reply() {
        let window = Window { most: 3, keep: 2, placeholder: "-".to_owned(), ..Window::default() };
        let strategy = ContextStrategy::Window(window.clone());
        assert_eq!(next_action(&strategy, &turns(3), 1000), ContextAction::Append);
        let next = next_action(&strategy, &turns(4), 1000);
        assert_eq!(texts(&next), ["task", "call 0", "-", "call 1", "-", "call 2", "result 2", "call 3", "result 3"]);
        // Replaced results do not count again.
        let ContextAction::Begin(entries) = next else { panic!("a new segment") };
        assert_eq!(next_action(&strategy, &entries, 1000), ContextAction::Append);
        // The token threshold applies to any number of results, until no result is left to replace.
        let strategy = ContextStrategy::Window(Window { tokens: Some(100), ..window });
        assert_eq!(next_action(&strategy, &turns(3), 100), ContextAction::Append);
        assert_eq!(texts(&next_action(&strategy, &turns(3), 101))[2], "-");
        assert_eq!(next_action(&strategy, &turns(2), 101), ContextAction::Append);
    }

    #[test]
    fn the_state_is_the_last_reply() {
        let strategy = ContextStrategy::State {};
        assert_eq!(next_action(&strategy, &turns(0), 10), ContextAction::Append);
        assert_eq!(next_action(&strategy, &turns(1), 10), ContextAction::Append);
        assert_eq!(texts(&next_action(&strategy, &turns(3), 10)), ["task", "call 2", "result 2"]);
    }

    #[test]
    fn a_summary_is_requested_above_the_threshold_and_not_of_a_summary() {
        let summary = Summary { tokens: 100, instruction: "sum up".to_owned() };
        let strategy = ContextStrategy::Summary(summary);
        assert_eq!(next_action(&strategy, &turns(1), 100), ContextAction::Append);
        assert_eq!(next_action(&strategy, &turns(1), 101), ContextAction::Ask("sum up".to_owned()));
        assert_eq!(next_action(&strategy, &turns(0), 101), ContextAction::Append);
    }
}
