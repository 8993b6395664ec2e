//! Episodes through real components with scripted policies:
//! - a reply's calls are answered in order by the tools that offer them, however long each takes, and the episode
//!   continues;
//! - sampled tokens are in the record exactly, and all others are masked;
//! - a tool that crashes is an observation, and its state is lost;
//! - an environment or a reward that fails gives the run's failure reward;
//! - limits end an episode in their stated order;
//! - a replay gives the same record, and detects a changed one.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use crate::common::{Table, answers, call, limits, play, play_by, rollout, rollout_in};
use gymkhana_record::{Boundary, Ending, FailureKind, Turn, Value};
use gymkhana_rollout::{Actor, Limits, ReplayDifference};
use gymkhana_sandbox::{Sandbox, SandboxConfig};

#[tokio::test]
async fn calls_of_one_turn_are_answered_in_their_order() {
    let table = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    let first =
        format!("{}{}", call("calculate", r#"{"expression": "6*7"}"#), call("calculate", r#"{"expression": "1/"}"#));
    let record = play(&rollout, &[&first, "42"]).await;
    let answers = answers(&record);
    assert_eq!(answers[0], ("42".to_owned(), false));
    assert!(answers[1].1, "a malformed expression is a failed answer: {answers:?}");
    assert_eq!(record.ending, Ending::Terminated);
    assert_eq!(record.failures, []);
}

#[tokio::test]
async fn the_record_holds_exactly_the_sampled_tokens() {
    let table = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    let replies = [call("calculate", r#"{"expression": "2+2"}"#), "4".to_owned()];
    let record = play(&rollout, &[&replies[0], &replies[1]]).await;
    let [segment] = &record.segments[..] else { panic!("one context, one segment") };
    for (turn, reply) in replies.iter().enumerate() {
        let sampled: Vec<u32> = (0..segment.len())
            .filter(|&index| segment.sampled()[index] && segment.turns()[index] == turn as u32)
            .map(|index| segment.tokens()[index])
            .collect();
        assert_eq!(rollout.chat().decode_reply(&sampled).unwrap(), *reply);
        assert!(rollout.chat().stop().contains(sampled.last().unwrap()), "the stop token was sampled");
    }
    // The whole segment is the conversation, with each message once.
    let text = rollout.chat().decode(segment.tokens()).unwrap();
    assert_eq!(text.matches("2+2").count(), 1, "{text}");
    assert!(text.ends_with("4<|im_end|>"), "{text}");
}

/// A slow and a fast tool in one turn. The slow one exceeds its limit long after the fast one has answered.
#[tokio::test]
async fn concurrent_tools_are_answered_in_the_order_of_the_calls() {
    let table = Table::new().tool("calculator", &[]).tool("guest-hostile-tool", &[]);
    let rollout = rollout(&table, limits()).await;
    let product = ("42".to_owned(), false);
    let out_of_time = ("the tool failed: it ran out of time; its state is lost".to_owned(), true);
    // Calls of one tool share its state, in order: after the endless loop it counts from the start.
    let (first, second) = (("1".to_owned(), false), ("2".to_owned(), false));
    for (calls, expected) in [
        (["loop", "calculate", "state"], [&out_of_time, &product, &first]),
        (["calculate", "state", "loop"], [&product, &first, &out_of_time]),
        (["state", "calculate", "state"], [&first, &product, &second]),
    ] {
        let reply: String = calls.iter().map(|name| call(name, r#"{"expression": "6*7"}"#)).collect();
        let record = play(&rollout, &[&reply, "done"]).await;
        assert_eq!(answers(&record).iter().collect::<Vec<_>>(), expected, "{calls:?}");
        let order: Vec<&str> = record
            .turns
            .iter()
            .filter_map(|turn| match turn {
                Turn::Answer { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(order, ["call-0", "call-1", "call-2"]);
        // The context has the same order.
        let text = rollout.chat().decode(record.segments[0].tokens()).unwrap();
        let places: Vec<usize> =
            expected.iter().map(|(answer, _)| text.rfind(&format!("t{answer}<")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

#[tokio::test]
async fn a_tool_that_crashes_is_an_observation_and_loses_its_state() {
    let table = Table::new().tool("guest-hostile-tool", &[]);
    let rollout = rollout(&table, limits()).await;
    let replies =
        [call("state", "{}"), call("state", "{}"), call("trap", "{}"), call("state", "{}"), "done".to_owned()];
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    let record = play(&rollout, &replies).await;
    let answers = answers(&record);
    assert_eq!(answers[0].0, answers[3].0, "the state began anew: {answers:?}");
    assert_ne!(answers[0].0, answers[1].0, "the state was kept before: {answers:?}");
    assert_eq!(answers[2], ("the tool failed: it crashed; its state is lost".to_owned(), true));
    let [failure] = &record.failures[..] else { panic!("{:?}", record.failures) };
    assert_eq!(failure.kind, FailureKind::Trap);
    assert_eq!(failure.at, Boundary::Tool("guest-hostile-tool".to_owned()));
    assert_eq!(record.ending, Ending::Terminated, "the episode went on to its end");
}

#[tokio::test]
async fn a_failing_environment_gives_the_failure_reward() {
    for (behaviour, kind) in [
        ("trap-step", FailureKind::Trap),
        ("loop-step", FailureKind::Budget),
        ("nan-reward", FailureKind::Malformed),
        ("error-step", FailureKind::Refused),
    ] {
        let table =
            Table::new().environment("guest-hostile-environment", &[("behaviour", Value::Text(behaviour.to_owned()))]);
        let rollout = rollout(&table, limits()).await;
        let record = play(&rollout, &["yes"]).await;
        assert_eq!(record.ending, Ending::EnvironmentFailed, "{behaviour}");
        assert_eq!(record.failures[0].kind, kind, "{behaviour}: {:?}", record.failures);
        assert_eq!(record.rewards, [crate::common::FAILURE_REWARD], "{behaviour}");
        assert!(!record.success);
    }
}

#[tokio::test]
async fn a_failing_reward_gives_the_failure_reward() {
    for behaviour in ["nan", "infinite", "out-of-range", "too-few", "trap", "loop", "wrong-components"] {
        let table = Table::new()
            .environment("guest-hostile-environment", &[])
            .reward("guest-hostile-reward", &[("behaviour", Value::Text(behaviour.to_owned()))]);
        let rollout = rollout(&table, limits()).await;
        let record = play(&rollout, &["yes"]).await;
        assert_eq!(record.rewards, [crate::common::FAILURE_REWARD], "{behaviour}");
        assert_eq!(record.failures[0].at, Boundary::Reward("guest-hostile-reward".to_owned()), "{behaviour}");
    }
}

#[tokio::test]
async fn malformed_and_unknown_calls_are_answered() {
    let table = Table::new().tool("calculator", &[]);
    let rollout = rollout(&table, limits()).await;
    let record = play(&rollout, &["<tool_call>1+1</tool_call>", &call("calculat", "{}"), "2"]).await;
    let answers = answers(&record);
    assert!(answers[0].0.contains("not of the form") && answers[0].1, "{answers:?}");
    assert!(answers[1].0.contains("unknown function `calculat`; known: calculate"), "{answers:?}");
    assert_eq!(record.calls(), 2);
}

#[tokio::test]
async fn limits_end_an_episode() {
    let table = Table::new().tool("calculator", &[]);
    let again = call("calculate", r#"{"expression": "1+1"}"#);
    let replies = vec![again.as_str(); 20];
    for (limits, ending, turns) in [
        (Limits { turns: 3, ..limits() }, Ending::TurnLimit, 3),
        (Limits { calls: 2, ..limits() }, Ending::CallLimit, 2),
        (Limits { time: Duration::ZERO, ..limits() }, Ending::TimeLimit, 1),
    ] {
        let rollout = rollout(&table, limits).await;
        let record = play(&rollout, &replies).await;
        assert_eq!(record.ending, ending);
        let taken = record.segments[0].turns().iter().max().unwrap() + 1;
        assert_eq!(taken, turns, "{ending:?}");
    }
    let rollout = rollout(&table, Limits { context_tokens: 300, ..limits() }).await;
    let record = play(&rollout, &replies).await;
    assert_eq!(record.ending, Ending::ContextLimit);
    assert!(record.segments[0].len() <= 300 + 64, "no more than the last answer stands beyond the limit");
    assert!(record.segments[0].sampled().iter().rposition(|sampled| *sampled).unwrap() < 300);
}

#[tokio::test]
async fn a_replay_gives_the_same_record_and_detects_a_changed_one() {
    let table = Table::new().tool("calculator", &[]).tool("guest-hostile-tool", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    // One call traps, which the replay repeats; one exceeds its budget, which the replay takes from the record.
    let replies =
        [call("calculate", r#"{"expression": "2^10"}"#), call("trap", "{}"), call("loop", "{}"), "7".to_owned()];
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    let record = play(&rollout, &replies).await;
    assert_eq!(record.failures.len(), 2, "{:?}", record.failures);
    let group = [record];
    let replayed = rollout.replay_group(&group).await.unwrap();
    assert_eq!(ReplayDifference::between(&group[0], &replayed[0]), None);
    let mut changed = group[0].clone();
    let answer = changed.turns.iter_mut().find_map(|turn| match turn {
        Turn::Answer { content, .. } => Some(content),
        _ => None,
    });
    *answer.unwrap() = vec![gymkhana_record::Part::Text("1025".to_owned())];
    let difference = ReplayDifference::between(&changed, &replayed[0]).expect("a changed answer is a difference");
    assert!(difference.place.starts_with("turns["), "{difference:?}");
}

/// A replay takes over a failed advice and a timed-out final view instead of repeating them. Repeated, they would end
/// differently, because the replay's sandbox has another budget.
#[tokio::test]
async fn a_replay_takes_over_failures_that_depend_on_time() {
    let patient = gymkhana_sandbox::Limits { budget: Duration::from_millis(300), ..Default::default() };
    let patient = Sandbox::new(&SandboxConfig { max_instances: Some(8), limits: patient, ..SandboxConfig::default() });
    let patient = patient.unwrap();
    let behave = |behaviour: &str| {
        let with = [("behaviour", Value::Text(behaviour.to_owned()))];
        Table::new().environment("guest-hostile-environment", &with).tool("guest-hostile-tool", &[])
    };
    let spiteful = call("loop-view", "{}");
    for (behaviour, replies, during, ending) in [
        ("trap-advise", &[][..], &["advise"][..], Ending::EnvironmentFailed),
        // The ended instance gives no hint either.
        ("loop-privileged", &["yes"], &["privileged", "guidance"], Ending::Terminated),
        ("honest", &[&spiteful, "yes"], &["final view"], Ending::Terminated),
    ] {
        let table = behave(behaviour);
        let recording = rollout(&table, limits()).await;
        let record = match replies {
            [] => play_by(&recording, Actor::Oracle).await,
            replies => play(&recording, replies).await,
        };
        let failures: Vec<String> = record.failures.iter().map(|failure| failure.call_site.to_string()).collect();
        assert_eq!(
            (failures, record.ending),
            (during.iter().map(ToString::to_string).collect(), ending),
            "{behaviour}"
        );
        assert!(!record.turns.is_empty() && record.sampled_tokens() > 0, "it failed later than at once");
        let replaying = rollout_in(&patient, &table, limits(), 0).await;
        let replayed = replaying.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None, "{behaviour}");
    }
    // An oracle with advice.
    let table = behave("honest");
    let record = play_by(&rollout(&table, limits()).await, Actor::Oracle).await;
    assert_eq!((record.ending, record.success, &record.failures[..]), (Ending::Terminated, true, &[][..]));
}

/// The closing token of the oracle's last reply counts: a demonstration of as many tokens as the limit is whole, and one
/// token less ends it before that reply. A replay, which does not ask the oracle, ends at the same place.
#[tokio::test]
async fn an_oracle_keeps_the_context_limit_to_the_token() {
    let honest = [("behaviour", Value::Text("honest".to_owned()))];
    let table = Table::new().environment("guest-hostile-environment", &honest).tool("guest-hostile-tool", &[]);
    let whole = play_by(&rollout(&table, limits()).await, Actor::Oracle).await;
    let [segment] = &whole.segments[..] else { panic!("{} segments", whole.segments.len()) };
    let length = segment.len();
    for (context_tokens, ending, success) in
        [(length, Ending::Terminated, true), (length - 1, Ending::ContextLimit, false)]
    {
        let rollout = rollout(&table, Limits { context_tokens, ..limits() }).await;
        let record = play_by(&rollout, Actor::Oracle).await;
        assert_eq!((record.ending, record.success), (ending, success), "{context_tokens} of {length} tokens");
        assert!(record.segments.iter().all(|segment| segment.len() <= context_tokens));
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

/// After a seat has passed the turn, its remaining calls have no effect, and no other seat is affected.
#[tokio::test]
async fn calls_of_one_turn_end_when_the_turn_passes() {
    let rollout = rollout(&Table::new().environment("guest-two-seats", &[]), limits()).await;
    let reply: String = ["stay", "pass", "stay"].iter().map(|name| call(name, "{}")).collect();
    let record = play(&rollout, &[&reply]).await;
    let answer = |text: &str, failed| (text.to_owned(), failed);
    let (stayed, passed) = (answer("You stayed.", false), answer("You passed.", false));
    let expected = [
        stayed.clone(),
        passed.clone(),
        answer("it is not your turn", true),
        stayed,
        passed,
        answer("the episode is over", true),
    ];
    assert_eq!(answers(&record), expected);
    let movers: Vec<u32> = record
        .turns
        .iter()
        .filter_map(|turn| match turn {
            Turn::Call { seat, .. } => Some(*seat),
            _ => None,
        })
        .collect();
    assert_eq!(movers, [0, 0, 0, 1, 1, 1]);
    assert_eq!((record.ending, &record.rewards[..]), (Ending::Terminated, &[1.0, 1.0][..]));
    let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
    assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
}

/// The range of the environment's rewards is checked even if the host ends the episode, and their sum is finite.
#[tokio::test]
async fn an_out_of_range_reward_fails_when_the_host_ends_the_episode() {
    for (behaviour, during) in [
        ("hoard", Some("the end by a limit")),
        ("overflow", Some("step 0")),
        ("swinging-reward", Some("step 0")),
        ("honest", None),
    ] {
        let table =
            Table::new().environment("guest-hostile-environment", &[("behaviour", Value::Text(behaviour.to_owned()))]);
        let rollout = rollout(&table, Limits { turns: 2, ..limits() }).await;
        let record = play(&rollout, &["no", "no"]).await;
        let failures: Vec<_> = record.failures.iter().map(|each| (each.kind, each.call_site.to_string())).collect();
        let expected: Vec<_> = during.into_iter().map(|during| (FailureKind::Malformed, during.to_owned())).collect();
        assert_eq!(failures, expected, "{behaviour}");
        let (ending, reward) = match during {
            Some(_) => (Ending::EnvironmentFailed, crate::common::FAILURE_REWARD),
            None => (Ending::TurnLimit, 0.0),
        };
        assert_eq!((record.ending, &record.rewards[..]), (ending, &[reward][..]), "{behaviour}");
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}
