//! Losses over pairs of a group's episodes, which depend on sums of log-probabilities over whole episodes.
//!
//! A sum may be spread over several parts of a batch, so the gradient takes two passes: the first computes all sums and
//! the derivative by each sum; the second uses the derivatives as advantages of the plain surrogate.

use std::cmp::Ordering;

use super::layout::Batch;
use super::minibatch::tokens_in_loss;
use crate::advantage::AdvantageInput;
use crate::token_stats::Column;
use gymkhana_algorithm::Surrogate;

/// Loss of a minibatch. Sets the advantages with which the plain surrogate, summed over tokens and divided by the number
/// of episodes, has the gradient of this loss. [`Column::Proximal`] must hold the current log-probabilities.
pub(super) fn compare(batch: &mut Batch, episodes: &[usize], surrogate: Surrogate) -> f64 {
    let in_loss = tokens_in_loss(batch);
    let counted = episodes.iter().filter(|episode| in_loss[**episode] > 0).count() as f64;
    let sums: Vec<f64> = batch.inputs.iter().map(|input| log_ratios(input, surrogate)).collect();
    let pairs = pairs(batch, episodes, surrogate);
    let mut derivatives = vec![0.0; sums.len()];
    let mut loss = 0.0;
    for (one, other) in &pairs {
        let reward_difference = batch.inputs[*one].reward - batch.inputs[*other].reward;
        let (value, slope) = of_pair(surrogate, sums[*one] - sums[*other], reward_difference);
        loss += value / pairs.len() as f64;
        derivatives[*one] += slope / pairs.len() as f64;
        derivatives[*other] -= slope / pairs.len() as f64;
    }
    for (input, derivative) in batch.inputs.iter_mut().zip(derivatives) {
        if episodes.contains(&input.episode) {
            input.tokens.column_mut(Column::Advantage).fill(-derivative * counted);
        }
    }
    loss
}

/// Sum of an episode's log-ratios: to the reference policy for preferences, else to the behaviour policy.
fn log_ratios(input: &AdvantageInput, surrogate: Surrogate) -> f64 {
    let to_reference = matches!(surrogate, Surrogate::Preference { .. });
    let base = if to_reference { Column::Reference } else { Column::Behaviour };
    let tokens = &input.tokens;
    tokens.in_loss().map(|token| tokens.get(Column::Proximal, token) - tokens.get(base, token)).sum()
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
        Surrogate::Regression { eta } => {
            let misfit = difference / eta - reward_difference;
            (misfit * misfit, 2.0 * misfit / eta)
        }
        Surrogate::Clip { .. } | Surrogate::Cispo { .. } | Surrogate::Importance {} | Surrogate::Plain {} => (0.0, 0.0),
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
