//! Statistics that compare two lists of scores of the same episodes.

use gymkhana_store::SummaryStats;

/// Mean; `None` for an empty list.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Statistics of a list; `None` for an empty list.
pub fn summary(values: &[f64]) -> Option<SummaryStats> {
    let mean = mean(values)?;
    let squares: Vec<f64> = values.iter().map(|value| (value - mean).powi(2)).collect();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&sorted, share));
    Some(SummaryStats { mean, deviation: (squares.iter().sum::<f64>() / values.len() as f64).sqrt(), quartiles })
}

/// Quantile of a sorted list by linear interpolation, NumPy's default.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Spearman's rank correlation with mean ranks for ties; `None` if a list is constant.
pub fn rank_correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let [one, other] = [ranks(one), ranks(other)];
    let (means, count) = ([mean(&one)?, mean(&other)?], one.len() as f64);
    let together: f64 = one.iter().zip(&other).map(|(one, other)| (one - means[0]) * (other - means[1])).sum();
    let spread = |ranks: &[f64], mean: f64| ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let product = spread(&one, means[0]) * spread(&other, means[1]);
    (product > 0.0 && count > 1.0).then(|| together / product.sqrt())
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|one, other| values[*one].total_cmp(&values[*other]).is_eq()) {
        let first = order.iter().position(|place| *place == equal[0]).unwrap_or(0);
        for place in equal {
            ranks[*place] = first as f64 + (equal.len() - 1) as f64 / 2.0;
        }
    }
    ranks
}

/// Number of pairs within a group that the two lists order differently, and the number of pairs. Algorithms learn from
/// this order.
pub fn reordered(one: &[f64], other: &[f64]) -> (u64, u64) {
    let (mut otherwise, mut pairs) = (0, 0);
    for second in 0..one.len() {
        for first in 0..second {
            let order = |values: &[f64]| values[first].partial_cmp(&values[second]);
            pairs += 1;
            otherwise += u64::from(order(one) != order(other));
        }
    }
    (otherwise, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of SciPy's `spearmanr`, and its results for lists with ties.
    #[test]
    fn ranks_correlate_as_scipy_says() {
        let near = |found: Option<f64>, expected: f64| assert!((found.expect("it varies") - expected).abs() < 1e-12);
        near(rank_correlation(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5.0, 6.0, 7.0, 8.0, 7.0]), 0.820_782_681_668_123_3);
        near(rank_correlation(&[1.0, 2.0, 3.0], &[9.0, 4.0, 1.0]), -1.0);
        assert_eq!(rank_correlation(&[1.0, 2.0], &[3.0, 3.0]), None);
        assert_eq!(rank_correlation(&[], &[]), None);
    }

    #[test]
    fn summary_of_a_list() {
        let stats = summary(&[4.0, 1.0, 3.0, 2.0]).expect("values");
        assert_eq!(stats.quartiles, [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!((stats.mean, stats.deviation), (2.5, 1.25_f64.sqrt()));
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn broken_ties_count_as_reordered() {
        assert_eq!(reordered(&[1.0, 2.0, 2.0], &[1.0, 3.0, 4.0]), (1, 3));
        assert_eq!(reordered(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), (3, 3));
        assert_eq!(reordered(&[1.0], &[1.0]), (0, 0));
    }
}
