//! Rules of one seat: its system prompt, limits and sampling, where they differ from the run's.

use gymkhana_policy::Sampling;

use crate::Rollout;

/// Rules of one seat. What is unset is as in the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeatRules {
    /// First message of the seat's conversation, instead of the run's.
    pub system: Option<String>,
    /// Turns of the seat. The smaller of this limit and the run's ends the episode.
    pub turns: Option<u32>,
    /// Tokens of one reply, at most the run's.
    pub reply_tokens: Option<usize>,
    /// Temperature of sampling. Greedy measurements stay greedy.
    pub temperature: Option<f32>,
}

impl SeatRules {
    /// Sampling of the seat in an episode with this sampling.
    pub(crate) fn sampling(&self, of_episode: Sampling) -> Sampling {
        match self.temperature {
            Some(temperature) if !of_episode.is_greedy() => Sampling { temperature, ..of_episode },
            _ => of_episode,
        }
    }
}

impl Rollout {
    /// Sets rules of seats, in the order of the seats. Seats beyond the list play by the run's.
    #[must_use]
    pub fn with_seat_rules(mut self, rules: Vec<SeatRules>) -> Self {
        self.seat_rules = rules;
        self
    }

    /// First message of a seat's conversation.
    pub(crate) fn system_of(&self, seat: u32) -> Option<&str> {
        self.rules_of(seat).and_then(|rules| rules.system.as_deref()).or(self.system.as_deref())
    }

    /// Tokens of one reply of a seat.
    pub(crate) fn reply_tokens_of(&self, seat: u32) -> usize {
        let own = self.rules_of(seat).and_then(|rules| rules.reply_tokens);
        own.map_or(self.limits.reply_tokens, |own| own.min(self.limits.reply_tokens))
    }

    /// Turns of a seat under a limit of the episode.
    pub(crate) fn turns_of(&self, seat: u32, of_episode: u32) -> u32 {
        let own = self.rules_of(seat).and_then(|rules| rules.turns);
        own.map_or(of_episode, |own| own.min(of_episode))
    }

    /// Sampling of a seat in an episode with this sampling.
    pub(crate) fn sampling_of(&self, seat: u32, of_episode: Sampling) -> Sampling {
        self.rules_of(seat).map_or(of_episode, |rules| rules.sampling(of_episode))
    }

    fn rules_of(&self, seat: u32) -> Option<&SeatRules> {
        self.seat_rules.get(seat as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_episodes_stay_greedy() {
        let rules = SeatRules { temperature: Some(0.5), ..SeatRules::default() };
        assert_eq!(rules.sampling(Sampling::GREEDY), Sampling::GREEDY);
        assert_eq!(rules.sampling(Sampling::at(1.0)), Sampling::at(0.5));
        assert_eq!(SeatRules::default().sampling(Sampling::at(1.0)), Sampling::at(1.0));
    }
}
