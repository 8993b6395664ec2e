//! Generalised advantage estimation against a critic's values (Schulman et al. 2016).
//!
//! In a tree of episodes, each episode is estimated along its whole path. Turns that several episodes share get the mean
//! of their estimates, as they get the mean of the advantages without a critic.

use std::collections::BTreeMap;
use std::ops::Range;

use super::input::AdvantageInput;
use gymkhana_algorithm::{Critic, Level};
use gymkhana_engine::Column;

/// An action of an episode: one token or one turn.
#[derive(Debug, Clone, PartialEq)]
struct ValuedAction {
    reward: f64,
    /// The critic's value before the action.
    value: f64,
    /// The input that trains on the action.
    input: usize,
    /// The action's tokens in that input. Empty if no input trains on the turn.
    tokens: Range<usize>,
}

/// The advantages of an action in the episodes that share it.
struct Estimate {
    action: ValuedAction,
    sum: f64,
    episodes: f64,
}

/// Sets advantages and the critic's targets. `penalties` are subtracted from token rewards, one list per input and one
/// number per token. The value after the last action is [`AdvantageInput::end_value`].
pub(super) fn generalise(batch: &mut [AdvantageInput], critic: Critic, penalties: &[Vec<f64>]) {
    let mut estimates: BTreeMap<(usize, usize), Estimate> = BTreeMap::new();
    for index in 0..batch.len() {
        let path = path(batch, index, critic.level, penalties);
        let found = advantages(&path, batch[index].end_value, critic);
        for (action, advantage) in path.into_iter().zip(found).filter(|(action, _)| !action.tokens.is_empty()) {
            let key = (action.input, action.tokens.start);
            let estimate = estimates.entry(key).or_insert_with(|| Estimate { action, sum: 0.0, episodes: 0.0 });
            estimate.sum += advantage;
            estimate.episodes += 1.0;
        }
    }
    for Estimate { action, sum, episodes } in estimates.into_values() {
        let advantage = sum / episodes;
        let (tokens, first) = (&mut batch[action.input].tokens, action.tokens.start);
        tokens.fill(Column::Advantage, action.tokens, advantage);
        tokens.set(Column::ValueTarget, first, advantage + action.value);
        tokens.set(Column::ValueMask, first, 1.0);
    }
}

/// The actions of an episode, with those of the turns that other inputs train on.
fn path(batch: &[AdvantageInput], index: usize, level: Level, penalties: &[Vec<f64>]) -> Vec<ValuedAction> {
    let mut actions: Vec<ValuedAction> = Vec::new();
    for (turn, (part, reward)) in batch[index].turns.iter().zip(batch[index].turn_rewards()).enumerate() {
        let input = part.shared_with.unwrap_or(index);
        let tokens = batch[input].turns.get(turn).map_or(0..0, |part| part.tokens.clone());
        let value = |token| batch[input].tokens.get(Column::Value, token);
        let cost = |range: Range<usize>| penalties[input][range].iter().sum::<f64>();
        match level {
            Level::Turn => {
                let value = tokens.clone().next().map_or(0.0, value);
                actions.push(ValuedAction { reward: reward - cost(tokens.clone()), value, input, tokens });
            }
            Level::Token => {
                actions.extend(tokens.map(|token| {
                    let tokens = token..token + 1;
                    ValuedAction { reward: -cost(tokens.clone()), value: value(token), input, tokens }
                }));
                if let Some(last) = actions.last_mut() {
                    last.reward += reward;
                }
            }
        }
    }
    actions
}

fn advantages(actions: &[ValuedAction], end_value: f64, critic: Critic) -> Vec<f64> {
    let mut found = vec![0.0; actions.len()];
    let (mut next_value, mut next_advantage) = (end_value, 0.0);
    for (at, action) in actions.iter().enumerate().rev() {
        let td_error = action.reward + critic.discount * next_value - action.value;
        next_advantage = td_error + critic.discount * critic.lambda * next_advantage;
        next_value = action.value;
        found[at] = next_advantage;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::TurnPart;
    use super::*;
    use gymkhana_engine::TokenStats;

    fn critic(level: Level, discount: f64, lambda: f64) -> Critic {
        Critic {
            level,
            discount,
            lambda,
            learning_rate: 1e-3,
            schedule: None,
            warmup_steps: 0,
            clip: None,
            bootstrap: true,
        }
    }

    /// An episode of turns of one token each, with the reward and the value of each.
    fn episode(turns: &[(f64, f64)]) -> AdvantageInput {
        let mut input = AdvantageInput::default();
        for (reward, value) in turns {
            let mut tokens = TokenStats::default();
            tokens.push(&[(Column::Value, *value)]);
            input.push_turn(TurnPart { reward: *reward, ..TurnPart::default() }, &tokens);
        }
        input
    }

    fn estimate(batch: &mut [AdvantageInput], critic: Critic) -> Vec<Vec<f64>> {
        let penalties: Vec<Vec<f64>> = batch.iter().map(|input| vec![0.0; input.tokens.len()]).collect();
        generalise(batch, critic, &penalties);
        batch.iter().map(|input| input.tokens.column(Column::Advantage).into_owned()).collect()
    }

    /// Rewards 0, 0, 1; values 0.5, 0.25, 0.5. TD errors with γ = 0.5: -0.375, 0, 0.5.
    #[test]
    fn by_hand() {
        for level in [Level::Token, Level::Turn] {
            let one = || [episode(&[(0.0, 0.5), (0.0, 0.25), (1.0, 0.5)])];
            assert_eq!(estimate(&mut one(), critic(level, 0.5, 0.0)), [[-0.375, 0.0, 0.5]]);
            // λ = 1: discounted return minus value.
            assert_eq!(estimate(&mut one(), critic(level, 0.5, 1.0)), [[0.25 - 0.5, 0.5 - 0.25, 0.5]]);
        }
        assert_eq!(estimate(&mut [AdvantageInput::default()], critic(Level::Token, 1.0, 1.0)), [[0.0; 0]]);
    }

    /// A value of 0.8 after the end adds γ · 0.8 to the last return and γ² · 0.8 to the one before.
    #[test]
    fn an_episode_that_was_cut_short_continues_with_its_end_value() {
        for level in [Level::Token, Level::Turn] {
            let mut batch = [AdvantageInput { end_value: 0.8, ..episode(&[(0.0, 0.5), (1.0, 0.5)]) }];
            let [found] = &estimate(&mut batch, critic(level, 0.5, 1.0))[..] else { panic!("one episode") };
            for (found, expected) in found.iter().zip([0.5 + 0.2 - 0.5, 1.0 + 0.4 - 0.5]) {
                assert!((found - expected).abs() < 1e-12, "{level:?}: {found} is not {expected}");
            }
        }
    }

    /// The parent earns 1 after the shared turn, its branch 0. With γ = λ = 1 the returns at the shared turn are 1 and 0,
    /// their mean is 1/2; the parent alone would give 1.
    #[test]
    fn shared_turns_have_the_mean_of_the_estimates_of_their_episodes() {
        for level in [Level::Token, Level::Turn] {
            let parent = episode(&[(0.0, 0.25), (1.0, 0.5)]);
            let mut branch = AdvantageInput::default();
            let shared = TurnPart { shared_with: Some(0), ..TurnPart::default() };
            branch.push_turn(shared, &TokenStats::default());
            let mut own = TokenStats::default();
            own.push(&[(Column::Value, 0.125)]);
            branch.push_turn(TurnPart::default(), &own);
            let mut batch = [parent, branch];
            let found = estimate(&mut batch, critic(level, 1.0, 1.0));
            assert_eq!(found, [vec![0.5 - 0.25, 1.0 - 0.5], vec![-0.125]], "{level:?}");
            assert_eq!(batch[0].tokens.get(Column::ValueTarget, 0), 0.5, "{level:?}");
        }
    }
}
