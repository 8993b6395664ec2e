//! Ratios of new to old probability of tokens, and of the units that share one.

use crate::token_stats::Column;

use super::{TokenNumbers, TokenRows};

/// Ratios of tokens to the proximal policy.
pub(super) struct Ratios<'a> {
    /// Ratio of each token, or of its unit: the geometric mean over the unit's tokens.
    pub of: Vec<f64>,
    units: Option<&'a [usize]>,
}

impl<'a> Ratios<'a> {
    pub fn new(found: &TokenNumbers, rows: &TokenRows<'a>) -> Self {
        let logs: Vec<f64> =
            found.log_probs.iter().enumerate().map(|(row, own)| own - rows.get(Column::Proximal, row)).collect();
        let units = rows.units();
        let of = match units {
            None => logs.iter().map(|log| log.exp()).collect(),
            Some(units) => means(&logs, units).into_iter().map(f64::exp).collect(),
        };
        Self { of, units }
    }

    /// Derivatives by log-probabilities from those by the logarithms of ratios: each token of a unit has an equal part of
    /// the unit's.
    pub fn pull(&self, by_log_ratios: &[f64]) -> Vec<f64> {
        self.units.map_or_else(|| by_log_ratios.to_vec(), |units| means(by_log_ratios, units))
    }
}

/// Mean of each token's unit.
fn means(numbers: &[f64], units: &[usize]) -> Vec<f64> {
    let count = units.iter().max().map_or(0, |last| last + 1);
    let mut sums = vec![(0.0, 0.0); count];
    for (number, unit) in numbers.iter().zip(units) {
        sums[*unit].0 += number;
        sums[*unit].1 += 1.0;
    }
    units.iter().map(|unit| sums[*unit].0 / sums[*unit].1).collect()
}
