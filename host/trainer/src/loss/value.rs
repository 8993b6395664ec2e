//! Loss of the critic.
#![allow(non_snake_case)]

use tch::Tensor;

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
