//! Numbers of tokens from logits, as short tensor functions. The crate `gymkhana-engine` makes losses of them.
//!
//! Suffixes of names are axes: N tokens, V vocabulary.
#![allow(non_snake_case)]

mod per_token;

pub use per_token::PerToken;
use tch::{Kind, Tensor};

use gymkhana_algorithm::Direction;

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

#[cfg(test)]
mod tests {
    use serde_json::Value;

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

    /// The numbers in a tree of lists, in order.
    fn leaves(value: &Value) -> Vec<f64> {
        match value {
            Value::Array(items) => items.iter().flat_map(leaves).collect(),
            other => vec![other.as_f64().expect("a number")],
        }
    }

    /// Compares with a relative tolerance of 1e-5, and of 1e-6 of the largest number.
    fn near(found: &[f64], expected: &[f64], what: &str) {
        let scale = expected.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs() + 1e-6 * scale,
                "{what}: {found} is not {expected}"
            );
        }
    }

    #[test]
    fn divergences_of_distributions_are_those_of_the_formula() {
        let golden: Value =
            serde_json::from_str(include_str!("../../../../tests/golden/algorithms.json")).expect("JSON");
        let golden = &golden["distributions"];
        let rows =
            |value: &Value| Tensor::from_slice(&leaves(value)).view([value.as_array().expect("rows").len() as i64, -1]);
        let teacher_NV = rows(&golden["teacher"]).log_softmax(-1, Kind::Double);
        let weights_N = Tensor::from_slice(&leaves(&golden["weights"]));
        for case in golden["cases"].as_array().expect("cases") {
            let logits_NV = rows(&golden["policy"]).set_requires_grad(true);
            let direction = serde_json::from_value(case["direction"].clone()).expect("a direction");
            let own_NV = logits_NV.log_softmax(-1, Kind::Double);
            let found_N = distillation(&own_NV, &teacher_NV, direction, case["top_k"].as_i64());
            (&found_N * &weights_N).sum(Kind::Double).backward();
            let numbers =
                |tensor: &Tensor| Vec::<f64>::try_from(tensor.to_kind(Kind::Double).view([-1])).expect("numbers");
            let what = format!("{} {}", case["direction"], case["top_k"]);
            near(&numbers(&found_N.detach()), &leaves(&case["divergences"]), &what);
            near(&numbers(&logits_NV.grad()), &leaves(&case["gradient"]), &format!("{what}: gradient"));
        }
    }
}
