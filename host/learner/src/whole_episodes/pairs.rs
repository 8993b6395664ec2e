//! Losses over pairs of a group's episodes: preferences (DPO) and regression on differences of rewards.

use std::cmp::Ordering;

use gymkhana_algorithm::{RegressionOver, Surrogate};

use super::{Judged, Slopes, Unit};
use crate::layout::Batch;
use gymkhana_engine::Column;

/// The mean loss of the pairs.
pub(super) fn slopes(batch: &Batch, episodes: &[usize], surrogate: Surrogate) -> (Slopes, Judged) {
    let with_units = |(one, other)| Some((one, other, units(batch, one, other, surrogate)?));
    let pairs: Vec<(usize, usize, [Unit; 2])> =
        pairs(batch, episodes, surrogate).into_iter().filter_map(with_units).collect();
    let count = pairs.len() as f64;
    let (mut slopes, mut judged) = (Slopes::zero(batch), Judged::default());
    let base = if matches!(surrogate, Surrogate::Preference { .. }) { Column::Reference } else { Column::Behaviour };
    for (one, other, units) in pairs {
        let [first, second] = units.each_ref().map(|unit| unit.log_ratios(batch, base));
        let reward_difference = batch.inputs[one].reward - batch.inputs[other].reward;
        let (value, slope) = of_pair(surrogate, first - second, reward_difference);
        judged.loss += value / count;
        if let Surrogate::Preference { beta } = surrogate {
            judged.preferences.add_pair([beta * first, beta * second]);
        }
        for (unit, sign) in units.into_iter().zip([1.0, -1.0]) {
            slopes.add(unit, sign * slope / count);
        }
    }
    (slopes, judged)
}

/// The tokens that a pair compares; `None` if one episode ends where they begin to differ.
fn units(batch: &Batch, one: usize, other: usize, surrogate: Surrogate) -> Option<[Unit; 2]> {
    if !matches!(surrogate, Surrogate::Regression { over: RegressionOver::Reply, .. }) {
        return Some([one, other].map(|input| Unit::path(batch, input)));
    }
    // The input that trains on a turn identifies the turn's reply.
    let owner = |input: usize, turn: usize| batch.inputs[input].turns.get(turn)?.shared_with.or(Some(input));
    let mut turn = 0;
    while owner(one, turn).is_some() && owner(one, turn) == owner(other, turn) {
        turn += 1;
    }
    let reply = |input: usize| {
        let input = owner(input, turn)?;
        Some(Unit(vec![(input, batch.inputs[input].turns.get(turn)?.tokens.clone())]))
    };
    Some([reply(one)?, reply(other)?])
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
        | Surrogate::UnpairedPreference { .. }
        | Surrogate::Distillation { .. } => (0.0, 0.0),
    }
}

/// Pairs of inputs of one seat in one group. For preferences the better one comes first and equal rewards give no pair.
fn pairs(batch: &Batch, episodes: &[usize], surrogate: Surrogate) -> Vec<(usize, usize)> {
    let there: Vec<usize> = Unit::paths(batch, episodes).into_iter().map(|(input, _)| input).collect();
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
