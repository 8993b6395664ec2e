//! Limits of a memory, which are the options of a run and part of a session's state.

use gymkhana_sdk::PluginOptions;

/// Greatest length of a query, in characters: a search compares each of its words with each word of the memory.
pub const QUERY_CHARS: usize = 1_000;

/// Limits of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PluginOptions)]
pub struct Limits {
    /// Maximum length of the core memory, in characters
    #[option(default = 1_000, range = 1..=10_000)]
    pub core_chars: usize,
    /// Maximum number of entries of the episodic and of the semantic memory
    #[option(default = 100, range = 1..=1_000)]
    pub entries: usize,
    /// Maximum length of an entry, in characters
    #[option(default = 500, range = 1..=4_000)]
    pub entry_chars: usize,
    /// Maximum length of all memories together, in characters
    #[option(default = 20_000, range = 1..=200_000)]
    pub total_chars: usize,
    /// Maximum number of entries that a search shows
    #[option(default = 5, range = 1..=50)]
    pub results: usize,
}
