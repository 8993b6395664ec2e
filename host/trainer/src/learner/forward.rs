//! Forward passes over parts, with gradients and without.
//!
//! The output layer is gone through in chunks of tokens, forwards and backwards, so that logits of a whole batch never
//! exist at once; the layers below run backwards once for each part.
#![allow(non_snake_case)]

use tch::{Kind, Tensor, no_grad_guard};

use crate::batch::{Packed, Sequence, parts};
use crate::loss::{self, Inputs, Objective};
use crate::model::{Angles, Model, Weights};

/// What tokens' probabilities are computed with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// That at this temperature, as tokens were sampled.
    pub temperature: f64,
    /// Entropies are wanted, too.
    pub entropies: bool,
    /// Positions of a part.
    pub micro_batch_tokens: usize,
    /// Layers are computed once more on the way back.
    pub activation_checkpointing: bool,
}

impl Pass {
    fn logits(self, hidden_NC: &Tensor, weights: &Weights) -> Tensor {
        loss::tempered(weights.logits(hidden_NC), self.temperature)
    }

    fn told(self, hidden_NC: &Tensor, targets_N: &Tensor, weights: &Weights) -> (Tensor, Option<Tensor>) {
        loss::token_log_probs(&self.logits(hidden_NC, weights), targets_N, self.entropies)
    }
}

/// The residual stream where targets are predicted, `[N, C]`.
pub(super) fn chosen_hidden(model: &Model, weights: &Weights, packed: &Packed) -> Tensor {
    let angles = model.angles_at(&packed.positions_1M);
    let only = Some(&packed.places_N);
    let hidden_1NC = model
        .hidden(weights, &packed.tokens_1M, &angles, only, |_, query, key, value| packed.attend(query, key, value));
    hidden_1NC.squeeze_dim(0)
}

/// The layers' way back from what the output layer left.
enum Below {
    /// Along all that they computed.
    Kept(Tensor),
    /// Layer by layer, each computed once more from what went into it, `[1, M, C]`.
    Again(Vec<Tensor>),
}

impl Below {
    /// Goes through the layers; gives what comes out, `[N, C]`, and the way back.
    fn forwards(model: &Model, weights: &Weights, packed: &Packed, activation_checkpointing: bool) -> (Tensor, Self) {
        if !activation_checkpointing {
            let chosen_NC = chosen_hidden(model, weights, packed);
            return (chosen_NC.detach(), Self::Kept(chosen_NC));
        }
        let _guard = no_grad_guard();
        let angles = model.angles_at(&packed.positions_1M);
        let mut before = Vec::new();
        let mut x = weights.embed(&packed.tokens_1M);
        for index in 0..weights.depth() {
            before.push(x.shallow_clone());
            x = layer(model, weights, packed, &angles, index, &x);
        }
        (x.squeeze_dim(0), Self::Again(before))
    }

    /// Leaves the parameters' gradients, given that of what came out.
    fn backwards(self, model: &Model, weights: &Weights, packed: &Packed, gradient_NC: &Tensor) {
        // The gradient of the product is the one that came from above.
        let backwards = |out: Tensor, gradient: &Tensor| (out * gradient).sum(Kind::Float).backward();
        match self {
            Self::Kept(chosen_NC) => backwards(chosen_NC, gradient_NC),
            Self::Again(before) => {
                let angles = model.angles_at(&packed.positions_1M);
                let mut gradient = gradient_NC.unsqueeze(0);
                for (index, x) in before.into_iter().enumerate().rev() {
                    let x = x.set_requires_grad(true);
                    backwards(layer(model, weights, packed, &angles, index, &x), &gradient);
                    gradient = x.grad();
                }
                let x = weights.embed(&packed.tokens_1M);
                if x.requires_grad() {
                    backwards(x, &gradient);
                }
            }
        }
    }
}

fn layer(model: &Model, weights: &Weights, packed: &Packed, angles: &Angles, index: usize, x: &Tensor) -> Tensor {
    let only = Some(&packed.places_N);
    model.layer(weights, index, x, angles, only, |_, query, key, value| packed.attend(query, key, value))
}

/// Adds gradients of a part to the parameters; gives the sums that the objective reports. A separable objective is a
/// sum over tokens that do not know of each other.
pub(super) fn accumulate(
    model: &Model,
    packed: &Packed,
    inputs: &Inputs,
    pass: Pass,
    separable: bool,
    objective: &dyn Fn(&Tensor, Option<&Tensor>, &Inputs) -> Objective,
) -> Tensor {
    let weights = model.weights();
    let (chosen_NC, below) = Below::forwards(model, &weights, packed, pass.activation_checkpointing);
    let leaf_NC = chosen_NC.set_requires_grad(true);
    let chunks: Vec<(i64, i64)> = loss::chunks(packed.targets_N.size()[0], model.config().vocab_size).collect();
    let told = |(start, length): (i64, i64)| {
        pass.told(&leaf_NC.narrow(0, start, length), &packed.targets_N.narrow(0, start, length), &weights)
    };
    let sums: Vec<Tensor> = if separable || chunks.len() == 1 {
        let each = chunks.iter().map(|(start, length)| {
            let (log_probs_N, entropies_N) = told((*start, *length));
            let found = objective(&log_probs_N, entropies_N.as_ref(), &inputs.narrow(*start, *length));
            found.loss.backward();
            found.sums
        });
        each.collect()
    } else {
        // First all log-probabilities, to learn what each of them pulls; then each chunk again, with gradients.
        let (log_probs_N, entropies_N) = without_gradients(&chunks, told);
        let log_probs_N = log_probs_N.set_requires_grad(true);
        let entropies_N = entropies_N.map(|entropies_N| entropies_N.set_requires_grad(true));
        let found = objective(&log_probs_N, entropies_N.as_ref(), inputs);
        found.loss.backward();
        for chunk in chunks {
            let pull = |leaf: &Tensor, told: &Tensor| {
                let gradient = leaf.grad();
                gradient.defined().then(|| (told * gradient.narrow(0, chunk.0, chunk.1)).sum(Kind::Float))
            };
            let (log_probs, entropies) = told(chunk);
            let mut pulled = pull(&log_probs_N, &log_probs);
            if let (Some(leaf), Some(entropies)) = (&entropies_N, &entropies)
                && let Some(more) = pull(leaf, entropies)
            {
                pulled = Some(pulled.map_or(more.shallow_clone(), |pulled| pulled + more));
            }
            if let Some(pulled) = pulled {
                pulled.backward();
            }
        }
        vec![found.sums]
    };
    below.backwards(model, &weights, packed, &leaf_NC.grad());
    Tensor::stack(&sums, 0).sum_dim_intlist(0, false, Kind::Float)
}

fn without_gradients(
    chunks: &[(i64, i64)],
    told: impl Fn((i64, i64)) -> (Tensor, Option<Tensor>),
) -> (Tensor, Option<Tensor>) {
    let _guard = no_grad_guard();
    let (log_probs, entropies): (Vec<Tensor>, Vec<Option<Tensor>>) = chunks.iter().map(|chunk| told(*chunk)).unzip();
    let entropies: Option<Vec<Tensor>> = entropies.into_iter().collect();
    (Tensor::cat(&log_probs, 0), entropies.map(|entropies| Tensor::cat(&entropies, 0)))
}

/// A number for each target of each sequence, without gradients: `tell` gives `[N]` for a part.
pub(super) fn tell(
    model: &Model,
    sequences: &[Sequence],
    micro_batch_tokens: usize,
    tell: impl Fn(&Packed) -> Tensor,
) -> Vec<Vec<f32>> {
    let _guard = no_grad_guard();
    let mut told: Vec<Vec<f32>> = sequences.iter().map(|sequence| vec![0.0; sequence.targets.len()]).collect();
    for part in parts(sequences, micro_batch_tokens, true) {
        let packed = Packed::new(&part, model.device());
        // A flat tensor of numbers is always one.
        let numbers = Vec::<f32>::try_from(tell(&packed)).unwrap_or_default();
        for ((place, index), number) in packed.origins.iter().zip(numbers) {
            told[*place][*index] = number;
        }
    }
    told
}

/// The log-probability of each target under these weights, without gradients.
pub(super) fn log_probs(model: &Model, weights: &Weights, sequences: &[Sequence], pass: Pass) -> Vec<Vec<f32>> {
    let pass = Pass { entropies: false, ..pass };
    tell(model, sequences, pass.micro_batch_tokens, |packed| {
        let chosen_NC = chosen_hidden(model, weights, packed);
        let chunks: Vec<(i64, i64)> = loss::chunks(packed.targets_N.size()[0], model.config().vocab_size).collect();
        let told = |(start, length): (i64, i64)| {
            pass.told(&chosen_NC.narrow(0, start, length), &packed.targets_N.narrow(0, start, length), weights)
        };
        without_gradients(&chunks, told).0
    })
}
