//! The least total reward that the declared ranges allow.

use gymkhana_sandbox::Range;

use super::{RewardSum, RewardTerm};
use crate::PluginSet;

impl PluginSet {
    /// The least total reward of a seat that the declared ranges of the environment and the rewards allow, with the
    /// weights of a training step. A term with a gate may also count nothing.
    #[must_use]
    pub fn least_total(&self, sum: &RewardSum, step: u64) -> f64 {
        let environment = (&sum.environment, self.environment_info.rewards);
        let rewards = self.rewards.iter().map(|reward| (&reward.term, reward.info.range));
        std::iter::once(environment).chain(rewards).map(|(term, range)| least_of(term, range, step)).sum()
    }
}

/// The least contribution of a source of rewards to a total.
fn least_of(term: &RewardTerm, range: Range, step: u64) -> f64 {
    let weight = term.weight.at(step);
    let least = (weight * range.low).min(weight * range.high);
    if term.gate.is_some() { least.min(0.0) } else { least }
}

#[cfg(test)]
mod tests {
    use super::super::Gate;
    use super::*;

    /// By hand: the weighted end of the range that is lower; with a gate at most 0.
    #[test]
    fn the_least_contribution_of_a_term() {
        let range = |low, high| Range { low, high };
        let gated = |weight: f64| RewardTerm {
            gate: Some(Gate::parse("one", "two.total >= 0.5").expect("a condition")),
            ..RewardTerm::from(weight)
        };
        for (term, range, expected) in [
            (RewardTerm::from(1.0), range(-1.0, 1.0), -1.0),
            (RewardTerm::from(0.5), range(-4.0, 4.0), -2.0),
            (RewardTerm::from(-2.0), range(0.0, 1.0), -2.0),
            (RewardTerm::from(1.0), range(0.25, 1.0), 0.25),
            (gated(1.0), range(0.25, 1.0), 0.0),
            (gated(1.0), range(-3.0, 4.0), -3.0),
            (RewardTerm::from(0.0), range(-3.0, 4.0), 0.0),
        ] {
            assert_eq!(least_of(&term, range, 7), expected);
        }
    }
}
