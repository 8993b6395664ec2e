//! Tests of the reward through the SDK's scoring.

use super::*;
use gymkhana_sdk::reward::{CallAnswer, Component, SeatCall, SeatMessage, Turn, score};
use gymkhana_sdk::{Call, NamedValue, named, text};

fn say(words: &str) -> Turn {
    Turn::Message(SeatMessage { seat: 0, content: text(words) })
}

fn call() -> Turn {
    Turn::Call(SeatCall { seat: 0, call: Call::advised("calculate", "{}"), cost: 0.5 })
}

fn attempt(turns: Vec<Turn>, ending: Ending) -> Trajectory {
    Trajectory { turns, privileged: vec![named("answer", "3049")], ..Trajectory::new("train", 0, ending) }
}

fn scored(trajectory: Trajectory, options: Vec<NamedValue>) -> Score {
    let mut scores = score::<AnswerMatch>(&[trajectory], options, 0).expect("a good trajectory");
    scores.remove(0).remove(0)
}

#[test]
fn a_right_last_message_earns_a_point_and_says_where() {
    let answered = CallAnswer { seat: 0, id: String::new(), content: text("3049"), failed: false };
    let turns = vec![say("let me see"), call(), Turn::Answer(answered), say("It is 3049.")];
    let score = scored(attempt(turns, Ending::Terminated), Vec::new());
    assert_eq!(score.total, 1.0);
    let component = |name: &str, value| Component { name: name.into(), value };
    assert_eq!(score.components, [component("correct", 1.0), component("calls", 1.0), component("cost", 0.0)]);
    assert_eq!((score.evidence[0].turn, score.evidence[0].start, score.evidence[0].end), (3, 6, 10));
}

#[test]
fn calls_have_the_configured_cost_within_the_range() {
    let price = |cost: f64| vec![named("per-call-cost", cost)];
    let right = || attempt(vec![call(), call(), say("3049")], Ending::Terminated);
    assert_eq!(scored(right(), price(0.25)).total, 0.5);
    assert_eq!(scored(right(), price(7.0)).total, -1.0);
    let wrong = attempt(vec![call(), say("3050")], Ending::Terminated);
    assert_eq!(scored(wrong, price(0.25)).total, -0.25);
    let refused = score::<AnswerMatch>(&[right()], price(-1.0), 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("per-call-cost")));
}

#[test]
fn only_the_last_word_of_a_finished_episode_counts() {
    for (turns, ending) in [
        (vec![say("3049"), say("3050")], Ending::Terminated),
        (vec![say("3049"), call()], Ending::Terminated),
        (vec![say("3049")], Ending::TurnLimit),
        (vec![say("3049")], Ending::Truncated),
        (vec![say("3049")], Ending::Failed),
        (vec![call()], Ending::Terminated),
    ] {
        assert_eq!(scored(attempt(turns, ending), Vec::new()).total, 0.0);
    }
}

#[test]
fn other_seats_messages_do_not_count() {
    let other = Turn::Message(SeatMessage { seat: 1, content: text("3049") });
    let shown = Turn::Observation(SeatMessage { seat: 0, content: text("3049") });
    let trajectory = attempt(vec![say("3050"), other, shown], Ending::Terminated);
    let scores = score::<AnswerMatch>(&[trajectory], Vec::new(), 0).expect("a good trajectory");
    let totals: Vec<(u32, f64)> = scores[0].iter().map(|score| (score.seat, score.total)).collect();
    assert_eq!(totals, [(0, 0.0), (1, 1.0)]);
}

#[test]
fn an_environment_without_an_answer_is_named() {
    let trajectory = Trajectory { privileged: Vec::new(), ..attempt(vec![say("1")], Ending::Terminated) };
    let refused = score::<AnswerMatch>(&[trajectory], Vec::new(), 0);
    assert!(matches!(refused, Err(Error::Invalid(message)) if message.contains("`answer`")));
}
