//! Statistics of series in which some entries are absent.

/// Values of a series that are present.
pub(super) fn present(series: &[Option<f64>]) -> Vec<f64> {
    series.iter().copied().flatten().filter(|value| value.is_finite()).collect()
}

/// Mean and population standard deviation; `None` of no values.
pub(super) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (!values.is_empty()).then(|| (mean, variance.sqrt()))
}

/// Pearson's correlation over the entries that both series have; `None` if one of them is constant there.
pub(super) fn correlation(one: &[Option<f64>], other: &[Option<f64>]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = one.iter().zip(other).filter_map(|(one, other)| Some(((*one)?, (*other)?))).collect();
    let (ones, others): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ((one_mean, one_deviation), (other_mean, other_deviation)) = (moments(&ones)?, moments(&others)?);
    let covariance =
        pairs.iter().map(|(one, other)| (one - one_mean) * (other - other_mean)).sum::<f64>() / pairs.len() as f64;
    let scale = one_deviation * other_deviation;
    (scale > 0.0).then(|| covariance / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_pearsons() {
        let series = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        let one = series(&[1.0, 2.0, 3.0, 4.0]);
        // By hand: covariance 1.0, variances 1.25 and 1.25.
        let value = correlation(&one, &series(&[1.0, 3.0, 2.0, 4.0])).unwrap();
        assert!((value - 0.8).abs() < 1e-12, "{value}");
        assert_eq!(correlation(&one, &series(&[-1.0, -2.0, -3.0, -4.0])).map(|value| value.round()), Some(-1.0));
        assert_eq!(correlation(&one, &series(&[5.0; 4])), None);
        let partial = [Some(1.0), None, Some(3.0), None];
        assert_eq!(correlation(&one, &partial).map(|value| value.round()), Some(1.0));
        assert_eq!(correlation(&one, &[None; 4]), None);
    }
}
