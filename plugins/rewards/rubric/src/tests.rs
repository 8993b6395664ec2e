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

/// Scores an attempt with a judge that gives these replies to its prompts.
fn judged_with(
    checklist: &str,
    turns: Vec<Turn>,
    more: Vec<NamedValue>,
    answer: impl Fn(&str) -> String,
) -> Result<Score, Error> {
    let given = [vec![named("checklist", checklist)], more].concat();
    let options = Options::parse(given).expect("good options");
    let mut ask = |request: &Request| {
        let asked = text_of(&request.messages[1].content);
        let usage = Usage { prompt_tokens: 50, completion_tokens: 3 };
        Ok(Reply { text: answer(&asked), cut: false, usage })
    };
    score_by(&[attempt(turns)], &options, 0, &mut ask).map(|mut scores| scores.remove(0).remove(0))
}

fn judged(checklist: &str, turns: Vec<Turn>, answer: impl Fn(&str) -> &'static str) -> Result<Score, Error> {
    judged_with(checklist, turns, vec![], |asked| answer(asked).to_owned())
}

fn component(score: &Score, name: &str) -> f64 {
    score.components.iter().find(|component| component.name == name).expect("a component of this name").value
}

/// A judge of parts: reads the parts and the questions of a prompt and answers with JSON.
fn table(asked: &str, verdict: impl Fn(&str, &str) -> u32) -> String {
    let fence = asked.split(' ').next().expect("a fence");
    let blocks: Vec<&str> = asked.split(fence).map(str::trim_start).collect();
    let is_part = |block: &&&str| {
        block.starts_with("part ") && !block.lines().next().is_some_and(|label| label.ends_with("call"))
    };
    let parts: Vec<&str> = blocks.iter().filter(is_part).filter_map(|block| Some(block.split_once('\n')?.1)).collect();
    let points = blocks.last().expect("the points").lines().filter_map(|line| line.split_once(". "));
    let points = points.filter(|(number, _)| number.parse::<u32>().is_ok());
    let row = |(number, question): (&str, &str)| {
        let verdicts: Vec<String> = parts.iter().map(|part| verdict(question, part).to_string()).collect();
        format!("\"{number}\": [{}]", verdicts.join(", "))
    };
    format!("{{{}}}", points.map(row).collect::<Vec<_>>().join(", "))
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

#[test]
fn turn_items_reward_the_turns_that_meet_them_once_what_they_need_is_met() {
    let checklist = r#"[{"name": "cites", "weight": 3, "in": "turn", "contains": "source", "needs": ["searches"]},
                        {"name": "searches", "in": "turn", "once": true, "must-call": "look"}]"#;
    let turns = || vec![say("by source"), say("I look"), call("look"), say("the source says"), call("look"), say("so")];
    // The call counts once, with 1/4 of the weight. Of `cites`, 3/4 of the weight, one of four turns counts.
    let score = scored(checklist, turns(), vec![]);
    assert_eq!((score.total, &score.turns[..]), (0.4375, &[0.0, 0.25, 0.1875, 0.0][..]));
    let shown = ["process", "process-weight", "blocked", "items-met", "met"].map(|name| component(&score, name));
    assert_eq!(shown, [0.4375, 1.0, 0.0, 1.25, 0.0]);
    let score = scored(checklist, vec![say("by source"), say("the source says")], vec![]);
    assert_eq!((score.total, component(&score, "blocked")), (0.0, 1.0));
    // A seat without messages has no turns.
    let score = scored(checklist, vec![call("look")], vec![]);
    assert_eq!((score.total, &score.turns[..]), (0.0, &[][..]));
}

#[test]
fn an_item_about_the_episode_may_need_one_about_turns_and_the_reverse() {
    let checklist = r#"[{"name": "looks", "in": "turn", "must-call": "look"},
                        {"name": "right", "contains": "seven", "needs": ["looks"]},
                        {"name": "short", "in": "turn", "max-words": 1, "needs": ["right"]}]"#;
    let met = |turns| {
        let score = scored(checklist, turns, vec![named("process-weight", 1.0)]);
        (component(&score, "met"), component(&score, "process"), component(&score, "blocked"))
    };
    assert_eq!(met(vec![say("ok"), call("look"), say("seven")]), (1.0, 0.75, 0.0));
    assert_eq!(met(vec![say("ok"), say("seven")]), (0.0, 0.0, 2.0));
    assert_eq!(met(vec![say("ok"), call("look"), say("eight")]), (0.0, 0.25, 1.0));
}

#[test]
fn thoughts_are_scored_one_by_one() {
    let checklist = r#"[{"name": "sure", "in": "thought", "not-contains": "perhaps"}]"#;
    let score = scored(checklist, vec![say("<think>perhaps\n\nit is</think>7"), say("perhaps")], vec![]);
    assert_eq!((score.total, &score.turns[..]), (0.25, &[0.25, 0.0][..]));
    let shown: Vec<(u32, u32, u32, &str)> =
        score.evidence.iter().map(|span| (span.turn, span.start, span.end, span.note.as_str())).collect();
    assert_eq!(shown, [(0, 7, 14, "sure: not met"), (1, 0, 7, "sure: not met")]);
}

#[test]
fn a_judge_sees_turns_together_or_one_by_one() {
    let checklist = r#"[{"name": "clear", "in": "turn", "grade": "How clear is it?", "needs": ["kind"]},
                        {"name": "kind", "in": "turn", "ask": "Is it kind?"}]"#;
    let verdict = |question: &str, part: &str| match (question.contains("kind"), part.contains("please")) {
        (true, kind) => u32::from(kind),
        (false, _) => 7,
    };
    // `clear` counts from the second turn on: 1/3 of the turns for kindness, and 0.7 of two turns.
    for (mode, requests) in [("at-once", 1.0), ("one-by-one", 3.0)] {
        let turns = vec![say("first"), say("please"), call("look"), say("last")];
        let score = judged_with(checklist, turns, vec![named("judge-turns", mode)], |asked| table(asked, verdict));
        let score = score.expect("a verdict for each part");
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{mode}: {found}");
        near(score.turns[0], 0.0);
        near(score.turns[1], 1.7 / 6.0);
        near(score.turns[2], 0.7 / 6.0);
        near(score.total, 2.4 / 6.0);
        let cost = ["asked", "prompt-tokens", "reply-tokens"].map(|name| component(&score, name));
        assert_eq!(cost, [requests, requests * 50.0, requests * 3.0]);
        let notes: Vec<&str> = score.evidence.iter().map(|span| span.note.as_str()).collect();
        assert!(notes.contains(&"clear: not counted") && notes.contains(&"clear: met to 0.70"), "{notes:?}");
    }
}

#[test]
fn a_judge_is_not_asked_what_cannot_count() {
    let kind = |more: &str| format!(r#"{{"name": "kind", "in": "turn", "ask": "Is it kind?", {more}}}"#);
    let never = |_: &str| -> String { panic!("asked") };
    let one_by_one = || vec![named("judge-turns", "one-by-one")];
    let needy = format!(r#"[{}, {{"name": "calls", "must-call": "look"}}]"#, kind(r#""needs": ["calls"]"#));
    let score = judged_with(&needy, vec![say("please")], vec![], never).expect("no question");
    assert_eq!((component(&score, "process"), component(&score, "blocked")), (0.0, 1.0));
    // From the call on, and until it is met.
    let late =
        format!(r#"[{}, {{"name": "calls", "in": "turn", "must-call": "look"}}]"#, kind(r#""needs": ["calls"]"#));
    let turns = || vec![say("a"), say("b"), call("look"), say("please"), say("d")];
    let verdict = |_: &str, part: &str| u32::from(part.contains("please"));
    let score = judged_with(&late, turns(), one_by_one(), |asked| table(asked, verdict)).expect("verdicts");
    assert_eq!(component(&score, "asked"), 3.0);
    let once = format!("[{}]", kind(r#""once": true"#));
    let score = judged_with(&once, turns(), one_by_one(), |asked| table(asked, verdict)).expect("verdicts");
    assert_eq!((component(&score, "asked"), score.total, &score.turns[..]), (3.0, 1.0, &[0.0, 0.0, 1.0, 0.0][..]));
}

#[test]
fn judgements_are_repeated_and_their_disagreement_is_a_component() {
    let asks = r#"[{"name": "kind", "ask": "Is it kind?"}]"#;
    let count = std::cell::Cell::new(0);
    let alternate = |_: &str| {
        count.set(count.get() + 1);
        if count.get() % 2 == 0 { "no" } else { "yes" }.to_owned()
    };
    let more = vec![named("judges", 4), named("temperature", 0.7)];
    let score = judged_with(asks, vec![say("alpha")], more, alternate).expect("verdicts");
    let shown = ["asked", "disagreement", "disputed"].map(|name| component(&score, name));
    assert_eq!((score.total, shown), (0.5, [4.0, 0.5, 1.0]));
    // One request and three retries.
    let failed = judged_with(asks, vec![say("alpha")], vec![named("retries", 3)], |_| {
        count.set(count.get() + 1);
        "perhaps".to_owned()
    });
    assert!(matches!(failed, Err(Error::Other(message)) if message.contains("item `kind`")));
    assert_eq!(count.get(), 8);
}

/// A won episode in which one of two turns is short: outcome 1, process 1/2.
#[test]
fn the_outcome_replaces_the_process_over_training() {
    let checklist = r#"[{"name": "won", "fact": "success"}, {"name": "short", "in": "turn", "max-words": 1}]"#;
    let won = |success: bool| Trajectory {
        extras: vec![named("success", success)],
        ..attempt(vec![say("a"), say("two words")])
    };
    let at = |trajectory, step, more: Vec<NamedValue>| {
        let options = [vec![named("checklist", checklist), named("decay-steps", 100)], more].concat();
        score_all::<Rubric>(&[trajectory], options, step).expect("a good trajectory").remove(0).remove(0)
    };
    for (step, total, first) in [(0, 0.75, 0.25), (50, 0.875, 0.125), (100, 1.0, 0.0), (500, 1.0, 0.0)] {
        let score = at(won(true), step, vec![]);
        assert_eq!((score.total, &score.turns[..]), (total, &[first, 0.0][..]), "{step}");
        assert_eq!(component(&score, "process-weight"), 2.0 * first);
    }
    assert_eq!(at(won(false), 0, vec![]).total, 0.25);
    // Of two turns, the first has the weight 1 / (1 + 1/4).
    assert!((at(won(false), 0, vec![named("turn-decay", 0.25)]).total - 0.4).abs() < 1e-12);
    // ReNorm: (1/2 + 0 − 1) / 2.
    assert_eq!(at(won(false), 0, vec![named("normalise", "outcome")]).total, -0.25);
    assert_eq!(at(won(true), 0, vec![named("normalise", "outcome")]).total, 0.75);
}

#[test]
fn principles_are_normalised_within_the_group() {
    let checklist = r#"[{"name": "short", "in": "turn", "max-words": 1}]"#;
    let group = [attempt(vec![say("a"), say("b c")]), attempt(vec![say("b c"), say("d e")])];
    let scored = |normalise: &str, group: &[Trajectory]| {
        let options = vec![named("checklist", checklist), named("normalise", normalise)];
        let scores = score_all::<Rubric>(group, options, 0).expect("good trajectories");
        scores.into_iter().map(|mut seats| seats.remove(0)).collect::<Vec<Score>>()
    };
    let totals = |scores: &[Score]| scores.iter().map(|score| score.total).collect::<Vec<_>>();
    assert_eq!(totals(&scored("none", &group)), [0.5, 0.0]);
    let scores = scored("group", &group);
    // The numbers of `items_are_compared_within_the_group`.
    for (found, expected) in totals(&scores).iter().zip([0.5, -0.5]) {
        assert!((found - expected).abs() < 1e-5, "{scores:?}");
    }
    assert_eq!((component(&scores[0], "process"), component(&scores[1], "process")), (0.5, 0.0));
    assert!(scores[0].turns[0] > 0.7 && scores[0].turns[1] < -0.2, "{scores:?}");
    // An attempt without others has nothing to be compared with, and equal attempts are equal.
    assert!(totals(&scored("group", &[group[1].clone(), group[1].clone()])).iter().all(|total| total.abs() < 1e-9));
    // Normalised by the outcome, a checklist needs one.
    let options = vec![named("checklist", checklist), named("normalise", "outcome")];
    let refused = score_all::<Rubric>(&group, options, 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("no item about the whole episode")));
}

#[test]
fn facts_and_answers_of_the_environment_decide() {
    let fact = r#"[{"name": "won", "fact": "success"}]"#;
    let answer = r#"[{"name": "right", "answer": "answer"}]"#;
    let of = |checklist: &str, ending, extras, words: &str| {
        let privileged = vec![named("answer", "7")];
        let trajectory = Trajectory { ending, extras, privileged, ..attempt(vec![say(words)]) };
        score_all::<Rubric>(&[trajectory], vec![named("checklist", checklist)], 0).map(|scores| scores[0][0].total)
    };
    let (ended, cut) = (Ending::Terminated, Ending::TurnLimit);
    for (value, total) in [(named("success", true), 1.0), (named("success", 0.4), 0.0), (named("success", 1), 1.0)] {
        assert_eq!(of(fact, ended, vec![value.clone()], "x"), Ok(total), "{value:?}");
    }
    assert_eq!(of(fact, cut, vec![], "x"), Ok(0.0));
    let missing = of(fact, ended, vec![], "x");
    assert!(matches!(missing, Err(Error::Invalid(message)) if message.contains("without the fact `success`")));
    let text = of(fact, ended, vec![named("success", "yes")], "x");
    assert!(matches!(text, Err(Error::Invalid(message)) if message.contains("`success` is `yes`")));
    for (ending, words, total) in [(ended, "It is 7.", 1.0), (ended, "It is 8.", 0.0), (cut, "It is 7.", 0.0)] {
        assert_eq!(of(answer, ending, vec![], words), Ok(total), "{words}");
    }
    let missing = of(r#"[{"name": "right", "answer": "key"}]"#, ended, vec![], "7");
    assert!(matches!(missing, Err(Error::Invalid(message)) if message.contains("no privileged fact `key`")));
}

#[test]
fn an_essential_item_of_turns_bounds_the_total() {
    let checklist = r#"[{"name": "looks", "in": "turn", "essential": true, "must-call": "look"},
                        {"name": "short", "in": "turn", "weight": 3, "max-words": 1}]"#;
    let minus_one = || vec![named("lowest", "minus-one")];
    let score = scored(checklist, vec![say("a"), say("b")], minus_one());
    assert_eq!((score.total, &score.turns[..]), (-1.0, &[0.0, 0.0][..]));
    assert_eq!((component(&score, "process"), component(&score, "essential-missed")), (0.75, 1.0));
    assert_eq!(scored(checklist, vec![say("a"), call("look"), say("b")], minus_one()).total, 0.875);
}
