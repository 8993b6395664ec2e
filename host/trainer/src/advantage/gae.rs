//! Generalised advantages against a critic's values (Schulman et al. 2016).

use super::input::AdvantageInput;
use crate::algorithm::{Critic, Level};

/// Sets advantages and the critic's targets. `penalties` are taken off the rewards of tokens, one for each of the
/// trajectory's tokens; behind the end nothing is expected.
pub(super) fn generalise(trajectory: &mut AdvantageInput, critic: Critic, penalties: &[f64]) {
    let earned = trajectory.earnings();
    match critic.level {
        Level::Token => {
            let mut rewards: Vec<f64> = penalties.iter().map(|penalty| -penalty).collect();
            let mut end = 0;
            for (turn, reward) in trajectory.turns.iter().zip(&earned) {
                end += turn.tokens.len();
                if let Some(last) = end.checked_sub(1).and_then(|last| rewards.get_mut(last)) {
                    *last += reward;
                }
            }
            let values: Vec<f64> = trajectory.tokens().map(|token| token.value).collect();
            let advantages = advantages(&rewards, &values, critic);
            for (token, advantage) in trajectory.tokens_mut().zip(advantages) {
                token.advantage = advantage;
                token.target = Some(advantage + token.value);
            }
        }
        Level::Turn => {
            let mut rewards = earned;
            let mut rest = penalties;
            for (turn, reward) in trajectory.turns.iter().zip(&mut rewards) {
                let (own, behind) = rest.split_at(turn.tokens.len().min(rest.len()));
                *reward -= own.iter().sum::<f64>();
                rest = behind;
            }
            let first = |turn: &super::TurnPart| turn.tokens.first().map_or(0.0, |token| token.value);
            let values: Vec<f64> = trajectory.turns.iter().map(first).collect();
            for (turn, advantage) in trajectory.turns.iter_mut().zip(advantages(&rewards, &values, critic)) {
                turn.tokens.iter_mut().for_each(|token| token.advantage = advantage);
                if let Some(first) = turn.tokens.first_mut() {
                    first.target = Some(advantage + first.value);
                }
            }
        }
    }
}

fn advantages(rewards: &[f64], values: &[f64], critic: Critic) -> Vec<f64> {
    let mut found = vec![0.0; rewards.len()];
    let (mut next_value, mut next_advantage) = (0.0, 0.0);
    for at in (0..rewards.len()).rev() {
        let td_error = rewards[at] + critic.discount * next_value - values[at];
        next_advantage = td_error + critic.discount * critic.lambda * next_advantage;
        next_value = values[at];
        found[at] = next_advantage;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn critic(discount: f64, lambda: f64) -> Critic {
        Critic { level: Level::Token, discount, lambda, learning_rate: 1e-3, warmup_steps: 0, clip: None }
    }

    #[test]
    fn by_hand() {
        // Rewards 0, 0, 1; values 0.5, 0.25, 0.5. Surprises with γ = 0.5: -0.375, 0, 0.5.
        let (rewards, values) = ([0.0, 0.0, 1.0], [0.5, 0.25, 0.5]);
        assert_eq!(advantages(&rewards, &values, critic(0.5, 0.0)), [-0.375, 0.0, 0.5]);
        // λ = 1 is what came, discounted, less the value.
        assert_eq!(advantages(&rewards, &values, critic(0.5, 1.0)), [0.25 - 0.5, 0.5 - 0.25, 0.5]);
        assert!(advantages(&[], &[], critic(1.0, 1.0)).is_empty());
    }
}
