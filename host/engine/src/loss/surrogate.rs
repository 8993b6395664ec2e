//! Surrogate objectives of a token, with their derivatives.

use gymkhana_algorithm::{Surrogate, WhenClipped};

/// Loss of a token and its derivatives.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Term {
    pub value: f64,
    /// By the logarithm of the ratio.
    pub by_log_ratio: f64,
    /// By the log-probability, beside the ratio.
    pub by_log_prob: f64,
    /// Whether a bound replaced the ratio. PPO's bounds act by the sign of the advantage, CISPO's on every weight.
    pub is_clipped: bool,
}

/// Loss of a token. A surrogate without a ratio ignores it.
pub(super) fn surrogate(kind: Surrogate, log_prob: f64, ratio: f64, advantage: f64) -> Term {
    match kind {
        Surrogate::Plain {}
        | Surrogate::Regression { .. }
        | Surrogate::Preference { .. }
        | Surrogate::UnpairedPreference { .. } => {
            Term { value: -log_prob * advantage, by_log_prob: -advantage, ..Term::default() }
        }
        Surrogate::Importance {} => {
            let value = -ratio * advantage;
            Term { value, by_log_ratio: value, ..Term::default() }
        }
        // A divergence of whole distributions takes its place.
        Surrogate::Distillation { .. } => Term::default(),
        Surrogate::Cispo { low, high } => {
            let weight = ratio.clamp(1.0 - low, 1.0 + high) * advantage;
            let is_clipped = ratio > 1.0 + high || ratio < 1.0 - low;
            Term { value: -weight * log_prob, by_log_prob: -weight, is_clipped, ..Term::default() }
        }
        Surrogate::Clip { low, high, dual, when_clipped } => {
            clip((low, high), dual, when_clipped == WhenClipped::KeepGradient, ratio, advantage)
        }
    }
}

/// PPO's loss, with a second bound for negative advantages (dual clip), and the gradient of a ratio above the bound if it
/// is to be kept.
fn clip((low, high): (f64, f64), dual: Option<f64>, keeps_gradient: bool, ratio: f64, advantage: f64) -> Term {
    let is_above = advantage > 0.0 && ratio > 1.0 + high;
    let is_below = advantage < 0.0 && ratio < 1.0 - low;
    let is_beyond = advantage < 0.0 && dual.is_some_and(|dual| ratio > dual);
    let bounded = if is_above {
        1.0 + high
    } else if is_below {
        1.0 - low
    } else {
        dual.filter(|_| is_beyond).unwrap_or(ratio)
    };
    // A ratio may be infinite where nothing is learned.
    let value = if advantage == 0.0 { 0.0 } else { -bounded * advantage };
    let is_clipped = is_above || is_below || is_beyond;
    let by_log_ratio = if is_clipped && !(is_above && keeps_gradient) { 0.0 } else { value };
    Term { value, by_log_ratio, is_clipped, ..Term::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratios 3, 1.5, 1 and 0.5, each with the advantages 1, -1 and 0.
    fn clipped(kind: Surrogate) -> Vec<u8> {
        let each = [3.0, 1.5, 1.0, 0.5].into_iter().flat_map(|ratio| [1.0, -1.0, 0.0].map(|gain| (ratio, gain)));
        each.map(|(ratio, gain)| u8::from(surrogate(kind, -1.0, ratio, gain).is_clipped)).collect()
    }

    #[test]
    fn ppo_clips_by_the_sign_of_the_advantage() {
        let clip = |dual| Surrogate::Clip { low: 0.2, high: 0.2, dual, when_clipped: WhenClipped::DropGradient };
        let plain = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(clipped(clip(None)), plain);
        // The dual bound also holds a ratio of 3 with a negative advantage.
        let mut dual = plain;
        dual[1] = 1;
        assert_eq!(clipped(clip(Some(2.0))), dual);
    }

    #[test]
    fn cispo_bounds_every_weight() {
        let found = clipped(Surrogate::Cispo { low: 0.4, high: 1.0 });
        assert_eq!(found, [1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
        let open = clipped(Surrogate::Cispo { low: 1.0, high: 1.0 });
        assert_eq!(open[9..], [0; 3], "a lower range of 1 bounds nothing");
    }

    #[test]
    fn a_kept_gradient_is_that_of_the_bound() {
        let kind = Surrogate::Clip { low: 0.2, high: 0.5, dual: None, when_clipped: WhenClipped::KeepGradient };
        let found = surrogate(kind, -1.0, 3.0, 2.0);
        assert_eq!((found.value, found.by_log_ratio, found.is_clipped), (-3.0, -3.0, true));
        let below = surrogate(kind, -1.0, 0.5, -2.0);
        assert_eq!((below.value, below.by_log_ratio), (1.6, 0.0));
    }

    #[test]
    fn an_infinite_ratio_without_an_advantage_is_no_loss() {
        let kind = Surrogate::Clip { low: 0.2, high: 0.2, dual: None, when_clipped: WhenClipped::DropGradient };
        assert_eq!(surrogate(kind, -1.0, f64::INFINITY, 0.0), Term::default());
    }
}
