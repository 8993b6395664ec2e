//! Ratios of new to old probability, and the surrogate objectives over them.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use gymkhana_algorithm::{Surrogate, WhenClipped};

/// Ratio of each token, `[N]`. With `units_N` (indices of units, from 0), the geometric mean over the token's unit.
pub fn ratios(log_probs_N: &Tensor, proximal_N: &Tensor, units_N: Option<&Tensor>) -> Tensor {
    let logs_N = log_probs_N - proximal_N;
    let Some(units_N) = units_N.filter(|units| units.numel() > 0) else { return logs_N.exp() };
    let size = [units_N.max().int64_value(&[]) + 1];
    let options = (logs_N.kind(), logs_N.device());
    let sums_U = Tensor::zeros(size, options).index_add(0, units_N, &logs_N);
    let counts_U = Tensor::zeros(size, options).index_add(0, units_N, &logs_N.ones_like());
    (sums_U / counts_U).index_select(0, units_N).exp()
}

/// Loss of each token, `[N]`. `log_probs_N` carry the gradient; a surrogate without a ratio ignores `ratios_N`.
pub fn surrogate(kind: Surrogate, log_probs_N: &Tensor, ratios_N: &Tensor, advantages_N: &Tensor) -> Tensor {
    match kind {
        Surrogate::Plain {}
        | Surrogate::Regression { .. }
        | Surrogate::Preference { .. }
        | Surrogate::UnpairedPreference { .. } => -(log_probs_N * advantages_N),
        Surrogate::Importance {} => -(ratios_N * advantages_N),
        // A divergence of whole distributions takes its place.
        Surrogate::Distillation { .. } => log_probs_N.zeros_like(),
        Surrogate::Cispo { low, high } => {
            -(ratios_N.detach().clamp(1.0 - low, 1.0 + high) * advantages_N * log_probs_N)
        }
        Surrogate::Clip { low, high, dual, when_clipped } => {
            let clipped_N = ratios_N.clamp(1.0 - low, 1.0 + high);
            let mut gain_N = (ratios_N * advantages_N).minimum(&(clipped_N * advantages_N));
            if let Some(dual) = dual {
                let bounded_N = gain_N.maximum(&(advantages_N * dual));
                gain_N = bounded_N.where_self(&advantages_N.lt(0.0), &gain_N);
            }
            if when_clipped == WhenClipped::KeepGradient {
                // The value of the bound with the gradient of the ratio.
                let kept_N = ratios_N / ratios_N.detach() * (1.0 + high) * advantages_N;
                let above_N = ratios_N.gt(1.0 + high).logical_and(&advantages_N.gt(0.0));
                gain_N = kept_N.where_self(&above_N, &gain_N);
            }
            -gain_N
        }
    }
}

/// 1 where a bound of the surrogate replaces the token's ratio, 0 elsewhere, `[N]`. PPO's bounds act by the sign of the
/// advantage, CISPO's on every weight.
pub fn clipped(kind: Surrogate, ratios_N: &Tensor, advantages_N: &Tensor) -> Tensor {
    let clipped_N = match kind {
        Surrogate::Clip { low, high, dual, .. } => {
            let (gains_N, losses_N) = (advantages_N.gt(0.0), advantages_N.lt(0.0));
            let above_N = ratios_N.gt(1.0 + high).logical_and(&gains_N);
            let below_N = ratios_N.lt(1.0 - low).logical_and(&losses_N);
            let either_N = above_N.logical_or(&below_N);
            match dual {
                Some(dual) => either_N.logical_or(&ratios_N.gt(dual).logical_and(&losses_N)),
                None => either_N,
            }
        }
        Surrogate::Cispo { low, high } => ratios_N.gt(1.0 + high).logical_or(&ratios_N.lt(1.0 - low)),
        Surrogate::Importance {}
        | Surrogate::Plain {}
        | Surrogate::Regression { .. }
        | Surrogate::Preference { .. }
        | Surrogate::UnpairedPreference { .. }
        | Surrogate::Distillation { .. } => {
            return ratios_N.zeros_like();
        }
    };
    clipped_N.to_kind(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratios 3, 1.5, 1 and 0.5, each with the advantages 1, -1 and 0.
    fn clipped_tokens(kind: Surrogate) -> Vec<f32> {
        let ratios: Vec<f32> = [3.0, 1.5, 1.0, 0.5].into_iter().flat_map(|ratio| [ratio; 3]).collect();
        let advantages = [1.0_f32, -1.0, 0.0].repeat(4);
        let found = clipped(kind, &Tensor::from_slice(&ratios), &Tensor::from_slice(&advantages));
        Vec::<f32>::try_from(found).expect("numbers")
    }

    #[test]
    fn ppo_clips_by_the_sign_of_the_advantage() {
        let clip = |dual| Surrogate::Clip { low: 0.2, high: 0.2, dual, when_clipped: WhenClipped::DropGradient };
        let plain = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        assert_eq!(clipped_tokens(clip(None)), plain);
        // The dual bound also holds a ratio of 3 with a negative advantage.
        let mut dual = plain;
        dual[1] = 1.0;
        assert_eq!(clipped_tokens(clip(Some(2.0))), dual);
    }

    #[test]
    fn cispo_bounds_every_weight() {
        let found = clipped_tokens(Surrogate::Cispo { low: 0.4, high: 1.0 });
        assert_eq!(found, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let open = clipped_tokens(Surrogate::Cispo { low: 1.0, high: 1.0 });
        assert_eq!(open[9..], [0.0; 3], "a lower range of 1 bounds nothing");
    }
}
