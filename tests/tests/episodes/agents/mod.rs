//! Episodes that an agent program plays, with a scripted policy:
//! - the program's output is the action, and the record holds the sampled tokens, the transcript and the program's run;
//! - a replay starts no program and gives the same record;
//! - a program that crashes, hangs or never calls the model is a failure with an owner.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod tools;

use std::sync::Arc;
use std::time::Duration;

use crate::common::{FAILURE_REWARD, Table, limits, play, rollout};
use gymkhana_gateway::AgentHarness;
use gymkhana_record::{Boundary, Ending, EpisodeRecord, FailureKind, Turn, text_of};
use gymkhana_rollout::{AgentSettings, Limits, ReplayDifference, Rollout};

/// A program in Python's own library: asks twice, with a history that grows, and prints the second reply.
const ASKS_TWICE: &str = r#"
import json, os, sys, urllib.request
task = json.load(sys.stdin)
assert task == json.load(open(os.environ["GYMKHANA_TASK"])), "the file differs"
def ask(messages):
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]
messages = [{"role": "user", "content": task["prompt"]}]
messages.append(ask(messages))
messages.append({"role": "user", "content": "Only the number."})
print(ask(messages)["content"])
"#;

fn settings(command: &[&str]) -> AgentSettings {
    AgentSettings {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![],
        models: vec!["policy".to_owned()],
        side_models: vec![],
        time: Duration::from_secs(30),
        retry_window: Duration::from_secs(10),
        stop_texts: vec![],
        mcp: false,
        requested_sampling: false,
    }
}

async fn by_program(settings: AgentSettings, limits: Limits) -> Rollout {
    let table = Table::new().reward("answer-match", &[]);
    rollout(&table, limits).await.with_agent(Arc::new(AgentHarness::start(settings).unwrap()))
}

/// The texts of the sampled replies of each segment.
fn sampled(rollout: &Rollout, record: &EpisodeRecord) -> Vec<Vec<String>> {
    let texts = record.segments.iter().map(|segment| {
        let replies = segment.replies();
        replies.map(|place| rollout.chat().decode_reply(&segment.tokens()[place]).unwrap()).collect()
    });
    texts.collect()
}

#[tokio::test]
async fn the_output_of_a_program_is_the_action_and_a_replay_needs_no_program() {
    let rollout = by_program(settings(&["python3", "-c", ASKS_TWICE]), limits()).await;
    let record = play(&rollout, &["I think it is 42.", "42"]).await;
    assert_eq!((record.ending, &record.failures[..]), (Ending::Terminated, &[][..]), "{record:#?}");
    assert_eq!(sampled(&rollout, &record), [["I think it is 42.", "42"]]);
    let run = record.agent.clone().unwrap();
    assert_eq!((run.answer.as_deref(), run.exit, run.refused), (Some("42"), Some(0), 0));
    let said: Vec<(bool, String)> = record
        .turns
        .iter()
        .map(|turn| match turn {
            Turn::Message { content, .. } => (true, text_of(content)),
            Turn::Observation { content, .. } => (false, text_of(content)),
            other => panic!("{other:?}"),
        })
        .collect();
    let task = text_of(&record.opening.observations[0].1);
    let expected = [
        (false, task.as_str()),
        (false, task.as_str()),
        (true, "I think it is 42."),
        (false, "Only the number."),
        (true, "42"),
    ];
    let said: Vec<(bool, &str)> = said.iter().map(|(by_policy, text)| (*by_policy, text.as_str())).collect();
    assert_eq!(said[..5], expected);
    let turns: Vec<(u32, u32)> = record.policy_turns.iter().map(|turn| (turn.turn, turn.transcript)).collect();
    assert_eq!(turns, [(0, 2), (1, 4)]);
    assert_eq!(record.scores.len(), 1, "the reward scored the record");
    // The same plugins without the program.
    let table = Table::new().reward("answer-match", &[]);
    let replayed =
        crate::common::rollout(&table, limits()).await.replay_group(std::slice::from_ref(&record)).await.unwrap();
    assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
}

#[tokio::test]
async fn programs_that_fail_are_failures_of_the_agent() {
    let slow = AgentSettings { time: Duration::from_millis(300), ..settings(&["sleep", "60"]) };
    let asks_and_dies = format!("{ASKS_TWICE}\nos.kill(os.getpid(), 11)");
    for (settings, kind, word) in [
        (settings(&["sh", "-c", "echo broken >&2; exit 3"]), FailureKind::Refused, "status 3: broken"),
        (settings(&["echo", "42"]), FailureKind::Malformed, "never called the model"),
        (slow, FailureKind::Deadline, "0.3 seconds"),
        (settings(&["python3", "-c", &asks_and_dies]), FailureKind::Trap, "signal 11"),
    ] {
        let rollout = by_program(settings, limits()).await;
        let record = play(&rollout, &["a", "b"]).await;
        let [failure] = &record.failures[..] else { panic!("one failure: {record:?}") };
        // The policy has no part in the failure of a program that never asked it.
        let has_asked = kind == FailureKind::Trap;
        let ending = if has_asked { Ending::AgentFailed } else { Ending::Dropped };
        assert_eq!((record.ending, &failure.at, failure.kind), (ending, &Boundary::Agent, kind));
        assert!(failure.message.contains(word), "{failure}");
        assert_eq!(record.rewards, vec![FAILURE_REWARD; usize::from(has_asked)]);
        assert_eq!(record.agent.as_ref().and_then(|run| run.answer.as_deref()), None);
        // What it sampled before is in the record, and a replay fails in the same way.
        assert_eq!(record.segments.len(), usize::from(kind == FailureKind::Trap));
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

#[tokio::test]
async fn a_program_that_gives_up_at_a_limit_ended_by_the_limit() {
    let one_turn = Limits { turns: 1, ..limits() };
    let rollout = by_program(settings(&["python3", "-c", ASKS_TWICE]), one_turn).await;
    let record = play(&rollout, &["I think it is 42.", "42"]).await;
    assert_eq!((record.ending, &record.failures[..]), (Ending::TurnLimit, &[][..]));
    assert_eq!(sampled(&rollout, &record), [["I think it is 42."]]);
    assert_eq!(record.agent.unwrap().refused, 1);
}

#[tokio::test]
async fn a_program_that_does_not_start_is_a_fault_of_the_host() {
    let rollout = by_program(settings(&["/no/such/program"]), limits()).await;
    let record = play(&rollout, &[]).await;
    assert_eq!((record.ending, record.failures[0].kind), (Ending::Dropped, FailureKind::Fault));
    assert!(record.failures[0].to_string().contains("`/no/such/program` does not start"), "{:?}", record.failures);
}
