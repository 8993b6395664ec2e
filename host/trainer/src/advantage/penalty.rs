//! What is taken off rewards before anything is compared.

use super::input::{AdvantageInput, Token};
use crate::algorithm::{Estimator, Kl, LengthPenalty};

/// The estimated divergence of a token from the reference.
pub(super) fn divergence(token: &Token, estimator: Estimator) -> f64 {
    let difference = token.proximal - token.reference;
    match estimator {
        Estimator::K1 => difference,
        Estimator::K2 => 0.5 * difference * difference,
        Estimator::K3 => (-difference).exp() + difference - 1.0,
    }
}

/// The penalty of each of a trajectory's tokens.
pub(super) fn of_tokens(trajectory: &AdvantageInput, kl: Kl) -> Vec<f64> {
    trajectory.tokens().map(|token| kl.beta * divergence(token, kl.estimator)).collect()
}

/// Takes a number off what the trajectory earned.
pub(super) fn take_off(trajectory: &mut AdvantageInput, penalty: f64) {
    trajectory.reward -= penalty;
    trajectory.rest -= penalty;
}

/// DAPO's soft punishment, 0 to 1, of so many sampled tokens.
pub(super) fn of_length(tokens: usize, penalty: LengthPenalty) -> f64 {
    let free = f64::from(penalty.tokens - penalty.buffer);
    ((tokens as f64 - free) / f64::from(penalty.buffer)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_punished_along_the_buffer() {
        let penalty = LengthPenalty { tokens: 10, buffer: 4 };
        let found = [0, 6, 7, 10, 99].map(|tokens| of_length(tokens, penalty));
        assert_eq!(found, [0.0, 0.0, 0.25, 1.0, 1.0]);
    }

    #[test]
    fn estimators_are_schulmans() {
        let token = Token { proximal: 0.5_f64.ln(), reference: 0.25_f64.ln(), ..Token::default() };
        let d = 2.0_f64.ln();
        let found = [Estimator::K1, Estimator::K2, Estimator::K3].map(|estimator| divergence(&token, estimator));
        for (found, expected) in found.into_iter().zip([d, d * d / 2.0, 0.5 + d - 1.0]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }
}
