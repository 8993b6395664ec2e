//! Limits of an episode.

use std::time::Duration;

use gymkhana_record::Ending;

use crate::EarlyStop;

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

/// Usage of an episode so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) turns: u32,
    pub(crate) context_tokens: usize,
    pub(crate) calls: u32,
    pub(crate) time: Duration,
}

impl Limits {
    /// The first limit, in the order of the fields, that leaves no room for another turn.
    pub(crate) fn reached(&self, used: Usage) -> Option<Ending> {
        if used.turns >= self.turns {
            Some(Ending::TurnLimit)
        } else if used.context_tokens >= self.context_tokens {
            Some(Ending::ContextLimit)
        } else if used.calls >= self.calls {
            Some(Ending::CallLimit)
        } else if used.time >= self.time {
            Some(Ending::TimeLimit)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked_in_their_order() {
        let limits = Limits {
            turns: 2,
            context_tokens: 10,
            calls: 3,
            time: Duration::from_secs(1),
            reply_tokens: 5,
            reasoning_tokens: None,
            episode_bytes: 1 << 20,
            live_bytes: 1 << 30,
            early_stop: EarlyStop::default(),
        };
        let mut used = Usage { turns: 2, context_tokens: 10, calls: 3, time: Duration::from_secs(1) };
        assert_eq!(limits.reached(used), Some(Ending::TurnLimit));
        used.turns = 1;
        assert_eq!(limits.reached(used), Some(Ending::ContextLimit));
        used.context_tokens = 9;
        assert_eq!(limits.reached(used), Some(Ending::CallLimit));
        used.calls = 2;
        assert_eq!(limits.reached(used), Some(Ending::TimeLimit));
        used.time = Duration::ZERO;
        assert_eq!(limits.reached(used), None);
    }
}
