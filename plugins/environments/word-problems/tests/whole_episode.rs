//! Environment, tool and reward together: the calculator answers the oracle's calls, and a reward scores its message.

use answer_match::AnswerMatch;
use calculator::Calculator;
use gymkhana_sdk::environment::{Action, Advice, Episode, Oracle, Privileged};
use gymkhana_sdk::reward::{Ending, SeatCall, SeatMessage, Trajectory, Turn, score};
use gymkhana_sdk::tool::Session;
use gymkhana_sdk::{Task, named, text, text_of};
use word_problems::WordProblems;

/// Trajectory of the oracle on a task, as rewards see it.
fn demonstrate(split: &str, index: u64, difficulty: i64) -> Trajectory {
    let task = Task { split: split.to_owned(), index };
    let (mut episode, _) =
        Episode::<WordProblems>::reset(&task, vec![named("difficulty", difficulty)], 0).expect("a task that there is");
    let mut calculator = Session::<Calculator>::open(None, Vec::new(), 0).expect("a session");
    let tools = ["calculate".to_owned()];
    let (mut turns, mut results) = (Vec::new(), Vec::new());
    loop {
        match episode.environment().advise(&tools, &results).expect("advice") {
            Advice::Calls(calls) => {
                results.clear();
                for call in calls {
                    let answer = calculator.call(&call).expect("an answer");
                    assert!(!answer.failed, "{}: {}", call.arguments, text_of(&answer.content));
                    results.push(text_of(&answer.content));
                    turns.push(Turn::Call(SeatCall { seat: 0, call, cost: 0.0 }));
                }
            }
            Advice::Message(words) => {
                let stepped = episode.step(Action::say(0, words.as_str())).expect("a message");
                assert!(stepped.terminated);
                turns.push(Turn::Message(SeatMessage { seat: 0, content: text(words) }));
                let privileged = episode.environment().privileged();
                return Trajectory { turns, privileged, ..Trajectory::new(split, index, Ending::Terminated) };
            }
        }
    }
}

#[test]
fn the_oracle_earns_the_full_reward() {
    for difficulty in 1..=4 {
        for split in ["train", "test"] {
            for index in 0..200 {
                let trajectory = demonstrate(split, index, difficulty);
                assert_eq!(trajectory.calls(0).count(), 1);
                let scores = score::<AnswerMatch>(&[trajectory], Vec::new(), 0).expect("a good trajectory");
                assert_eq!(scores[0][0].total, 1.0, "{split}/{index} at difficulty {difficulty}");
            }
        }
    }
}
