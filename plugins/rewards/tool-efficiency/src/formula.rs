//! Efficiency formulas of OTC: value of an attempt's number of calls, from 0 to 1.

use std::f64::consts::{FRAC_PI_2, PI};

/// OTC-PPO for a single attempt: `cos(mπ / (2m + c))` for `m` calls. No calls give 1; the value tends to 0 for many
/// calls, more slowly for a larger `c`.
pub fn alone(calls: usize, smoothness: f64) -> f64 {
    let calls = calls as f64;
    (calls * PI / (2.0 * calls + smoothness)).cos().clamp(0.0, 1.0)
}

/// OTC-GRPO relative to the minimum number of calls `n`: `sin(fπ / 2n)` with `f = 2mn / (m + n)`.
///
/// `n` calls give 1, and fewer or more give less; only failed attempts can have fewer. For `n = 0` the formula of
/// OTC-PPO applies.
pub fn beside(calls: usize, fewest: usize, smoothness: f64) -> f64 {
    if fewest == 0 {
        return alone(calls, smoothness);
    }
    let (calls, fewest) = (calls as f64, fewest as f64);
    // f / n, without a product that could overflow.
    let share = 2.0 * calls / (calls + fewest);
    (share * FRAC_PI_2).sin().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_papers_formulas() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../../../tests/golden/rewards.json")).expect("the golden figures");
        let cases = golden["otc"].as_array().expect("cases");
        assert!(cases.len() > 100, "{} cases", cases.len());
        for case in cases {
            let count = |name: &str| case[name].as_u64().expect("a count") as usize;
            let number = |name: &str| case[name].as_f64().expect("a number");
            let (calls, fewest, smoothness) = (count("calls"), count("fewest"), number("smoothness"));
            let found = [alone(calls, smoothness), beside(calls, fewest, smoothness)];
            for (found, expected) in found.iter().zip([number("ppo"), number("grpo")]) {
                assert!((found - expected).abs() < 1e-12, "{found} is not {expected}: {case}");
            }
        }
    }

    #[test]
    fn the_fewest_calls_are_worth_most_and_nothing_leaves_the_range() {
        for fewest in 0..20 {
            assert!((beside(fewest, fewest, 4.0) - 1.0).abs() < 1e-15);
            let more: Vec<f64> = (fewest..fewest + 50).map(|calls| beside(calls, fewest, 4.0)).collect();
            assert!(more.is_sorted_by(|one, next| one > next), "{fewest}: {more:?}");
        }
        for calls in [0, 1, 1_000_000, usize::MAX] {
            for fewest in [0, 1, 1_000_000, usize::MAX] {
                assert!((0.0..=1.0).contains(&beside(calls, fewest, 1e-9)), "{calls} {fewest}");
            }
        }
    }
}
