//! Losses over pairs of a group's episodes, which depend on sums of log-probabilities over whole episodes.
//!
//! A sum may be spread over several parts of a batch, so the gradient takes two passes: the first computes all sums and
//! the derivative by each sum; the second uses the derivatives as advantages of the plain surrogate.

use std::cmp::Ordering;
use std::ops::Range;

use super::layout::Batch;
use super::minibatch::tokens_in_loss;
use crate::token_stats::Column;
use gymkhana_algorithm::{RegressionOver, Surrogate};

/// Tokens of an input whose log-ratios are added up.
#[derive(Debug, Clone, PartialEq)]
struct Unit {
    input: usize,
    tokens: Range<usize>,
}

/// Loss of a minibatch. Sets the advantages with which the plain surrogate, summed over tokens and divided by the number
/// of episodes, has the gradient of this loss. [`Column::Proximal`] must hold the current log-probabilities.
pub(super) fn compare(batch: &mut Batch, episodes: &[usize], surrogate: Surrogate) -> f64 {
    let in_loss = tokens_in_loss(batch);
    let counted = episodes.iter().filter(|episode| in_loss[**episode] > 0).count() as f64;
    let with_units = |(one, other)| Some((one, other, units(batch, one, other, surrogate)?));
    let pairs: Vec<(usize, usize, [Unit; 2])> =
        pairs(batch, episodes, surrogate).into_iter().filter_map(with_units).collect();
    let count = pairs.len() as f64;
    let mut derivatives: Vec<Vec<f64>> = batch.inputs.iter().map(|input| vec![0.0; input.tokens.len()]).collect();
    let mut loss = 0.0;
    for (one, other, units) in pairs {
        let [first, second] = units.each_ref().map(|unit| log_ratios(batch, unit, surrogate));
        let reward_difference = batch.inputs[one].reward - batch.inputs[other].reward;
        let (value, slope) = of_pair(surrogate, first - second, reward_difference);
        loss += value / count;
        for (Unit { input, tokens }, sign) in units.into_iter().zip([1.0, -1.0]) {
            let slope = sign * slope / count;
            derivatives[input][tokens].iter_mut().for_each(|derivative| *derivative += slope);
        }
    }
    for (input, derivatives) in batch.inputs.iter_mut().zip(derivatives) {
        if episodes.contains(&input.episode) {
            let advantages = input.tokens.column_mut(Column::Advantage);
            advantages.iter_mut().zip(derivatives).for_each(|(advantage, slope)| *advantage = -slope * counted);
        }
    }
    loss
}

/// The tokens that a pair compares; `None` if one episode ends where they begin to differ.
fn units(batch: &Batch, one: usize, other: usize, surrogate: Surrogate) -> Option<[Unit; 2]> {
    let whole = |input: usize| Unit { input, tokens: 0..batch.inputs[input].tokens.len() };
    if !matches!(surrogate, Surrogate::Regression { over: RegressionOver::Reply, .. }) {
        return Some([whole(one), whole(other)]);
    }
    // The input that trains on a turn identifies the turn's reply.
    let owner = |input: usize, turn: usize| batch.inputs[input].turns.get(turn)?.shared_with.or(Some(input));
    let mut turn = 0;
    while owner(one, turn).is_some() && owner(one, turn) == owner(other, turn) {
        turn += 1;
    }
    let reply = |input: usize| {
        let input = owner(input, turn)?;
        Some(Unit { input, tokens: batch.inputs[input].turns.get(turn)?.tokens.clone() })
    };
    Some([reply(one)?, reply(other)?])
}

/// Sum of a unit's log-ratios: to the reference policy for preferences, else to the behaviour policy.
fn log_ratios(batch: &Batch, unit: &Unit, surrogate: Surrogate) -> f64 {
    let to_reference = matches!(surrogate, Surrogate::Preference { .. });
    let base = if to_reference { Column::Reference } else { Column::Behaviour };
    let tokens = &batch.inputs[unit.input].tokens;
    let in_loss = unit.tokens.clone().filter(|token| tokens.is_in_loss(*token));
    in_loss.map(|token| tokens.get(Column::Proximal, token) - tokens.get(base, token)).sum()
}

/// Loss of a pair from the differences of its sums and of its rewards, and the derivative by the difference of sums.
fn of_pair(surrogate: Surrogate, difference: f64, reward_difference: f64) -> (f64, f64) {
    match surrogate {
        Surrogate::Preference { beta } => {
            let margin = beta * difference;
            // -log sigmoid(m) = log(1 + exp(-m)), from the side on which it does not overflow.
            let loss = (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
            (loss, -beta / (1.0 + margin.exp()))
        }
        Surrogate::Regression { eta, .. } => {
            let misfit = difference / eta - reward_difference;
            (misfit * misfit, 2.0 * misfit / eta)
        }
        Surrogate::Clip { .. }
        | Surrogate::Cispo { .. }
        | Surrogate::Importance {}
        | Surrogate::Plain {}
        | Surrogate::Distillation { .. } => (0.0, 0.0),
    }
}

/// Pairs of inputs of one seat in one group. For preferences the better one comes first and equal rewards give no pair.
fn pairs(batch: &Batch, episodes: &[usize], surrogate: Surrogate) -> Vec<(usize, usize)> {
    let there: Vec<usize> = (0..batch.inputs.len())
        .filter(|index| episodes.contains(&batch.inputs[*index].episode))
        .filter(|index| batch.inputs[*index].tokens.in_loss().next().is_some())
        .collect();
    let mut pairs = Vec::new();
    for (place, one) in there.iter().enumerate() {
        for other in &there[place + 1..] {
            let [first, second] = [*one, *other].map(|index| &batch.inputs[index]);
            if (first.group, first.seat) != (second.group, second.seat) {
                continue;
            }
            match (surrogate, first.reward.total_cmp(&second.reward)) {
                (Surrogate::Preference { .. }, Ordering::Equal) => {}
                (Surrogate::Preference { .. }, Ordering::Less) => pairs.push((*other, *one)),
                _ => pairs.push((*one, *other)),
            }
        }
    }
    pairs
}
