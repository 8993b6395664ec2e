//! Generalised advantage estimation against a critic's values (Schulman et al. 2016).

use super::input::AdvantageInput;
use crate::token_stats::Column;
use gymkhana_algorithm::{Critic, Level};

/// Sets advantages and the critic's targets. `penalties` are subtracted from token rewards, one per token of the input;
/// the value after the last token or turn is 0.
pub(super) fn generalise(input: &mut AdvantageInput, critic: Critic, penalties: &[f64]) {
    match critic.level {
        Level::Token => by_token(input, critic, penalties),
        Level::Turn => by_turn(input, critic, penalties),
    }
}

fn by_token(input: &mut AdvantageInput, critic: Critic, penalties: &[f64]) {
    let mut rewards: Vec<f64> = penalties.iter().map(|penalty| -penalty).collect();
    for (turn, reward) in input.turns.iter().zip(&input.turn_rewards()) {
        if let Some(last) = turn.tokens.end.checked_sub(1).and_then(|last| rewards.get_mut(last)) {
            *last += reward;
        }
    }
    let values = input.tokens.column(Column::Value).into_owned();
    for (token, advantage) in advantages(&rewards, &values, critic).into_iter().enumerate() {
        input.tokens.set(Column::Advantage, token, advantage);
        input.tokens.set(Column::ValueTarget, token, advantage + values[token]);
        input.tokens.set(Column::ValueMask, token, 1.0);
    }
}

fn by_turn(input: &mut AdvantageInput, critic: Critic, penalties: &[f64]) {
    let mut rewards = input.turn_rewards();
    for (turn, reward) in input.turns.iter().zip(&mut rewards) {
        *reward -= penalties[turn.tokens.clone()].iter().sum::<f64>();
    }
    let first = |turn: &super::TurnPart| turn.tokens.clone().next();
    let value = |turn| first(turn).map_or(0.0, |token| input.tokens.get(Column::Value, token));
    let values: Vec<f64> = input.turns.iter().map(value).collect();
    for (turn, advantage) in advantages(&rewards, &values, critic).into_iter().enumerate() {
        input.set_turn_advantage(turn, advantage);
        if let Some(token) = first(&input.turns[turn]) {
            input.tokens.set(Column::ValueTarget, token, advantage + values[turn]);
            input.tokens.set(Column::ValueMask, token, 1.0);
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
        // Rewards 0, 0, 1; values 0.5, 0.25, 0.5. TD errors with γ = 0.5: -0.375, 0, 0.5.
        let (rewards, values) = ([0.0, 0.0, 1.0], [0.5, 0.25, 0.5]);
        assert_eq!(advantages(&rewards, &values, critic(0.5, 0.0)), [-0.375, 0.0, 0.5]);
        // λ = 1: discounted return minus value.
        assert_eq!(advantages(&rewards, &values, critic(0.5, 1.0)), [0.25 - 0.5, 0.5 - 0.25, 0.5]);
        assert!(advantages(&[], &[], critic(1.0, 1.0)).is_empty());
    }
}
