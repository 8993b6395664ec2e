//! Comparison of numbers within a group: baselines and scales.

use gymkhana_algorithm::{Baseline, Scale};

/// Added to a standard deviation before division (verl and TRL do the same).
const SCALE_EPSILON: f64 = 1e-6;

/// Added to the variance in whitening.
const WHITE_EPSILON: f64 = 1e-8;

/// Rule of comparison: each number minus its baseline, divided by its scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparisonRule {
    /// The baseline. Baselines that are subtracted elsewhere count as 0 here.
    pub baseline: Baseline,
    /// The divisor.
    pub scale: Scale,
    /// Divisor of `Scale::BatchStd`.
    pub batch_deviation: f64,
}

impl ComparisonRule {
    /// Each number minus its baseline, divided by its scale. A single number has the leave-one-out advantage 0.
    #[must_use]
    pub fn of(&self, values: &[f64]) -> Vec<f64> {
        let count = values.len() as f64;
        let mean = mean(values);
        let divisor = match self.scale {
            Scale::None => 1.0,
            Scale::GroupStd => deviation(values) + SCALE_EPSILON,
            Scale::GroupPopulationStd => population_deviation(values) + SCALE_EPSILON,
            Scale::BatchStd => self.batch_deviation + SCALE_EPSILON,
        };
        let centred = values.iter().map(|value| match self.baseline {
            Baseline::None | Baseline::SeatAverage | Baseline::Critic => *value,
            Baseline::GroupMean | Baseline::BatchMean => value - mean,
            // r - (sum - r) / (n - 1) = (r - mean) * n / (n - 1)
            Baseline::LeaveOneOut if values.len() > 1 => (value - mean) * count / (count - 1.0),
            Baseline::LeaveOneOut => 0.0,
        });
        centred.map(|value| value / divisor).collect()
    }
}

/// Mean; 0 for an empty slice.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sample variance with divisor n - 1; 0 for fewer than two numbers.
fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// Sample standard deviation; 0 for fewer than two numbers.
pub(super) fn deviation(values: &[f64]) -> f64 {
    variance(values).sqrt()
}

/// Standard deviation with divisor n; 0 for fewer than two numbers.
fn population_deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    (variance(values) * (count - 1.0) / count).sqrt()
}

/// Shifts and scales numbers to mean 0 and standard deviation 1. Numbers whose deviation is below `floor` are divided by
/// the floor.
pub(super) fn whitened(values: &[f64], floor: f64) -> Vec<f64> {
    let (mean, divisor) = (mean(values), (variance(values) + WHITE_EPSILON).sqrt().max(floor));
    values.iter().map(|value| (value - mean) / divisor).collect()
}

/// Quantile with linear interpolation; 0 for no numbers.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }

    fn compared(values: &[f64], baseline: Baseline, scale: Scale) -> Vec<f64> {
        ComparisonRule { baseline, scale, batch_deviation: 2.0 }.of(values)
    }

    #[test]
    fn by_hand() {
        let rewards = [1.0, 0.0, 0.0, 1.0, 0.5];
        near(&compared(&rewards, Baseline::None, Scale::None), &rewards);
        near(&compared(&rewards, Baseline::GroupMean, Scale::None), &[0.5, -0.5, -0.5, 0.5, 0.0]);
        // Without the first, the mean is 1.5 / 4 = 0.375; without the second, 2.5 / 4 = 0.625.
        near(&compared(&rewards, Baseline::LeaveOneOut, Scale::None), &[0.625, -0.625, -0.625, 0.625, 0.0]);
        // Squares sum to 1; the sample deviation is sqrt(1 / 4) = 0.5.
        near(&compared(&rewards, Baseline::GroupMean, Scale::GroupStd), &[1.0, -1.0, -1.0, 1.0, 0.0]);
        // With divisor n: sqrt(1 / 5).
        let population = 0.5 * 5.0_f64.sqrt();
        let expected = [population, -population, -population, population, 0.0];
        near(&compared(&rewards, Baseline::GroupMean, Scale::GroupPopulationStd), &expected);
        near(&compared(&rewards, Baseline::GroupMean, Scale::BatchStd), &[0.25, -0.25, -0.25, 0.25, 0.0]);
        near(&whitened(&[1.0, 2.0, 3.0], 0.0), &[-1.0, 0.0, 1.0]);
        near(&whitened(&[1.0, 2.0, 3.0], 0.5), &[-1.0, 0.0, 1.0]);
        near(&whitened(&[1.0, 2.0, 3.0], 4.0), &[-0.25, 0.0, 0.25]);
        near(&[quantile(vec![4.0, 1.0, 2.0], 0.25), quantile(vec![], 0.5)], &[1.5, 0.0]);
    }

    #[test]
    fn groups_of_equal_rewards_have_no_advantage() {
        for scale in [Scale::None, Scale::GroupStd] {
            near(&compared(&[1.0; 4], Baseline::GroupMean, scale), &[0.0; 4]);
            near(&compared(&[0.7], Baseline::LeaveOneOut, scale), &[0.0]);
            near(&compared(&[], Baseline::LeaveOneOut, scale), &[]);
        }
    }
}
