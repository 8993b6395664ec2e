//! Loss of a critic.

/// Half the squared error of a value, and its derivative by the value. With `clip`, the maximum of it and the error of the
/// value clipped to within `clip` of `before` (as in PPO's first implementation).
#[must_use]
pub fn value_loss(value: f64, before: f64, target: f64, clip: Option<f64>) -> (f64, f64) {
    let error = value - target;
    let free = (error * error / 2.0, error);
    let Some(clip) = clip else { return free };
    let moved = (value - before).clamp(-clip, clip);
    let held = before + moved - target;
    if held * held / 2.0 <= free.0 {
        return free;
    }
    // A value beyond the bound does not move the error.
    (held * held / 2.0, if (value - before).abs() <= clip { held } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_moved_too_far_is_held() {
        assert_eq!(value_loss(3.0, 1.0, 1.0, None), (2.0, 2.0));
        // Held at 1.2, the error is 0.2: the free one is larger.
        assert_eq!(value_loss(3.0, 1.0, 1.0, Some(0.2)), (2.0, 2.0));
        // Towards the target 3: held at 1.2, the error is -1.8 and has no gradient.
        let (loss, by) = value_loss(2.5, 1.0, 3.0, Some(0.2));
        assert!((loss - 1.62).abs() < 1e-12 && by == 0.0, "{loss}, {by}");
    }
}
