//! Token losses, as short tensor functions.
//!
//! Suffixes of names are axes: N tokens, V vocabulary, U units that share a ratio. Each function returns one number per
//! token. Aggregation is a weight per token, computed beforehand, so that a batch can be split between any two units
//! without changing its loss.
#![allow(non_snake_case)]

mod objective;
mod per_token;
mod surrogate;

pub use objective::{Inputs, Objective, objective};
pub use per_token::PerToken;
pub use surrogate::{clipped, ratios, surrogate};
use tch::{Kind, Tensor};

use gymkhana_algorithm::{Direction, Estimator};

/// Starts and lengths of the chunks in which the output layer processes `count` tokens, with at most `logits` logits
/// each, but at least one token.
pub(crate) fn chunks(count: i64, vocabulary: i64, logits: i64) -> impl Iterator<Item = (i64, i64)> {
    let size = (logits / vocabulary).max(1);
    (0..count).step_by(size as usize).map(move |start| (start, size.min(count - start)))
}

/// Logits divided by the temperature.
pub fn tempered(logits_NV: Tensor, temperature: f64) -> Tensor {
    if temperature == 1.0 { logits_NV } else { logits_NV / temperature }
}

/// Log-probability of each target in nats, `[N]`, and with `with_entropy` the entropy of each distribution in nats,
/// `[N]`.
pub fn token_log_probs(logits_NV: &Tensor, targets_N: &Tensor, with_entropy: bool) -> (Tensor, Option<Tensor>) {
    let log_probs_NV = logits_NV.log_softmax(-1, Kind::Float);
    let log_probs_N = log_probs_NV.gather(-1, &targets_N.unsqueeze(-1), false).squeeze_dim(-1);
    (log_probs_N, with_entropy.then(|| entropies(&log_probs_NV)))
}

/// Entropy of each distribution in nats, `[N]`.
pub fn entropies(log_probs_NV: &Tensor) -> Tensor {
    -(log_probs_NV.exp() * log_probs_NV).sum_dim_intlist(-1, false, Kind::Float)
}

/// k3 estimate of the divergence from `other` in nats, `[N]`: `exp(other - own) - (other - own) - 1`, at least 0.
pub fn k3_divergence(log_probs_N: &Tensor, other_N: &Tensor) -> Tensor {
    let difference_N = other_N - log_probs_N;
    difference_N.exp() - difference_N - 1.0
}

/// Estimate of the divergence from `other` in nats, `[N]`.
pub fn divergence(log_probs_N: &Tensor, other_N: &Tensor, estimator: Estimator) -> Tensor {
    match estimator {
        Estimator::K1 => log_probs_N - other_N,
        Estimator::K2 => (log_probs_N - other_N).square() * 0.5,
        Estimator::K3 => k3_divergence(log_probs_N, other_N),
    }
}

/// Divergence of each token in nats, `[N]`, from the log-probabilities of both, `[N, V]`. With `top_k`, both
/// distributions are restricted to the teacher's most probable tokens and normalised.
pub fn distillation(own_NV: &Tensor, teacher_NV: &Tensor, direction: Direction, top_k: Option<i64>) -> Tensor {
    let restricted = top_k.filter(|top_k| *top_k < teacher_NV.size()[1]).map(|top_k| {
        let (top_NK, tokens_NK) = teacher_NV.topk(top_k, -1, true, false);
        [own_NV.gather(-1, &tokens_NK, false), top_NK].map(|of_NK| of_NK.log_softmax(-1, Kind::Float))
    });
    let [own, teacher] = restricted.unwrap_or_else(|| [own_NV.shallow_clone(), teacher_NV.shallow_clone()]);
    let [from, to] = match direction {
        Direction::Forward => [teacher, own],
        Direction::Reverse => [own, teacher],
    };
    (from.exp() * (from - to)).sum_dim_intlist(-1, false, Kind::Float)
}

/// Half the squared error of each value, `[N]`. With `clip`, the maximum of it and the error of the value clipped to
/// within `clip` of `before_N` (as in PPO's first implementation).
pub fn value_loss(values_N: &Tensor, before_N: &Tensor, targets_N: &Tensor, clip: Option<f64>) -> Tensor {
    let errors_N = (values_N - targets_N).square();
    let errors_N = match clip {
        None => errors_N,
        Some(clip) => {
            let held_N = before_N + (values_N - before_N).clamp(-clip, clip);
            errors_N.maximum(&(held_N - targets_N).square())
        }
    };
    errors_N * 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_tokens_and_keep_to_their_size() {
        let of = |count, logits| chunks(count, 100, logits).collect::<Vec<_>>();
        assert_eq!(of(5, 250), [(0, 2), (2, 2), (4, 1)]);
        assert_eq!(of(5, 500), [(0, 5)]);
        // A vocabulary beyond the size: one token at a time.
        assert_eq!(of(2, 99), [(0, 1), (1, 1)]);
        assert_eq!(of(0, 500), []);
    }
}
