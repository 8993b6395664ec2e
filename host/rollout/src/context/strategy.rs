//! Context strategies: rules for the first messages of a context's next segment.
//!
//! A strategy works on the messages that a seat's policy sees. It never changes sampled tokens: it only selects which
//! replies and other messages are shown again.

use gymkhana_record::Function;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Entry, edits};
use gymkhana_chat::{EarlierThoughts, Role};

/// Context strategy: the part of a long episode that the policy sees. The default is `append`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "strategy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ContextStrategy {
    /// The context only grows.
    Append {
        /// Thoughts of earlier replies.
        #[serde(default)]
        reasoning: EarlierReasoning,
    },
    /// A placeholder replaces older tool results; everything else stays (DeepMiner).
    Window(Window),
    /// The policy summarises its context and continues from the task and the summary (SUPO). Excludes oracles and `sft`
    /// stages.
    Summary(Summary),
    /// The policy sees the task, its last reply and the answer to it (MEM1).
    State {},
    /// The policy removes or rewrites turns of its context by calling `edit_context` (MemAct).
    Edits {},
}

impl Default for ContextStrategy {
    fn default() -> Self {
        Self::Append { reasoning: EarlierReasoning::default() }
    }
}

/// Thoughts of earlier replies in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EarlierReasoning {
    /// They stay as they were sampled.
    #[default]
    Keep,
    /// The chat template decides. Where it drops them, a new segment begins.
    Template,
}

impl From<EarlierReasoning> for EarlierThoughts {
    fn from(reasoning: EarlierReasoning) -> Self {
        match reasoning {
            EarlierReasoning::Keep => Self::Keep,
            EarlierReasoning::Template => Self::Template,
        }
    }
}

/// Number of tool results that stay in the context, and the text that replaces the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Window {
    /// Maximum number of tool results in the context; with one result above it, all but the newest `keep` are replaced.
    #[schemars(range(min = 1))]
    pub most: u32,
    /// Number of newest results that stay.
    #[schemars(range(min = 1), extend("x-range" = "1 to `most`"))]
    pub keep: u32,
    /// Size of the context in tokens above which results are also replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2), extend("x-range" = "2 to `limits.context_tokens` - 1"))]
    pub tokens: Option<usize>,
    /// Text that replaces a result.
    pub placeholder: String,
}

impl Default for Window {
    fn default() -> Self {
        Self { most: 5, keep: 3, tokens: None, placeholder: "(left out; call again if you need it)".to_owned() }
    }
}

/// Threshold and instruction of summaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Size of the context in tokens above which it is summarised. The rest of the context must hold the newest
    /// observation, the instruction and the summary.
    #[schemars(range(min = 2), extend("x-range" = "2 to `limits.context_tokens` - 1"))]
    pub tokens: usize,
    /// Instruction to the policy.
    #[serde(default = "instruction")]
    #[schemars(extend("x-default" = "a request for a summary"))]
    pub instruction: String,
}

fn instruction() -> String {
    "Your context is full. Sum up all that you need to go on with the task: what you know, what you tried, what is \
     left to do. Only the task and this summary will stay."
        .to_owned()
}

/// A strategy's setting that is out of range or has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("context.{key} is out of range: {found}\nhint: use {allowed}")]
pub struct ContextError {
    key: &'static str,
    found: usize,
    allowed: String,
}

/// Action of a strategy before the policy generates.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ContextAction {
    /// Continues the segment.
    Append,
    /// Begins a new segment with these entries.
    Begin(Vec<Entry>),
    /// Asks the policy for a note, with this instruction.
    Ask(String),
}

impl ContextStrategy {
    /// Refuses settings out of range, and thresholds that a context of `context_tokens` tokens cannot exceed.
    ///
    /// # Errors
    /// Names the first such setting.
    pub fn check(&self, context_tokens: usize) -> Result<(), ContextError> {
        let require = |holds: bool, key, found, allowed: &str| {
            if holds { Ok(()) } else { Err(ContextError { key, found, allowed: allowed.to_owned() }) }
        };
        let passed = |found: usize| {
            let allowed = format!("2 or more, below limits.context_tokens = {context_tokens}");
            require((2..context_tokens).contains(&found), "tokens", found, &allowed)
        };
        match self {
            Self::Append { .. } | Self::State {} | Self::Edits {} => Ok(()),
            Self::Window(window) => {
                require(window.most >= 1, "most", window.most as usize, "1 or more")?;
                let keep = (1..=window.most).contains(&window.keep);
                require(keep, "keep", window.keep as usize, "1 to context.most")?;
                window.tokens.map_or(Ok(()), passed)
            }
            Self::Summary(summary) => passed(summary.tokens),
        }
    }

    /// Whether the context is never shortened, so that a full context ends the episode.
    pub(crate) fn only_grows(&self) -> bool {
        matches!(self, Self::Append { reasoning: EarlierReasoning::Keep })
    }

    /// What happens to the thoughts of earlier replies.
    pub(crate) fn earlier_thoughts(&self) -> EarlierThoughts {
        match self {
            Self::Append { reasoning } => (*reasoning).into(),
            Self::Window(_) | Self::Summary(_) | Self::State {} | Self::Edits {} => EarlierThoughts::Keep,
        }
    }

    /// Whether the strategy may ask the policy for a note.
    #[must_use]
    pub fn asks_for_notes(&self) -> bool {
        matches!(self, Self::Summary(_))
    }

    /// Functions that the host itself offers to every seat.
    pub(crate) fn functions(&self) -> Vec<Function> {
        if matches!(self, Self::Edits {}) { vec![edits::function()] } else { vec![] }
    }

    /// Whether the host itself offers this function.
    pub(crate) fn offers(&self, function: &str) -> bool {
        matches!(self, Self::Edits {}) && function == edits::EDIT
    }

    /// Action for a context of these entries; `tokens` is its length if it is continued.
    pub(super) fn next(&self, entries: &[Entry], tokens: usize) -> ContextAction {
        match self {
            Self::Append { .. } | Self::Edits {} => ContextAction::Append,
            Self::Window(window) => window.next(entries, tokens),
            Self::State {} => newest(entries),
            // Without a reply to summarise, the context would not get shorter.
            Self::Summary(summary) if tokens > summary.tokens && entries.iter().any(Entry::is_reply) => {
                ContextAction::Ask(summary.instruction.clone())
            }
            Self::Summary(_) => ContextAction::Append,
        }
    }
}

impl Window {
    fn next(&self, entries: &[Entry], tokens: usize) -> ContextAction {
        let stands = |entry: &Entry| entry.message.role == Role::Tool && !entry.left_out;
        let standing = entries.iter().filter(|entry| stands(entry)).count();
        let too_many = standing > self.most as usize || self.tokens.is_some_and(|most| tokens > most);
        let leaving = standing.saturating_sub(self.keep as usize);
        if !too_many || leaving == 0 {
            return ContextAction::Append;
        }
        let mut entries = entries.to_vec();
        for entry in entries.iter_mut().filter(|entry| stands(entry)).take(leaving) {
            entry.message.text.clone_from(&self.placeholder);
            entry.left_out = true;
        }
        ContextAction::Begin(entries)
    }
}

/// Keeps the task, the last reply and the messages after it; continues if there is nothing else.
fn newest(entries: &[Entry]) -> ContextAction {
    let last = entries.iter().rev().find_map(|entry| entry.turn);
    let stays = |entry: &&Entry| entry.turn.is_none() || entry.turn == last;
    let kept: Vec<Entry> = entries.iter().filter(stays).cloned().collect();
    if kept.len() == entries.len() { ContextAction::Append } else { ContextAction::Begin(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_chat::Message;

    fn entry(role: Role, text: &str, turn: Option<u32>) -> Entry {
        Entry { message: Message::of_text(role, text), turn, left_out: false }
    }

    /// A task and `count` turns with one result each.
    fn turns(count: u32) -> Vec<Entry> {
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
        assert_eq!(strategy.next(&turns(3), 1000), ContextAction::Append);
        let next = strategy.next(&turns(4), 1000);
        assert_eq!(texts(&next), ["task", "call 0", "-", "call 1", "-", "call 2", "result 2", "call 3", "result 3"]);
        // Replaced results do not count again.
        let ContextAction::Begin(entries) = next else { panic!("a new segment") };
        assert_eq!(strategy.next(&entries, 1000), ContextAction::Append);
        // The token threshold applies to any number of results, until no result is left to replace.
        let strategy = ContextStrategy::Window(Window { tokens: Some(100), ..window });
        assert_eq!(strategy.next(&turns(3), 100), ContextAction::Append);
        assert_eq!(texts(&strategy.next(&turns(3), 101))[2], "-");
        assert_eq!(strategy.next(&turns(2), 101), ContextAction::Append);
    }

    #[test]
    fn the_state_is_the_last_reply() {
        let strategy = ContextStrategy::State {};
        assert_eq!(strategy.next(&turns(0), 10), ContextAction::Append);
        assert_eq!(strategy.next(&turns(1), 10), ContextAction::Append);
        assert_eq!(texts(&strategy.next(&turns(3), 10)), ["task", "call 2", "result 2"]);
    }

    #[test]
    fn a_summary_is_requested_above_the_threshold_and_not_of_a_summary() {
        let summary = Summary { tokens: 100, instruction: "sum up".to_owned() };
        let strategy = ContextStrategy::Summary(summary);
        assert_eq!(strategy.next(&turns(1), 100), ContextAction::Append);
        assert_eq!(strategy.next(&turns(1), 101), ContextAction::Ask("sum up".to_owned()));
        assert_eq!(strategy.next(&turns(0), 101), ContextAction::Append);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let window = |window| ContextStrategy::Window(window);
        let default = Window::default();
        let summary = |tokens| ContextStrategy::Summary(Summary { tokens, instruction: instruction() });
        for (strategy, message) in [
            (window(Window { most: 0, ..default.clone() }), "context.most is out of range: 0\nhint: use 1 or more"),
            (
                window(Window { keep: 0, ..default.clone() }),
                "context.keep is out of range: 0\nhint: use 1 to context.most",
            ),
            (
                window(Window { keep: 6, ..default.clone() }),
                "context.keep is out of range: 6\nhint: use 1 to context.most",
            ),
            (
                window(Window { tokens: Some(512), ..default.clone() }),
                "context.tokens is out of range: 512\nhint: use 2 or more, below limits.context_tokens = 512",
            ),
            (
                summary(600),
                "context.tokens is out of range: 600\nhint: use 2 or more, below limits.context_tokens = 512",
            ),
        ] {
            assert_eq!(strategy.check(512).expect_err(message).to_string(), message);
        }
        for strategy in [window(default), summary(511), ContextStrategy::default(), ContextStrategy::Edits {}] {
            strategy.check(512).expect("in range");
        }
    }
}
