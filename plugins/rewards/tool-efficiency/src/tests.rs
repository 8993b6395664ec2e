//! Tests of the reward through the SDK's scoring.

use std::f64::consts::PI;

use super::*;
use gymkhana_sdk::reward::{Ending, SeatCall, SeatMessage, SeatRewards, score};
use gymkhana_sdk::{Call, NamedValue, named, text};

fn say(words: &str) -> Turn {
    Turn::Message(SeatMessage { seat: 0, content: text(words) })
}

fn call(name: &str) -> Turn {
    Turn::Call(SeatCall { seat: 0, call: Call::advised(name, "{}"), cost: 0.0 })
}

/// Attempt with this number of calls and this final message.
fn attempt(calls: usize, words: &str) -> Trajectory {
    let turns = (0..calls).map(|_| call("calculate")).chain([say(words)]).collect();
    Trajectory { turns, privileged: vec![named("answer", "42")], ..Trajectory::new("train", 0, Ending::Terminated) }
}

fn totals(group: &[Trajectory], options: Vec<NamedValue>) -> Vec<f64> {
    let scores = score::<ToolEfficiency>(group, options, 0).expect("a good group");
    scores.iter().map(|seats| seats[0].total).collect()
}

fn near(found: &[f64], expected: &[f64]) {
    let same =
        found.len() == expected.len() && found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12);
    assert!(same, "{found:?} is not {expected:?}");
}

#[test]
fn a_right_answer_with_the_fewest_calls_of_the_right_is_worth_most() {
    let group = [attempt(2, "42"), attempt(4, "42"), attempt(0, "41"), attempt(1, "43")];
    // f/n of four calls with a minimum of two: 2·4/(4+2) = 4/3, and sin(2π/3) = √3/2. Wrong attempts do not set the
    // minimum.
    near(&totals(&group, vec![]), &[1.0, 3.0_f64.sqrt() / 2.0, 0.0, 0.0]);
    // With a minimum of 0, one call gives cos(π/6) and two calls give cos(π/4).
    let group = [attempt(0, "42"), attempt(1, "42"), attempt(2, "42")];
    near(&totals(&group, vec![]), &[1.0, 3.0_f64.sqrt() / 2.0, 0.5_f64.sqrt()]);
}

#[test]
fn the_ppo_formula_does_not_compare() {
    let ppo = || vec![named("method", "ppo"), named("smoothness", 2)];
    near(&totals(&[attempt(1, "42"), attempt(3, "42")], ppo()), &[(PI / 4.0).cos(), (3.0 * PI / 8.0).cos()]);
    near(&totals(&[attempt(3, "42")], ppo()), &[(3.0 * PI / 8.0).cos()]);
    // The same attempt in a group: the comparison determines the value.
    near(&totals(&[attempt(3, "42")], vec![]), &[1.0]);
}

#[test]
fn a_tasks_own_fewest_calls_count_as_well() {
    let known = |calls: i64| {
        let one = attempt(3, "42");
        Trajectory { privileged: vec![named("answer", "42"), named("needs", calls)], ..one }
    };
    let options = || vec![named("fewest-key", "needs")];
    near(&totals(&[known(3)], options()), &[1.0]);
    near(&totals(&[known(1)], options()), &[(1.5 * PI / 2.0).sin()]);
    for (trajectory, why) in [(attempt(3, "42"), "is not there"), (known(-1), "is -1")] {
        let refused = score::<ToolEfficiency>(&[trajectory], options(), 0);
        assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains(why)));
    }
}

#[test]
fn an_option_selects_the_criterion() {
    let by = |source: &str| vec![named("correct-by", source)];
    let fact = |value: bool| Trajectory { extras: vec![named("success", value)], ..attempt(0, "?") };
    near(&totals(&[fact(true), fact(false)], by("fact")), &[1.0, 0.0]);
    let paid = |rewards: &[f64]| Trajectory {
        environment_rewards: vec![SeatRewards { seat: 0, rewards: rewards.to_vec() }],
        ..attempt(0, "?")
    };
    near(&totals(&[paid(&[0.25, 0.25]), paid(&[0.25]), paid(&[])], by("reward")), &[1.0, 0.0, 0.0]);
    // A numeric fact is compared with the threshold; a text is rejected.
    let right = |value: f64| Trajectory { extras: vec![named("right", value)], ..attempt(0, "?") };
    let counted = || vec![named("correct-by", "fact"), named("fact", "right"), named("threshold", 3)];
    near(&totals(&[right(3.0), right(2.0)], counted()), &[1.0, 0.0]);
    let words = Trajectory { extras: vec![named("success", "yes")], ..attempt(0, "?") };
    let refused = score::<ToolEfficiency>(&[words], by("fact"), 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`success` is `yes`")));
}

#[test]
fn missing_facts_are_reported_with_a_fix() {
    let blind = || Trajectory { privileged: vec![], ..attempt(0, "42") };
    let refused = score::<ToolEfficiency>(&[blind()], vec![], 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`answer-key`")));
    let by_fact = || vec![named("correct-by", "fact")];
    let refused = score::<ToolEfficiency>(&[blind()], by_fact(), 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("without an extra `success`")));
    // An episode that was cut off may lack the extra: it failed.
    near(&totals(&[Trajectory { ending: Ending::TurnLimit, ..blind() }], by_fact()), &[0.0]);
}

#[test]
fn only_named_functions_count_when_some_are_named() {
    let mut one = attempt(1, "42");
    one.turns.insert(0, call("look"));
    let options = |names: &str| vec![named("functions", names), named("method", "ppo")];
    near(&totals(&[one.clone()], options("calculate, search")), &[(PI / 6.0).cos()]);
    near(&totals(&[one.clone()], options("search")), &[1.0]);
    near(&totals(&[one], options("")), &[(PI / 4.0).cos()]);
}

#[test]
fn calls_beyond_the_fewest_are_the_evidence() {
    let scores = score::<ToolEfficiency>(&[attempt(1, "42"), attempt(3, "42"), attempt(3, "no")], vec![], 0);
    let scores = scores.expect("a good group");
    let places = |scores: &[Score]| scores[0].evidence.iter().map(|span| span.turn).collect::<Vec<_>>();
    assert_eq!((places(&scores[0]), places(&scores[1]), places(&scores[2])), (vec![], vec![1, 2], vec![]));
    let values: Vec<f64> = scores[2][0].components.iter().map(|component| component.value).collect();
    assert_eq!((values[0], values[1], values[3]), (0.0, 3.0, 1.0));
}

#[test]
fn seats_are_compared_with_their_like() {
    let mut two = attempt(2, "42");
    two.turns.push(Turn::Message(SeatMessage { seat: 1, content: text("42") }));
    let scores = score::<ToolEfficiency>(&[two], vec![], 0).expect("a good group");
    // A correct answer of the other seat without calls does not reduce this seat's efficiency.
    near(&scores[0].iter().map(|score| score.total).collect::<Vec<_>>(), &[1.0, 1.0]);
}
