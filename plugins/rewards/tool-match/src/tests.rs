//! Tests of the reward through the SDK's scoring.

use super::*;
use gymkhana_sdk::reward::{CallAnswer, Ending, SeatMessage, score};
use gymkhana_sdk::{NamedValue, named, text};

const EXPECTED: &str = r#"[
    {"name": "weather", "arguments": {"city": "Rome", "days": 2}},
    {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}
]"#;

fn call(name: &str, arguments: &str) -> Turn {
    let call = gymkhana_sdk::Call::advised(name, arguments);
    Turn::Call(SeatCall { seat: 0, call, cost: 0.0 })
}

fn rome() -> Turn {
    call("weather", r#"{"city": "Rome", "days": 2}"#)
}

fn oslo() -> Turn {
    call("weather", r#"{"days": 2.0, "city": "Oslo"}"#)
}

fn say(words: &str) -> Turn {
    Turn::Message(SeatMessage { seat: 0, content: text(words) })
}

fn answer() -> Turn {
    Turn::Answer(CallAnswer { seat: 0, id: String::new(), content: text("sunny"), failed: false })
}

fn attempt(expected: &str, turns: Vec<Turn>) -> Trajectory {
    Trajectory { turns, privileged: vec![named("calls", expected)], ..Trajectory::new("train", 0, Ending::Terminated) }
}

fn scored(trajectory: Trajectory, options: Vec<NamedValue>) -> Score {
    score::<ToolMatch>(&[trajectory], options, 0).expect("a good trajectory").remove(0).remove(0)
}

fn total(expected: &str, turns: Vec<Turn>) -> f64 {
    scored(attempt(expected, turns), vec![]).total
}

#[test]
fn expected_calls_in_any_order_score_fully() {
    assert_eq!(total(EXPECTED, vec![rome(), oslo(), answer(), answer(), say("sunny")]), 4.0);
    let score = scored(attempt(EXPECTED, vec![say("I look."), oslo(), rome(), answer(), answer()]), vec![]);
    assert_eq!(score.total, 4.0);
    let values: Vec<f64> = score.components.iter().map(|component| component.value).collect();
    assert_eq!(values, [1.0, 3.0, 1.0, 2.0, 4.0, 2.0]);
    let places: Vec<(u32, &str)> = score.evidence.iter().map(|span| (span.turn, span.note.as_str())).collect();
    assert_eq!(places, [(2, "compared with expected call 1"), (1, "compared with expected call 2")]);
}

#[test]
fn missing_or_wrong_parts_cost_their_share() {
    // S_max = 1 + 2·(1 + 2) = 7.
    let share = |found: f64| 1.0 + 6.0 * found / 7.0 - 3.0;
    for (turns, found) in [
        // One of two names, and one complete call.
        (vec![rome()], 0.5 + 3.0),
        // A wrong value.
        (vec![rome(), call("weather", r#"{"city": "Oslo", "days": 3}"#)], 1.0 + 3.0 + 2.0),
        // Three parameters, one of them unexpected.
        (vec![rome(), call("weather", r#"{"city": "Oslo", "days": 2, "x": 0}"#)], 1.0 + 3.0 + 2.0 / 3.0 + 2.0),
        // A third call: two of three names.
        (vec![rome(), oslo(), rome()], 2.0 / 3.0 + 6.0),
        (vec![call("look", "{}")], 0.0),
    ] {
        let found_total = total(EXPECTED, turns.clone());
        assert!((found_total - share(found)).abs() < 1e-12, "{turns:?}: {found_total}");
    }
    assert_eq!(total(EXPECTED, vec![say("sunny")]), -3.0, "no call: neither format nor anything else");
}

#[test]
fn malformed_calls_cost_the_format_and_match_nothing() {
    let malformed = || call("", r#"{"name": "weather", "arguments": "#);
    assert_eq!(total(EXPECTED, vec![malformed()]), -3.0);
    assert_eq!(total(EXPECTED, vec![rome(), oslo(), malformed()]), 3.0);
}

#[test]
fn unexpected_calls_are_wrong() {
    assert_eq!(total("[]", vec![say("no need")]), 1.0);
    assert_eq!(total("[]", vec![rome(), answer(), say("no need")]), 0.0);
}

#[test]
fn only_the_first_turn_can_count() {
    let turns = vec![rome(), answer(), oslo(), answer(), say("sunny")];
    let first = || vec![named("which", "first-turn")];
    assert_eq!(scored(attempt(EXPECTED, turns.clone()), vec![]).total, 4.0);
    let found = scored(attempt(EXPECTED, turns), first());
    assert!((found.total - (1.0 + 6.0 * 3.5 / 7.0 - 3.0)).abs() < 1e-12, "{found:?}");
    assert_eq!(scored(attempt(EXPECTED, vec![rome(), oslo(), answer(), answer()]), first()).total, 4.0);
}

#[test]
fn weights_and_scale_are_options() {
    let names_alone = vec![named("parameter-weight", 0), named("value-weight", 0), named("format-weight", 0)];
    let found = scored(attempt(EXPECTED, vec![rome()]), names_alone);
    assert_eq!(found.total, 0.0, "half of the names: half of the way from -3 to 3");
    let half = vec![named("scale", 0.5), named("format-weight", 0.5)];
    assert_eq!(scored(attempt(EXPECTED, vec![rome(), oslo()]), half).total, 1.0);
    let nothing = vec![named("name-weight", 0), named("parameter-weight", 0), named("value-weight", 0)];
    let refused = score::<ToolMatch>(&[attempt(EXPECTED, vec![rome()])], nothing, 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`value-weight`")));
}

#[test]
fn missing_expectations_are_reported() {
    let silent = Trajectory { privileged: vec![], ..attempt("[]", vec![rome()]) };
    let refused = score::<ToolMatch>(&[silent], vec![], 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`expected-key`")));
    let renamed = Trajectory { privileged: vec![named("gold", EXPECTED)], ..attempt("[]", vec![rome(), oslo()]) };
    assert_eq!(scored(renamed, vec![named("expected-key", "gold")]).total, 4.0);
}

#[test]
fn a_flood_of_calls_is_bounded() {
    let flood = vec![rome(); 5000];
    let score = scored(attempt(EXPECTED, flood), vec![]);
    assert!(score.total < 4.0 && score.components[5].value == 1024.0);
}
