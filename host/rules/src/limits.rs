//! Limits of an episode, with the early-stop rule.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default limit of one episode's record in bytes: 64 pictures of half a megabyte, or a transcript of 30 million
/// characters.
pub const DEFAULT_EPISODE_BYTES: u64 = 32 << 20;

/// Default limit of the records of all live episodes in bytes: 4,000 episodes with records of 256 KiB.
pub const DEFAULT_LIVE_BYTES: u64 = 1 << 30;

/// Limits of one episode. They are checked after every turn, in the order of the fields and after an ending by the
/// environment. If a strategy can shorten the context, its tokens are checked last: after the strategy, before the next
/// turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Turns of one seat's policy, including notes to itself.
    pub turns: u32,
    /// Tokens of one seat's context: prompt and replies together, with the token that ends a reply.
    pub context_tokens: usize,
    /// Calls of all seats.
    pub calls: u32,
    /// Wall-clock time.
    pub time: Duration,
    /// Tokens of one reply; a reply that reaches it is used as it is.
    pub reply_tokens: usize,
    /// Tokens of one reply's thoughts; a reply that still thinks then is cut. None for no limit of their own.
    pub reasoning_tokens: Option<usize>,
    /// Size of the record as far as plugins cause it, in bytes; exceeding it is a failure of the plugin.
    pub episode_bytes: u64,
    /// Size of the records of all live episodes, as far as plugins cause it, in bytes. Above it, turns wait.
    pub live_bytes: u64,
    /// Early-stop rule; checked last.
    pub early_stop: EarlyStop,
}

/// Early-stop rule. A stopped episode ends as at any other limit and is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EarlyStop {
    /// Maximum number of visits to one state; the episode ends above it. Requires an environment with state keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub repeats: Option<u32>,
    /// Number of consecutive failed calls that ends the episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub failed_calls: Option<u32>,
}
