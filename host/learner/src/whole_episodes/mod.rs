//! Losses over whole episodes, which depend on sums of their tokens' log-probabilities.
//!
//! A sum may be spread over several parts of a batch, so the gradient takes two passes: the first computes all sums and
//! the derivative by each sum; the second uses the derivatives as advantages of the plain surrogate.

mod figures;
mod pairs;
mod unpaired;

use std::ops::Range;

use gymkhana_algorithm::Surrogate;

use crate::layout::Batch;
use crate::minibatch::tokens_in_loss;
pub(crate) use figures::Preferences;
use gymkhana_engine::Column;
pub(crate) use unpaired::unrelated;

/// Loss of a minibatch, and what it says about preferences.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub loss: f64,
    pub preferences: Preferences,
}

/// Loss of a minibatch. Sets the advantages with which the plain surrogate, summed over tokens and divided by the number
/// of episodes, has the gradient of this loss. [`Column::Proximal`] must hold the current log-probabilities.
/// `reference_point` is the mean log-ratio of unrelated replies, which only [`Surrogate::UnpairedPreference`] uses.
pub(crate) fn judge(batch: &mut Batch, episodes: &[usize], surrogate: Surrogate, reference_point: f64) -> Judged {
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

/// Tokens whose log-ratios are added up: ranges of tokens of inputs. A branch of a tree of episodes has a part in each
/// episode that owns turns of its path.
#[derive(Debug, Clone, PartialEq)]
struct Unit(Vec<(usize, Range<usize>)>);

impl Unit {
    /// The whole path of an input, from the first turn of the episode on.
    fn path(batch: &Batch, input: usize) -> Self {
        let turns = batch.inputs[input].turns.iter().enumerate();
        let owners = turns.map(|(turn, part)| (part.shared_with.unwrap_or(input), turn));
        Self(
            owners
                .filter_map(|(owner, turn)| Some((owner, batch.inputs[owner].turns.get(turn)?.tokens.clone())))
                .collect(),
        )
    }

    /// The paths of these episodes that have a token in the loss, with their inputs.
    fn paths(batch: &Batch, episodes: &[usize]) -> Vec<(usize, Self)> {
        let inputs = (0..batch.inputs.len()).filter(|index| episodes.contains(&batch.inputs[*index].episode));
        let paths = inputs.map(|input| (input, Self::path(batch, input)));
        paths.filter(|(_, path)| path.tokens(batch).next().is_some()).collect()
    }

    /// The tokens in the loss, each with its input.
    fn tokens<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = (usize, usize)> + 'a {
        let parts = self.0.iter().flat_map(|(input, tokens)| tokens.clone().map(|token| (*input, token)));
        parts.filter(|(input, token)| batch.inputs[*input].tokens.is_in_loss(*token))
    }

    /// Sum of the log-ratios of current to `base` log-probabilities, over the tokens in the loss.
    fn log_ratios(&self, batch: &Batch, base: Column) -> f64 {
        let log_ratio = |(input, token): (usize, usize)| {
            let tokens = &batch.inputs[input].tokens;
            tokens.get(Column::Proximal, token) - tokens.get(base, token)
        };
        self.tokens(batch).map(log_ratio).sum()
    }
}

/// Derivative of the loss by each token's log-probability, per input.
struct Slopes(Vec<Vec<f64>>);

impl Slopes {
    fn zero(batch: &Batch) -> Self {
        Self(batch.inputs.iter().map(|input| vec![0.0; input.tokens.len()]).collect())
    }

    /// Adds the derivative by the sum over a unit.
    fn add(&mut self, Unit(parts): Unit, slope: f64) {
        for (input, tokens) in parts {
            self.0[input][tokens].iter_mut().for_each(|derivative| *derivative += slope);
        }
    }
}
