//! Losses of pairs of a group's episodes, which look at sums of log-probabilities over whole trajectories.
//!
//! A sum may be spread over many parts of a batch, so such a loss goes backwards in two passes: the first tells all sums
//! and with them each sum's derivative, which is an advantage of the plain surrogate in the second.

use std::cmp::Ordering;

use super::layout::Batch;
use super::minibatch::learnt_by_episode;
use crate::advantage::AdvantageInput;
use crate::algorithm::Surrogate;

/// The loss of a minibatch; sets the advantages whose plain surrogate, summed over tokens and divided by the number of
/// episodes, has its gradient. `proximal` must be the present log-probabilities.
pub(super) fn compare(batch: &mut Batch, episodes: &[usize], surrogate: Surrogate) -> f64 {
    let learnt = learnt_by_episode(batch);
    let counted = episodes.iter().filter(|episode| learnt[**episode] > 0).count() as f64;
    let sums: Vec<f64> = batch.trajectories.iter().map(|trajectory| log_ratios(trajectory, surrogate)).collect();
    let pairs = pairs(batch, episodes, surrogate);
    let mut derivatives = vec![0.0; sums.len()];
    let mut loss = 0.0;
    for (one, other) in &pairs {
        let worth = batch.trajectories[*one].reward - batch.trajectories[*other].reward;
        let (value, slope) = of_pair(surrogate, sums[*one] - sums[*other], worth);
        loss += value / pairs.len() as f64;
        derivatives[*one] += slope / pairs.len() as f64;
        derivatives[*other] -= slope / pairs.len() as f64;
    }
    for (trajectory, derivative) in batch.trajectories.iter_mut().zip(derivatives) {
        if episodes.contains(&trajectory.episode) {
            trajectory.tokens_mut().for_each(|token| token.advantage = -derivative * counted);
        }
    }
    loss
}

/// The sum of a trajectory's log-ratios: to the reference for preferences, else to the policy that sampled it.
fn log_ratios(trajectory: &AdvantageInput, surrogate: Surrogate) -> f64 {
    let to_reference = matches!(surrogate, Surrogate::Preference { .. });
    let ratios =
        trajectory.learnt().map(|token| token.proximal - if to_reference { token.reference } else { token.behaviour });
    ratios.sum()
}

/// The loss of a pair whose sums differ so much and whose rewards differ so much, and its derivative by the former.
fn of_pair(surrogate: Surrogate, difference: f64, worth: f64) -> (f64, f64) {
    match surrogate {
        Surrogate::Preference { beta } => {
            let margin = beta * difference;
            // -log sigmoid(m) = log(1 + exp(-m)), from the side on which it does not overflow.
            let loss = (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
            (loss, -beta / (1.0 + margin.exp()))
        }
        Surrogate::Regression { eta } => {
            let misfit = difference / eta - worth;
            (misfit * misfit, 2.0 * misfit / eta)
        }
        Surrogate::Clip { .. } | Surrogate::Cispo { .. } | Surrogate::Importance | Surrogate::Plain => (0.0, 0.0),
    }
}

/// Every two trajectories of a seat in a group; for preferences the better one first, and none of equals.
fn pairs(batch: &Batch, episodes: &[usize], surrogate: Surrogate) -> Vec<(usize, usize)> {
    let there: Vec<usize> = (0..batch.trajectories.len())
        .filter(|index| episodes.contains(&batch.trajectories[*index].episode))
        .filter(|index| batch.trajectories[*index].learnt().next().is_some())
        .collect();
    let mut pairs = Vec::new();
    for (place, one) in there.iter().enumerate() {
        for other in &there[place + 1..] {
            let [first, second] = [*one, *other].map(|index| &batch.trajectories[index]);
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
