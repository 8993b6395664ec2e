//! Tests of the reward through the SDK's scoring.

use super::*;
use gymkhana_sdk::model::{Reply, Request, Usage};
use gymkhana_sdk::reward::{Ending, SeatCall, SeatMessage, Turn, score as score_all};
use gymkhana_sdk::{Call, NamedValue, named, text, text_of};

fn say(words: &str) -> Turn {
    Turn::Message(SeatMessage { seat: 0, content: text(words) })
}

fn call(name: &str) -> Turn {
    Turn::Call(SeatCall { seat: 0, call: Call::advised(name, r#"{"a": 1}"#), cost: 0.0 })
}

fn attempt(turns: Vec<Turn>) -> Trajectory {
    Trajectory { turns, ..Trajectory::new("train", 0, Ending::Terminated) }
}

fn scored(checklist: &str, turns: Vec<Turn>, more: Vec<NamedValue>) -> Score {
    let options = [vec![named("checklist", checklist)], more].concat();
    score_all::<Rubric>(&[attempt(turns)], options, 0).expect("a good trajectory").remove(0).remove(0)
}

fn total(checklist: &str, turns: Vec<Turn>) -> f64 {
    scored(checklist, turns, vec![]).total
}

#[test]
fn each_rule_has_its_yes_and_its_no() {
    for (rule, met, unmet) in [
        (r#""contains": "Thank you""#, vec![say("THANK YOU all")], vec![say("thanks")]),
        (r#""not-contains": "sorry""#, vec![say("fine")], vec![say("Sorry!")]),
        (r#""max-words": 2"#, vec![say("two words")], vec![say("now three words")]),
        (r#""max-words": 2"#, vec![say("a b c"), say("ok")], vec![]),
        (r#""max-words": 2, "in": "all""#, vec![say("a"), say("b")], vec![say("a b"), say("c")]),
        (r#""must-call": "look""#, vec![call("look"), say("x")], vec![call("book"), say("look")]),
        (r#""must-not-call": "look""#, vec![say("look")], vec![call("look"), say("x")]),
        (r#""json-valid": true"#, vec![say("[1]")], vec![say("[1")]),
        (r#""json-valid": false"#, vec![say("words")], vec![say("{}")]),
        (r#""number-within": [1, 2]"#, vec![say("from 5 to 2")], vec![say("from 1 to 5")]),
        (r#""contains": "x", "in": "all""#, vec![say("x"), say("y")], vec![say("y")]),
        (r#""contains": "x""#, vec![say("x")], vec![say("x"), say("y")]),
    ] {
        let checklist = format!(r#"[{{"name": "a", {rule}}}]"#);
        assert_eq!(total(&checklist, met), 1.0, "{rule}");
        if !unmet.is_empty() {
            assert_eq!(total(&checklist, unmet), 0.0, "{rule}");
        }
    }
}

#[test]
fn the_total_is_the_weighted_share() {
    let checklist = r#"[{"name": "a", "weight": 3, "contains": "alpha"}, {"name": "b", "contains": "beta"},
                        {"name": "rude", "weight": -2, "contains": "fool"}]"#;
    let lowest = || vec![named("lowest", "minus-one")];
    for (words, zero, minus_one) in [
        ("alpha beta", 1.0, 1.0),
        ("alpha", 0.75, 0.75),
        ("beta", 0.25, 0.25),
        ("alpha beta fool", 0.5, 0.5),
        ("beta fool", 0.0, -0.25),
        ("fool", 0.0, -0.5),
        ("", 0.0, 0.0),
    ] {
        assert_eq!(total(checklist, vec![say(words)]), zero, "{words}");
        assert_eq!(scored(checklist, vec![say(words)], lowest()).total, minus_one, "{words}");
    }
}

#[test]
fn without_an_essential_item_nothing_counts() {
    let checklist = r#"[{"name": "a", "weight": 9, "contains": "alpha"},
                        {"name": "calls", "essential": true, "must-call": "look"}]"#;
    assert_eq!(total(checklist, vec![call("look"), say("alpha")]), 1.0);
    let missed = scored(checklist, vec![say("alpha")], vec![named("lowest", "minus-one")]);
    assert_eq!((missed.total, missed.components[0].value, missed.components[3].value), (-1.0, 0.9, 1.0));
    assert_eq!(total(checklist, vec![say("alpha")]), 0.0);
}

#[test]
fn evidence_shows_where_a_rule_was_met_or_broken() {
    let checklist = r#"[{"name": "a", "contains": "alpha"}, {"name": "b", "not-contains": "fool"},
                        {"name": "c", "must-call": "look"}]"#;
    let score = scored(checklist, vec![call("look"), say("alpha, fool")], vec![]);
    let shown: Vec<(u32, u32, u32, &str)> =
        score.evidence.iter().map(|span| (span.turn, span.start, span.end, span.note.as_str())).collect();
    assert_eq!(shown, [(1, 0, 5, "a: met"), (1, 7, 11, "b: not met"), (0, 0, 8, "c: met")]);
}

#[test]
fn a_tasks_own_checklist_is_in_its_privileged_view() {
    let list = "[[items]]\nname = \"a\"\ncontains = \"alpha\"\n";
    let told = |key: &str| Trajectory { privileged: vec![named(key, list)], ..attempt(vec![say("alpha")]) };
    let totals = |trajectory: Trajectory, options| {
        score_all::<Rubric>(&[trajectory], options, 0).map(|scores| scores[0][0].total)
    };
    assert_eq!(totals(told("rubric"), vec![]), Ok(1.0));
    assert_eq!(totals(told("wishes"), vec![named("checklist-key", "wishes")]), Ok(1.0));
    let refused = totals(told("wishes"), vec![]);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("there is no checklist")));
}

/// Scores one message with a judge that gives this reply.
fn judged(checklist: &str, turns: Vec<Turn>, answer: impl Fn(&str) -> &'static str) -> Result<Score, Error> {
    let options = Options::new(&declared(), vec![named("checklist", checklist)]).expect("good options");
    let mut ask = |request: &Request| {
        let asked = text_of(&request.messages[1].content);
        let usage = Usage { prompt_tokens: 1, completion_tokens: 1 };
        Ok(Reply { text: answer(&asked).to_owned(), cut: false, usage })
    };
    score_by(&[attempt(turns)], &options, &mut ask).map(|mut scores| scores.remove(0).remove(0))
}

fn declared() -> Vec<OptionInfo> {
    vec![
        OptionInfo::new("checklist", "", ""),
        OptionInfo::new("checklist-key", "", "rubric"),
        OptionInfo::new("lowest", "", "zero"),
        OptionInfo::new("quote-bytes", "", 20_000),
    ]
}

#[test]
fn a_model_judges_its_items() {
    let checklist = r#"[{"name": "kind", "ask": "Is it kind?"}, {"name": "clear", "grade": "How clear is it?"},
                        {"name": "rude", "weight": -1, "ask": "Is it rude?"}, {"name": "a", "contains": "alpha"}]"#;
    let answer = |asked: &str| {
        if asked.contains("How clear") {
            "5"
        } else if asked.contains("kind?") {
            "yes"
        } else {
            "no"
        }
    };
    let score = judged(checklist, vec![say("alpha")], answer).expect("a verdict for each item");
    assert_eq!((score.total, score.components[4].value), (2.5 / 3.0, 3.0));
    // A seat without messages meets no item, and the model is not called.
    let score = judged(checklist, vec![call("look")], |_| panic!("asked")).expect("no question");
    assert_eq!((score.total, score.components[4].value), (0.0, 0.0));
}

#[test]
fn a_reply_without_a_verdict_is_an_error() {
    let asks = r#"[{"name": "kind", "ask": "Is it kind?"}]"#;
    let refused = judged(asks, vec![say("alpha")], |_| "I would say that it depends");
    assert!(matches!(refused, Err(Error::Other(message)) if message.contains("`kind`")));
    // Native tests have no model: a judged item is denied, an item with a rule is scored.
    let denied = score_all::<Rubric>(&[attempt(vec![say("alpha")])], vec![named("checklist", asks)], 0);
    assert!(matches!(denied, Err(Error::Denied(message)) if message.contains("`kind`")));
    assert_eq!(total(r#"[{"name": "a", "contains": "alpha"}]"#, vec![say("alpha")]), 1.0);
}
