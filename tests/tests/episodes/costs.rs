//! Costs and logs of calls are recorded. A replay reproduces the deterministic costs and does not compare logs.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::num::NonZeroU32;

use crate::common::{Table, answers, call, limits, play, rollout_in};
use gymkhana_record::{
    Boundary, CallSite, Ending, EpisodeRecord, FailureKind, LOG_TRUNCATED, LogEntry, LogLevel, Seed, Value,
};
use gymkhana_rollout::{ReplayDifference, Rollout};
use gymkhana_sandbox::{Grants, Limits, Plugin, Sandbox, SandboxConfig, ToolSession};
use gymkhana_tests::component;

fn sandbox(limits: Limits) -> Sandbox {
    let cache = Some(gymkhana_tests::compiled());
    Sandbox::new(&SandboxConfig { cache, max_instances: Some(16), limits, ..SandboxConfig::default() }).unwrap()
}

async fn rollout(limits: Limits) -> Rollout {
    rollout_in(&sandbox(limits), &Table::new().tool("guest-hostile-tool", &[]), self::limits(), 0).await
}

/// Calls that return, an endless one, and one of the session after it.
async fn record(rollout: &Rollout) -> EpisodeRecord {
    let replies = [call("work", r#"{"size": 1000}"#), call("loop", "{}"), call("state", "{}"), "7".to_owned()];
    play(rollout, &replies.iter().map(String::as_str).collect::<Vec<_>>()).await
}

#[tokio::test]
async fn a_call_out_of_fuel_fails_again_in_a_replay() {
    let fuel = Limits { fuel_per_call: Some(5_000_000), ..Limits::default() };
    let recorded = record(&rollout(fuel).await).await;
    let kinds: Vec<FailureKind> = recorded.failures.iter().map(|failure| failure.kind).collect();
    assert_eq!(kinds, [FailureKind::Fuel]);
    assert_eq!(answers(&recorded)[1].0, "the tool failed: it ran out of time; its state is lost");
    let tool = Boundary::Tool("guest-hostile-tool".to_owned());
    let costs: Vec<(String, u64)> = recorded
        .costs
        .iter()
        .filter(|call| call.at == tool)
        .map(|call| (call.call_site.to_string(), call.cost.fuel.unwrap()))
        .collect();
    let of = |during: &str| costs.iter().find(|(call, _)| *call == during).unwrap().1;
    assert_eq!(of("call-1"), 5_000_000, "the endless one used all of it");
    assert!(of("call-0") > 0 && of("call-2") > 0, "{costs:?}");
    // Another sandbox, without overrides: the failure occurs again.
    let other = rollout(fuel).await;
    let replayed = other.replay_group(std::slice::from_ref(&recorded)).await.unwrap().remove(0);
    assert_eq!(ReplayDifference::between(&recorded, &replayed), None);
    assert_eq!(replayed.failures, recorded.failures);
    // With less fuel the episode differs.
    let poorer = rollout(Limits { fuel_per_call: Some(4_999_999), ..fuel }).await;
    let replayed = poorer.replay_group(std::slice::from_ref(&recorded)).await.unwrap().remove(0);
    assert!(ReplayDifference::between(&recorded, &replayed).is_some());
}

#[tokio::test]
async fn fuel_and_memory_are_compared_and_times_are_not() {
    let fuel = Limits { fuel_per_call: Some(5_000_000), ..Limits::default() };
    let recorded = record(&rollout(fuel).await).await;
    let mut slower = recorded.clone();
    slower.costs.iter_mut().for_each(|call| call.cost.running_us += 1e6);
    assert_eq!(ReplayDifference::between(&recorded, &slower), None);
    let mut dearer = recorded.clone();
    dearer.costs[1].cost.fuel = Some(1);
    assert_eq!(ReplayDifference::between(&recorded, &dearer).unwrap().place, "costs[1].fuel");
    let mut larger = recorded.clone();
    larger.costs[1].cost.memory_bytes = Some(1);
    assert_eq!(ReplayDifference::between(&recorded, &larger).unwrap().place, "costs[1].memory_bytes");
}

#[tokio::test]
async fn costs_of_rewards_and_oracles_are_recorded() {
    let table = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let rollout = rollout_in(&sandbox(Limits::default()), &table, limits(), 0).await;
    let record = crate::common::play_by(&rollout, gymkhana_rollout::Actor::Oracle).await;
    let during = |at: &Boundary| {
        let calls = record.costs.iter().filter(|call| call.at == *at && call.cost.running_us > 0.0);
        calls.map(|call| call.call_site.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(during(&Boundary::Reward("answer-match".to_owned())), ["scoring 0"]);
    let environment = during(&Boundary::Environment("word-problems".to_owned()));
    assert!(environment.contains(&"advise".to_owned()) && environment.contains(&"start".to_owned()), "{environment:?}");
    let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap().remove(0);
    assert_eq!(ReplayDifference::between(&record, &replayed), None);
}

#[tokio::test]
async fn lines_of_a_tool_are_recorded_by_call_and_not_compared() {
    let rollout = rollout(Limits::default()).await;
    let replies = [call("output", r#"{"size": 1}"#), call("trap", "{}"), "7".to_owned()];
    let recorded = play(&rollout, &replies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let entry = |call: &str, level: LogLevel, text: &str| LogEntry {
        at: Boundary::Tool("guest-hostile-tool".to_owned()),
        call_site: CallSite::tool(call),
        seat: Some(0),
        level,
        text: text.to_owned(),
    };
    // One line on each of the two streams of output.
    let line = "z".repeat(100);
    let printed = [entry("call-0", LogLevel::Info, &line), entry("call-0", LogLevel::Warn, &line)];
    assert_eq!(recorded.logs[..2], printed);
    assert_eq!(recorded.logs.last(), Some(&entry("call-1", LogLevel::Warn, "a panic, as asked")));
    let replayed = rollout.replay_group(std::slice::from_ref(&recorded)).await.unwrap().remove(0);
    assert_eq!(replayed.logs, recorded.logs);
    let silent = EpisodeRecord { logs: vec![], ..replayed };
    assert_eq!(ReplayDifference::between(&recorded, &silent), None);
}

#[tokio::test]
async fn a_log_is_limited_over_all_calls_of_an_episode() {
    let rollout = rollout(Limits { log_bytes: 1000, ..Limits::default() }).await;
    let flood = call("flood-log", r#"{"size": 5}"#);
    let record = play(&rollout, &[&flood, &flood, &flood, "7"]).await;
    // A line counts 32 bytes and has 107 bytes of text: 7 of 139 bytes fit into 1000, and 27 bytes are left.
    let lines: Vec<(String, &str)> =
        record.logs.iter().map(|entry| (entry.call_site.to_string(), entry.text.as_str())).collect();
    assert_eq!(lines.len(), 8, "{lines:?}");
    assert!(lines[4].0 == "call-0" && lines[4].1.starts_with("line 4 "), "{lines:?}");
    assert!(lines[6].0 == "call-1" && lines[6].1.starts_with("line 1 "), "{lines:?}");
    assert_eq!(lines[7], ("call-1".to_owned(), LOG_TRUNCATED));
}

#[tokio::test]
async fn logs_of_rewards_and_of_failed_starts_are_recorded() {
    let behaviour = |name: &str| [("behaviour", Value::Text(name.to_owned()))];
    let sandbox = sandbox(Limits::default());
    let table = Table::new().reward("guest-hostile-reward", &behaviour("trap"));
    let mut record = play(&rollout_in(&sandbox, &table, limits(), 0).await, &["7"]).await;
    let reward = Boundary::Reward("guest-hostile-reward".to_owned());
    let mut sites: Vec<String> =
        record.logs.iter().filter(|entry| entry.at == reward).map(|entry| entry.call_site.to_string()).collect();
    sites.dedup();
    assert_eq!(sites, ["scoring 0", "scoring 1"], "the group fails, then its member alone");
    record.clear_scores();
    assert_eq!(record.logs, []);
    let table = Table::new().environment("guest-hostile-environment", &behaviour("trap-start"));
    let record = play(&rollout_in(&sandbox, &table, limits(), 0).await, &[]).await;
    assert_eq!(record.ending, Ending::Dropped);
    assert!(record.logs.iter().any(|entry| entry.call_site == CallSite::Reset && entry.text.contains("as asked")));
}

#[tokio::test]
async fn a_call_ended_by_the_clock_is_not_compared() {
    let budget = Limits { budget: std::time::Duration::from_millis(100), ..Limits::default() };
    let rollout = rollout(budget).await;
    let recorded = record(&rollout).await;
    assert_eq!(recorded.failures[0].kind, FailureKind::Budget);
    assert!(
        recorded.costs.iter().any(|call| call.call_site == CallSite::tool("call-1") && call.cost.running_us >= 1e5)
    );
    let replayed = rollout.replay_group(std::slice::from_ref(&recorded)).await.unwrap().remove(0);
    assert_eq!(ReplayDifference::between(&recorded, &replayed), None);
}

/// The clock ends an endless call long before its fuel is used up. A replay does not repeat the call but charges its
/// recorded fuel, so the next call runs out of the episode's fuel as in the record.
#[tokio::test]
async fn fuel_of_a_call_ended_by_the_clock_is_charged_in_a_replay() {
    let limits = |fuel| Limits {
        budget: std::time::Duration::from_millis(50),
        fuel_per_episode: Some(fuel),
        ..Limits::default()
    };
    let replies = [call("loop", "{}"), call("work", r#"{"size": 100000}"#), "7".to_owned()];
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    let used = |record: &EpisodeRecord, during: &str| {
        record.costs.iter().find(|call| call.call_site.to_string() == during).and_then(|call| call.cost.fuel).unwrap()
    };
    let plenty = rollout(limits(u64::MAX)).await;
    let needed = used(&play(&plenty, &replies).await, "call-1");
    let mut recorded = play(&plenty, &replies).await;
    // The fuel of the endless call depends on the machine; here it leaves half of the next call's need.
    let endless = recorded.costs.iter_mut().find(|call| call.call_site == CallSite::tool("call-0")).unwrap();
    endless.cost.fuel = Some(1_000_000_000);
    let tight = rollout(limits(1_000_000_000 + needed / 2)).await;
    let replayed = tight.replay_group(std::slice::from_ref(&recorded)).await.unwrap().remove(0);
    let kinds: Vec<FailureKind> = replayed.failures.iter().map(|failure| failure.kind).collect();
    assert_eq!(kinds[..2], [FailureKind::Budget, FailureKind::Fuel]);
    let enough = rollout(limits(1_000_000_000 + 2 * needed)).await;
    let replayed = enough.replay_group(std::slice::from_ref(&recorded)).await.unwrap().remove(0);
    assert_eq!(ReplayDifference::between(&recorded, &replayed), None);
}

#[tokio::test]
async fn an_episode_whose_neighbour_ended_their_shared_tool_is_dropped() {
    let sandbox = sandbox(Limits::default());
    let load = |name| Plugin::load(&sandbox, &component(name), &Grants::default()).unwrap();
    let tool = load("guest-hostile-tool").with_shared_instances(NonZeroU32::new(8).unwrap());
    let bound = |plugin: &Plugin| gymkhana_rollout::BoundPlugin { plugin: plugin.clone(), options: vec![] };
    let environment = bound(&load("word-problems"));
    let set = gymkhana_rollout::PluginSet::assemble(environment, vec![bound(&tool)], vec![]).await.unwrap();
    let reward_sum = gymkhana_rollout::RewardSum {
        environment: 1.0.into(),
        provoked: gymkhana_rollout::ProvokedReward::Fixed(crate::common::FAILURE_REWARD),
        success: "environment.success".parse().unwrap(),
    };
    let rollout = Rollout::new(set, crate::common::chat(), limits(), reward_sum, None, 0);
    let mut culprit = Some(ToolSession::open(&tool, None, &[], Seed(1)).await.unwrap());
    let replies = [call("state", "{}"), call("state", "{}"), "7".to_owned()];
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    let asked = std::sync::atomic::AtomicU32::new(0);
    let culprit = std::sync::Mutex::new(culprit.take());
    let record = crate::common::play_with(&rollout, &replies, || {
        if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            let session = culprit.lock().unwrap().take();
            // A cancelled call ends the instance like a trap.
            let mut session = session.unwrap();
            let endless = gymkhana_record::Call { id: String::new(), name: "loop".into(), arguments: "{}".into() };
            let mut call = session.call(&endless);
            let _pending =
                std::pin::Pin::new(&mut call).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        }
    })
    .await;
    assert_eq!(record.failures[0].kind, FailureKind::Neighbour, "{:?}", record.failures);
    assert_eq!((record.ending, &record.rewards[..]), (Ending::Dropped, &[][..]));
}
