//! Penalties that are subtracted from rewards before episodes are compared.

use super::input::AdvantageInput;
use gymkhana_algorithm::{Estimator, Kl, LengthPenalty};
use gymkhana_engine::Column;

/// Estimated divergence of a token from the reference policy, in nats.
pub(super) fn divergence(proximal: f64, reference: f64, estimator: Estimator) -> f64 {
    let difference = proximal - reference;
    match estimator {
        Estimator::K1 => difference,
        Estimator::K2 => 0.5 * difference * difference,
        Estimator::K3 => (-difference).exp() + difference - 1.0,
    }
}

/// Penalty of each token of an input.
pub(super) fn of_tokens(input: &AdvantageInput, kl: Kl) -> Vec<f64> {
    let (proximal, reference) = (input.tokens.column(Column::Proximal), input.tokens.column(Column::Reference));
    let pairs = proximal.iter().zip(reference.iter());
    pairs.map(|(proximal, reference)| kl.beta * divergence(*proximal, *reference, kl.estimator)).collect()
}

/// Subtracts a penalty from the input's total reward.
pub(super) fn subtract(input: &mut AdvantageInput, penalty: f64) {
    input.reward -= penalty;
    input.rest -= penalty;
}

/// Divides all rewards of the input.
pub(super) fn divide(input: &mut AdvantageInput, divisor: f64) {
    input.reward /= divisor;
    input.rest /= divisor;
    input.turns.iter_mut().for_each(|turn| turn.reward /= divisor);
}

/// DAPO's soft penalty of `tokens` sampled tokens, from 0 to 1.
pub(super) fn of_length(tokens: usize, penalty: LengthPenalty) -> f64 {
    let free = f64::from(penalty.tokens - penalty.buffer);
    ((tokens as f64 - free) / f64::from(penalty.buffer)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_penalised_along_the_buffer() {
        let penalty = LengthPenalty { tokens: 10, buffer: 4 };
        let found = [0, 6, 7, 10, 99].map(|tokens| of_length(tokens, penalty));
        assert_eq!(found, [0.0, 0.0, 0.25, 1.0, 1.0]);
    }

    #[test]
    fn estimators_are_schulmans() {
        let (proximal, reference, d) = (0.5_f64.ln(), 0.25_f64.ln(), 2.0_f64.ln());
        let estimators = [Estimator::K1, Estimator::K2, Estimator::K3];
        let found = estimators.map(|estimator| divergence(proximal, reference, estimator));
        for (found, expected) in found.into_iter().zip([d, d * d / 2.0, 0.5 + d - 1.0]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }
}
