//! System prompt, limits and sampling of each seat, by its own rules and the run's.

use gymkhana_policy::Sampling;
use gymkhana_rules::SeatRules;

use crate::Rollout;

/// Sampling of a seat with these rules in an episode with this sampling.
fn seat_sampling(rules: &SeatRules, of_episode: Sampling) -> Sampling {
    match rules.temperature {
        Some(temperature) if !of_episode.is_greedy() => Sampling { temperature, ..of_episode },
        _ => of_episode,
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
        self.rules_of(seat).map_or(of_episode, |rules| seat_sampling(rules, of_episode))
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
        assert_eq!(seat_sampling(&rules, Sampling::GREEDY), Sampling::GREEDY);
        assert_eq!(seat_sampling(&rules, Sampling::at(1.0)), Sampling::at(0.5));
        assert_eq!(seat_sampling(&SeatRules::default(), Sampling::at(1.0)), Sampling::at(1.0));
    }
}
