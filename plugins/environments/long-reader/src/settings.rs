//! Options of a run, which are part of each episode's state.

use gymkhana_sdk::{OptionValue, PluginOptions};

/// Time of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Ask {
    /// Before the first part and after the last one.
    First,
    /// After the last part.
    Last,
}

/// Options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PluginOptions)]
pub struct Settings {
    /// Length of the document, approximately, in characters
    #[option(default = 4_000, range = 100..=524_288)]
    pub characters: u64,
    /// Number of parts in which the document is shown
    #[option(default = 8, range = 1..=256)]
    pub parts: u64,
    /// Number of questions
    #[option(default = 1, range = 1..=16)]
    pub questions: u64,
    /// Number of facts that lead to an answer
    #[option(default = 1, range = 1..=4)]
    pub hops: u64,
    /// Number of facts of the same form that lead to no answer
    #[option(default = 4, range = 0..=64)]
    pub distractors: u64,
    /// Percentage of the numbers that a later part changes
    #[option(default = 0, range = 0..=100)]
    pub changed: u64,
    /// Maximum length of the memory, in characters
    #[option(default = 400, range = 1..=20_000)]
    pub memory_chars: u64,
    /// Percentage of parts of which the oracle remembers the facts, not another sentence
    #[option(default = 100, range = 0..=100)]
    pub oracle_care: u64,
    /// Whether the questions come before the first part as well, or only after the last one
    #[option(default = Ask::First)]
    pub ask: Ask,
}
