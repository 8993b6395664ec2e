//! Budget of an episode's record: a plugin that returns more than the record may hold fails alone, and the record stays
//! as small as promised. Each attack has a permitted counterpart.

use crate::common::{Table, answers, call, limits, play, rollout};
use gymkhana_record::{Boundary, CallSite, Ending, EpisodeRecord, FailureKind, Value, stored_bytes};
use gymkhana_rollout::{Limits, ReplayDifference};

/// Room for three pictures of 7 MiB as base64, and not for four.
const THREE_PICTURES: u64 = 32 << 20;

/// Size that a record may have beyond its budget: tokens of 16 bytes and more each, and what the policy says.
const REST: u64 = 16 << 20;

async fn played(table: &Table, budget: u64, replies: &[&str]) -> EpisodeRecord {
    let rollout = rollout(table, Limits { episode_bytes: budget, context_tokens: 1_000_000, ..limits() }).await;
    let record = play(&rollout, replies).await;
    assert!(stored_bytes(&record) < budget + REST, "{} bytes", stored_bytes(&record));
    let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.expect("a replay");
    assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    record
}

#[tokio::test]
async fn an_environment_that_shows_too_many_pictures_fails() {
    let behaviour = [("behaviour", Value::Text("large-picture".to_owned()))];
    let table = Table::new().environment("guest-hostile-environment", &behaviour);
    let record = played(&table, THREE_PICTURES, &["1", "2", "3", "4"]).await;
    assert_eq!(record.ending, Ending::EnvironmentFailed);
    let [failure] = &record.failures[..] else { panic!("{:?}", record.failures) };
    assert_eq!((failure.kind, &failure.call_site), (FailureKind::EpisodeSize, &CallSite::Step(3)));
    assert_eq!(record.rewards, [crate::common::FAILURE_REWARD]);
    // Three pictures are in the record, as base64: four characters for three bytes.
    assert!(stored_bytes(&record.turns) > 3 * (7 << 20) * 4 / 3);
}

#[tokio::test]
async fn pictures_within_the_budget_are_shown() {
    let behaviour = [("behaviour", Value::Text("large-picture".to_owned()))];
    let table = Table::new().environment("guest-hostile-environment", &behaviour);
    let rollout = rollout(&table, Limits { turns: 3, episode_bytes: THREE_PICTURES, ..limits() }).await;
    let record = play(&rollout, &["1", "2", "3"]).await;
    assert_eq!((record.ending, &record.failures[..]), (Ending::TurnLimit, &[][..]));
}

#[tokio::test]
async fn a_tool_that_answers_too_much_is_answered_for() {
    let table = Table::new().environment("guest-hostile-environment", &[]).tool("guest-hostile-tool", &[]);
    // A control character takes six bytes in a record, so that the sixth answer exceeds 1 MiB.
    let huge = call("controls", r#"{"size": 30000}"#);
    let record = played(&table, 1 << 20, &[&huge, &huge, &huge, &huge, &huge, &huge, "yes"]).await;
    let answers = answers(&record);
    let failed: Vec<bool> = answers.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(failed, [false, false, false, false, false, true]);
    assert_eq!(answers[5].0, "the tool failed: the episode has no room for its answer");
    let [failure] = &record.failures[..] else { panic!("{:?}", record.failures) };
    assert_eq!(failure.kind, FailureKind::EpisodeSize);
    assert_eq!(failure.at, Boundary::Tool("guest-hostile-tool".to_owned()));
    assert_eq!((record.ending, record.success), (Ending::Terminated, true));
}
