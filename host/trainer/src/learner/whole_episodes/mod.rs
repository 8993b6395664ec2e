//! Losses over whole episodes, which depend on sums of their tokens' log-probabilities.
//!
//! A sum may be spread over several parts of a batch, so the gradient takes two passes: the first computes all sums and
//! the derivative by each sum; the second uses the derivatives as advantages of the plain surrogate.

mod figures;
mod pairs;
mod unpaired;

use std::ops::Range;

use gymkhana_algorithm::Surrogate;

use super::layout::Batch;
use super::minibatch::tokens_in_loss;
use crate::token_stats::Column;
pub(super) use figures::Preferences;
pub(super) use unpaired::unrelated;

/// Loss of a minibatch, and what it says about preferences.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub loss: f64,
    pub preferences: Preferences,
}

/// Loss of a minibatch. Sets the advantages with which the plain surrogate, summed over tokens and divided by the number
/// of episodes, has the gradient of this loss. [`Column::Proximal`] must hold the current log-probabilities.
/// `reference_point` is the mean log-ratio of unrelated replies, which only [`Surrogate::UnpairedPreference`] uses.
pub(super) fn judge(batch: &mut Batch, episodes: &[usize], surrogate: Surrogate, reference_point: f64) -> Judged {
    let (slopes, judged) = match surrogate {
        Surrogate::UnpairedPreference { beta, desirable, undesirable } => {
            let weights = unpaired::Weights { beta, desirable, undesirable };
            unpaired::slopes(batch, episodes, weights, reference_point)
        }
        _ => pairs::slopes(batch, episodes, surrogate),
    };
    let in_loss = tokens_in_loss(batch);
    let counted = episodes.iter().filter(|episode| in_loss[**episode] > 0).count() as f64;
    for (input, derivatives) in batch.inputs.iter_mut().zip(slopes.0) {
        if episodes.contains(&input.episode) {
            let advantages = input.tokens.column_mut(Column::Advantage);
            advantages.iter_mut().zip(derivatives).for_each(|(advantage, slope)| *advantage = -slope * counted);
        }
    }
    judged
}

/// Tokens of an input whose log-ratios are added up.
#[derive(Debug, Clone, PartialEq)]
struct Unit {
    input: usize,
    tokens: Range<usize>,
}

impl Unit {
    /// All tokens of an input.
    fn whole(batch: &Batch, input: usize) -> Self {
        Self { input, tokens: 0..batch.inputs[input].tokens.len() }
    }

    /// Sum of the log-ratios of current to `base` log-probabilities, over the tokens in the loss.
    fn log_ratios(&self, batch: &Batch, base: Column) -> f64 {
        let tokens = &batch.inputs[self.input].tokens;
        let in_loss = self.tokens.clone().filter(|token| tokens.is_in_loss(*token));
        in_loss.map(|token| tokens.get(Column::Proximal, token) - tokens.get(base, token)).sum()
    }
}

/// Derivative of the loss by each token's log-probability, per input.
struct Slopes(Vec<Vec<f64>>);

impl Slopes {
    fn zero(batch: &Batch) -> Self {
        Self(batch.inputs.iter().map(|input| vec![0.0; input.tokens.len()]).collect())
    }

    /// Adds the derivative by the sum over a unit.
    fn add(&mut self, Unit { input, tokens }: Unit, slope: f64) {
        self.0[input][tokens].iter_mut().for_each(|derivative| *derivative += slope);
    }
}

/// Inputs of these episodes with a token in the loss.
fn inputs_in_loss(batch: &Batch, episodes: &[usize]) -> Vec<usize> {
    (0..batch.inputs.len())
        .filter(|index| episodes.contains(&batch.inputs[*index].episode))
        .filter(|index| batch.inputs[*index].tokens.in_loss().next().is_some())
        .collect()
}
