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
        Surrogate::Plain {} | Surrogate::Regression { .. } | Surrogate::Preference { .. } => {
            -(log_probs_N * advantages_N)
        }
        Surrogate::Importance {} => -(ratios_N * advantages_N),
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

/// 1 where the bounds remove the token's gradient, or for CISPO bound its weight; 0 elsewhere, `[N]`.
pub fn lost_gradient(kind: Surrogate, ratios_N: &Tensor, advantages_N: &Tensor) -> Tensor {
    let outside = |low: f64, high: f64| {
        let above_N = ratios_N.gt(1.0 + high).logical_and(&advantages_N.gt(0.0));
        let below_N = ratios_N.lt(1.0 - low).logical_and(&advantages_N.lt(0.0));
        above_N.logical_or(&below_N).to_kind(Kind::Float)
    };
    match kind {
        Surrogate::Clip { low, high, .. } | Surrogate::Cispo { low, high } => outside(low, high),
        _ => ratios_N.zeros_like(),
    }
}
