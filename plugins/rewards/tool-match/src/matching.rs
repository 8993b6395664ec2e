//! Overlap of actual and expected calls in names, parameters and values, with the run's weights.

use std::collections::BTreeMap;

use gymkhana_sdk::OptionValue;

use crate::assign;
use crate::call::{Call, same};

/// Weight of each part.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// Function names, over all calls.
    pub name: f64,
    /// Parameter names, per expected call.
    pub parameter: f64,
    /// Value, per expected parameter.
    pub value: f64,
}

/// Pairing of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Pairing {
    /// Optimal: the sum is maximal.
    Best,
    /// Greedy: expected calls choose in order, as in the paper's program.
    Greedy,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// Overlap of function names, from 0 to 1.
    pub names: f64,
    /// Overlap of parameter names, summed over the pairs.
    pub parameters: f64,
    /// Number of equal values.
    pub values: f64,
    /// Weighted sum relative to its maximum, from 0 to 1.
    pub share: f64,
    /// Paired actual call of each expected call.
    pub pairs: Vec<Option<usize>>,
}

/// Compares actual calls with expected ones, of which there is at least one.
pub fn hold(made: &[Call], expected: &[Call], weights: Weights, pairing: Pairing) -> Matching {
    let worth = |expected: &Call, made: &Call| {
        if expected.name != made.name {
            return 0.0;
        }
        weights.parameter * parameters(made, expected) + weights.value * values(made, expected)
    };
    let table: Vec<Vec<f64>> =
        expected.iter().map(|wanted| made.iter().map(|made| worth(wanted, made)).collect()).collect();
    let mut pairs = match pairing {
        Pairing::Best => assign::best(&table, made.len()),
        Pairing::Greedy => assign::greedy(&table, made.len()),
    };
    // Calls of different functions, or without any overlap, are not paired.
    for (pair, row) in pairs.iter_mut().zip(&table) {
        *pair = pair.filter(|made| row[*made] > 0.0);
    }
    let sum = |part: fn(&Call, &Call) -> f64| {
        let paired = expected.iter().zip(&pairs).filter_map(|(wanted, pair)| pair.map(|place| (&made[place], wanted)));
        paired.map(|(made, wanted)| part(made, wanted)).sum::<f64>()
    };
    let (names, parameters, values) = (names(made, expected), sum(parameters), sum(values));
    let found = weights.name * names + weights.parameter * parameters + weights.value * values;
    let most = expected.iter().map(|call| weights.parameter + weights.value * call.arguments.len() as f64).sum::<f64>();
    let most = weights.name + most;
    // Rounding errors of fractions may miss the exact sum.
    let share = if most > 0.0 { (found / most).clamp(0.0, 1.0) } else { 0.0 };
    Matching { names, parameters, values, share, pairs }
}

/// Overlap of names: intersection over union, as multisets.
fn names(made: &[Call], expected: &[Call]) -> f64 {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    made.iter().for_each(|call| counts.entry(&call.name).or_default().0 += 1);
    expected.iter().for_each(|call| counts.entry(&call.name).or_default().1 += 1);
    let sum = |count: fn(&(usize, usize)) -> usize| counts.values().map(count).sum::<usize>() as f64;
    sum(|(made, expected)| *made.min(expected)) / sum(|(made, expected)| *made.max(expected)).max(1.0)
}

/// Overlap of parameter names: intersection over union; 1 for calls without parameters.
fn parameters(made: &Call, expected: &Call) -> f64 {
    let common = expected.arguments.keys().filter(|name| made.arguments.contains_key(*name)).count();
    let either = made.arguments.len() + expected.arguments.len() - common;
    if either == 0 { 1.0 } else { common as f64 / either as f64 }
}

/// Number of equal values.
fn values(made: &Call, expected: &Call) -> f64 {
    let twin =
        |(name, value): &(&String, &serde_json::Value)| made.arguments.get(*name).is_some_and(|made| same(made, value));
    expected.arguments.iter().filter(twin).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUAL: Weights = Weights { name: 1.0, parameter: 1.0, value: 1.0 };

    #[test]
    fn shares_are_those_of_the_papers_formula() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../../../tests/golden/rewards.json")).expect("the golden figures");
        let cases = golden["toolrl"].as_array().expect("cases");
        assert!(cases.len() >= 100, "{} cases", cases.len());
        for case in cases {
            let calls = |name: &str| -> Vec<Call> { serde_json::from_value(case[name].clone()).expect("calls") };
            let (made, expected) = (calls("made"), calls("expected"));
            for (pairing, name) in [(Pairing::Best, "best"), (Pairing::Greedy, "greedy")] {
                let found = hold(&made, &expected, EQUAL, pairing);
                let share = case[name].as_f64().expect("a share");
                assert!((found.share - share).abs() < 1e-12, "{name}: {} is not {share}: {case}", found.share);
            }
        }
    }

    #[test]
    fn identical_calls_in_any_order_match_fully() {
        let call = |name: &str, arguments: &str| Call::made(name, arguments).expect("a sound call");
        let expected = [call("f", r#"{"x": 1}"#), call("f", r#"{"x": 2}"#), call("g", "{}")];
        let made = [expected[2].clone(), expected[1].clone(), expected[0].clone()];
        let found = hold(&made, &expected, EQUAL, Pairing::Best);
        assert_eq!((found.share, found.pairs), (1.0, vec![Some(2), Some(1), Some(0)]));
        let fewer = hold(&made[..2], &expected, EQUAL, Pairing::Best);
        assert!(fewer.share < 1.0);
    }
}
