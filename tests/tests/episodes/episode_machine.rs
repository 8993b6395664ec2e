//! The state machine of an episode compared with a model of it in this file: random replies with valid, malformed and
//! unknown calls, failing tools, and limits on turns and calls.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common::{Table, call, limits, play, rollout};
use gymkhana_record::{Ending, EpisodeRecord, Turn, text_of};
use gymkhana_rollout::{Limits, ReplayDifference};
use proptest::prelude::*;

/// Number of replies in a script. No episode has more turns.
const REPLIES: usize = 6;

/// A call as a policy may write it.
#[derive(Debug, Clone, Copy)]
enum Written {
    /// A product, computed by the calculator.
    Product,
    /// Number of calls in the second tool's session.
    Count,
    /// A call that ends in an error of the second tool and keeps its state.
    Error,
    /// A call that crashes the second tool and loses its state.
    Trap,
    /// An unknown function.
    Unknown,
    /// Text that is not JSON.
    Malformed,
}

#[derive(Debug, Clone)]
struct Reply {
    message: String,
    calls: Vec<Written>,
}

impl Reply {
    fn text(&self) -> String {
        let calls = self.calls.iter().map(|written| match written {
            Written::Product => call("calculate", r#"{"expression": "6*7"}"#),
            Written::Count => call("state", "{}"),
            Written::Error => call("error", "{}"),
            Written::Trap => call("trap", "{}"),
            Written::Unknown => call("nothing", "{}"),
            Written::Malformed => "<tool_call>\n6*7\n</tool_call>".to_owned(),
        });
        self.message.clone() + &calls.collect::<String>()
    }
}

/// One entry of a transcript, as the model predicts it.
#[derive(Debug, Clone, PartialEq)]
enum Entry {
    Message(String),
    Observation(String),
    Call(String, &'static str),
    Malformed(String, String),
    /// Id, whether the call failed, and the start of the text.
    Answer(String, bool, String),
}

/// Prediction for a script under limits.
fn predict(replies: &[Reply], turn_limit: u32, call_limit: u32) -> (Vec<Entry>, Ending) {
    let mut entries = vec![Entry::Observation("Say something.".to_owned())];
    let (mut calls, mut count) = (0, 0);
    for (turn, reply) in (1..).zip(replies) {
        if reply.calls.is_empty() {
            // The environment repeats every message.
            entries.extend([Entry::Message(reply.message.clone()), Entry::Observation(reply.message.clone())]);
        } else {
            if !reply.message.is_empty() {
                entries.push(Entry::Message(reply.message.clone()));
            }
            if calls + reply.calls.len() > call_limit as usize {
                return (entries, Ending::CallLimit);
            }
            let ids: Vec<String> = (calls..).take(reply.calls.len()).map(|number| format!("call-{number}")).collect();
            calls += reply.calls.len();
            for (id, written) in ids.iter().zip(&reply.calls) {
                entries.push(match written {
                    Written::Product => Entry::Call(id.clone(), "calculate"),
                    Written::Count => Entry::Call(id.clone(), "state"),
                    Written::Error => Entry::Call(id.clone(), "error"),
                    Written::Trap => Entry::Call(id.clone(), "trap"),
                    Written::Unknown => Entry::Call(id.clone(), "nothing"),
                    Written::Malformed => Entry::Malformed(id.clone(), "6*7".to_owned()),
                });
            }
            for (id, written) in ids.into_iter().zip(&reply.calls) {
                let (failed, text) = answer(*written, &mut count);
                entries.push(Entry::Answer(id, failed, text));
            }
        }
        if turn == turn_limit {
            return (entries, Ending::TurnLimit);
        }
        if calls == call_limit as usize {
            return (entries, Ending::CallLimit);
        }
    }
    unreachable!("a script has as many replies as the turn limit allows")
}

/// The answer to a call, given the calls that the second tool's session has seen.
fn answer(written: Written, count: &mut u32) -> (bool, String) {
    match written {
        Written::Product => (false, "42".to_owned()),
        Written::Count => {
            *count += 1;
            (false, count.to_string())
        }
        Written::Error => {
            *count += 1;
            (true, "the tool failed: ".to_owned())
        }
        Written::Trap => {
            *count = 0;
            (true, "the tool failed: it crashed; its state is lost".to_owned())
        }
        Written::Unknown => (true, "unknown function `nothing`; known: ".to_owned()),
        Written::Malformed => (true, String::new()),
    }
}

/// The transcript of a record in the model's form.
fn entries(record: &EpisodeRecord, predicted: &[Entry]) -> Vec<Entry> {
    let entry = |(place, turn): (usize, &Turn)| match turn {
        Turn::Message { content, .. } => Entry::Message(text_of(content)),
        Turn::Thought { .. } => unreachable!("no reply of this test thinks"),
        Turn::Observation { content, .. } => Entry::Observation(text_of(content)),
        Turn::Call { call, .. } => {
            let names = ["calculate", "state", "error", "trap", "nothing"];
            let name = names.into_iter().find(|name| *name == call.name).unwrap();
            Entry::Call(call.id.clone(), name)
        }
        Turn::MalformedCall { id, text, .. } => Entry::Malformed(id.clone(), text.clone()),
        Turn::Answer { id, content, failed, .. } => {
            let text = text_of(content);
            // The model predicts only the start of a failed answer.
            let known = match predicted.get(place) {
                Some(Entry::Answer(_, true, beginning)) if text.starts_with(beginning) => beginning.clone(),
                _ => text,
            };
            Entry::Answer(id.clone(), *failed, known)
        }
    };
    record.turns.iter().enumerate().map(entry).collect()
}

fn reply() -> impl Strategy<Value = Reply> {
    let written = prop::sample::select(vec![
        Written::Product,
        Written::Count,
        Written::Error,
        Written::Trap,
        Written::Unknown,
        Written::Malformed,
    ]);
    ("[a-z]{0,8}", prop::collection::vec(written, 0..4)).prop_map(|(message, calls)| Reply { message, calls })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_episode_equals_the_models_prediction(
        replies in prop::collection::vec(reply(), REPLIES),
        turns in 1..=REPLIES as u32,
        calls in 1..=8_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (record, replayed) = runtime.block_on(async {
            let table =
                Table::new().environment("guest-echo", &[]).tool("calculator", &[]).tool("guest-hostile-tool", &[]);
            let rollout = rollout(&table, Limits { turns, calls, ..limits() }).await;
            let texts: Vec<String> = replies.iter().map(Reply::text).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let record = play(&rollout, &texts).await;
            let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
            (record, replayed)
        });
        let (predicted, ending) = predict(&replies, turns, calls);
        prop_assert_eq!(entries(&record, &predicted), predicted);
        prop_assert_eq!(record.ending, ending);
        prop_assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
        // Every step has one reward; a turn with tool calls has no step.
        let messages = replies[..record.policy_turns.len()].iter().filter(|reply| reply.calls.is_empty()).count();
        prop_assert_eq!(record.environment_rewards[0].rewards.len(), messages);
    }
}
