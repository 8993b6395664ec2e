//! Usage of an episode, and the limit that it reaches.

use std::time::Duration;

use gymkhana_record::Ending;
use gymkhana_rules::Limits;

/// Usage of an episode so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EpisodeUsage {
    pub(crate) turns: u32,
    pub(crate) context_tokens: usize,
    pub(crate) calls: u32,
    pub(crate) time: Duration,
}

impl EpisodeUsage {
    /// The first limit, in the order of the fields, that leaves no room for another turn.
    pub(crate) fn reached(self, limits: &Limits) -> Option<Ending> {
        if self.turns >= limits.turns {
            Some(Ending::TurnLimit)
        } else if self.context_tokens >= limits.context_tokens {
            Some(Ending::ContextLimit)
        } else if self.calls >= limits.calls {
            Some(Ending::CallLimit)
        } else if self.time >= limits.time {
            Some(Ending::TimeLimit)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_rules::EarlyStop;

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
        let mut used = EpisodeUsage { turns: 2, context_tokens: 10, calls: 3, time: Duration::from_secs(1) };
        assert_eq!(used.reached(&limits), Some(Ending::TurnLimit));
        used.turns = 1;
        assert_eq!(used.reached(&limits), Some(Ending::ContextLimit));
        used.context_tokens = 9;
        assert_eq!(used.reached(&limits), Some(Ending::CallLimit));
        used.calls = 2;
        assert_eq!(used.reached(&limits), Some(Ending::TimeLimit));
        used.time = Duration::ZERO;
        assert_eq!(used.reached(&limits), None);
    }
}
