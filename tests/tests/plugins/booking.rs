//! Booking of a table with a guest played by a real server on loopback, and with a rule-based guest.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{Table, call, limits, play, play_by, rollout};
use crate::model::serve;
use gymkhana_egress::{CompletionSource, Egress, ModelServer, Offline};
use gymkhana_record::{Ending, EpisodeRecord, Turn, Value, text_of};
use gymkhana_rollout::{Actor, ReplayDifference};
use gymkhana_sandbox::Quota;
use serde_json::Value as Json;

const QUOTA: Quota = Quota { model_calls: 8, model_tokens: 4000, http_requests: 0, tool_calls: 0 };

/// Plays the guest like a model: finds its wish in the instruction, and answers the last question.
fn guest(request: &Json) -> String {
    let message = |place: usize| request["messages"][place]["content"].as_str().unwrap_or_default();
    let wants = |slot: &str| {
        let behind = message(0).split_once(&format!("{slot}: ")).map_or("", |(_, behind)| behind);
        behind.split([',', '.']).next().unwrap_or_default().to_owned()
    };
    let last = request["messages"].as_array().map_or(0, |messages| messages.len() - 1);
    match message(last) {
        "Which day?" => format!("{} would suit us.", wants("day")),
        "At what time?" => format!("{}, please.", wants("hour")),
        "How many guests?" => format!("There are {} of us.", wants("guests")),
        "In which area?" => format!("Somewhere in the {}.", wants("area")),
        other => format!("Pardon? {other}"),
    }
}

fn table(user: &str) -> Table {
    Table::new().environment("booking", &[("user", Value::Text(user.to_owned()))])
}

async fn played_by_server(port: u16) -> gymkhana_rollout::Rollout {
    let url = format!("http://127.0.0.1:{port}/v1").parse().expect("a URL");
    let model = ModelServer::new(url, "guest".to_owned(), None).expect("a client");
    let world = Egress { model: Some(CompletionSource::Server(model).into()), http: None, quota: QUOTA };
    rollout(&table("model").with_granted_outbound("booking", Arc::new(world)), limits()).await
}

async fn replayed_offline(user: &str, record: &EpisodeRecord) -> EpisodeRecord {
    let nobody = rollout(&table(user).with_granted_outbound("booking", Arc::new(Offline(QUOTA))), limits()).await;
    nobody.replay_group(std::slice::from_ref(record)).await.expect("no fault of the host").remove(0)
}

/// Observations of the agent.
fn shown(record: &EpisodeRecord) -> Vec<String> {
    let shown = record.turns.iter().filter_map(|turn| match turn {
        Turn::Observation { content, .. } | Turn::Answer { content, .. } => Some(text_of(content)),
        Turn::Thought { .. } | Turn::Message { .. } | Turn::Call { .. } | Turn::MalformedCall { .. } => None,
    });
    shown.collect()
}

fn wanted(record: &EpisodeRecord, slot: &str) -> String {
    let field = record.privileged.iter().find(|field| field.name == slot).expect("a slot");
    match &field.value {
        Value::Text(text) => text.clone(),
        other => panic!("{slot} is {other:?}"),
    }
}

#[tokio::test]
async fn a_server_plays_the_guest_and_a_replay_makes_no_request() {
    let (port, asked) = serve(guest).await;
    let record = play_by(&played_by_server(port).await, Actor::Oracle).await;
    assert_eq!((record.ending, record.success, &record.rewards[..]), (Ending::Terminated, true, &[1.0][..]));
    // One of four details was given at the start.
    assert_eq!((asked.load(Ordering::SeqCst), record.exchanges.len()), (3, 3));
    let shown = shown(&record);
    assert!(shown[0].starts_with("I would like a table. "), "{shown:?}");
    let details =
        [format!("{} would suit us.", wanted(&record, "day")), format!("{}, please.", wanted(&record, "hour"))];
    assert!(details.iter().any(|detail| shown.contains(detail)), "{shown:?}");
    let replayed = replayed_offline("model", &record).await;
    assert_eq!(ReplayDifference::between(&record, &replayed), None);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn booking_without_asking_is_guessing() {
    let (port, asked) = serve(guest).await;
    let book = |day: &str| {
        let arguments = format!(r#"{{"day": "{day}", "hour": 12, "guests": 1, "area": "bar"}}"#);
        call("book", &arguments)
    };
    let record = play(&played_by_server(port).await, &[&book("never"), "Anything else?", &book("monday")]).await;
    assert_eq!((record.ending, record.success, &record.rewards[..]), (Ending::Terminated, false, &[0.0][..]));
    let shown = shown(&record);
    assert!(shown[1].starts_with("`never` is not a valid value of `day`; choose monday"), "{shown:?}");
    assert_eq!((shown[2].as_str(), asked.load(Ordering::SeqCst)), ("Pardon? Anything else?", 1));
    assert_eq!(ReplayDifference::between(&record, &replayed_offline("model", &record).await), None);
}

#[tokio::test]
async fn the_rule_based_guest_makes_no_request() {
    let nobody = rollout(&table("rules").with_granted_outbound("booking", Arc::new(Offline(QUOTA))), limits()).await;
    let record = play_by(&nobody, Actor::Oracle).await;
    assert_eq!((record.ending, record.success, record.exchanges.len()), (Ending::Terminated, true, 0));
    assert_eq!(ReplayDifference::between(&record, &replayed_offline("rules", &record).await), None);
    // For comparison, a guest played by a model cannot reply without a server.
    let silent = rollout(&table("model").with_granted_outbound("booking", Arc::new(Offline(QUOTA))), limits()).await;
    let record = play_by(&silent, Actor::Oracle).await;
    assert_eq!((record.ending, record.success), (Ending::Dropped, false), "{:?}", record.failures);
}
