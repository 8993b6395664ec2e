//! Faults of the host do not cost rewards. They are caused here by a sandbox with one or two places:
//! - an episode without a place for its environment or a tool is repeated, then dropped without a reward;
//! - a reward without a place is called again, then its group is dropped without a reward;
//! - if a place becomes free in time, the record shows nothing of it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use crate::common::{Table, call, limits, play, play_with, rollout_in};
use gymkhana_record::{Boundary, Ending, EpisodeRecord, FailureKind, NamedValue, Seed, TaskRef};
use gymkhana_sandbox::{EnvironmentEpisode, Plugin, Sandbox, SandboxConfig};

const WAIT: Duration = Duration::from_millis(100);

fn sandbox(places: u32) -> Sandbox {
    let cache = Some(gymkhana_tests::compiled());
    Sandbox::new(&SandboxConfig { cache, max_instances: Some(places), wait: WAIT, ..SandboxConfig::default() }).unwrap()
}

/// Takes a place as soon as one is free.
async fn occupy(plugin: Plugin, options: Vec<NamedValue>) -> EnvironmentEpisode {
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    loop {
        if let Ok((episode, _)) = EnvironmentEpisode::start(&plugin, &task, &options, Seed(0)).await {
            return episode;
        }
    }
}

fn assert_dropped(record: &EpisodeRecord, at: &Boundary) {
    let failures: Vec<_> = record.failures.iter().map(|failure| (&failure.at, failure.kind)).collect();
    assert_eq!(failures, [(at, FailureKind::Capacity)]);
    assert_eq!((record.ending, record.success), (Ending::Dropped, false));
    assert_eq!(record.rewards, [0.0; 0], "a fault of the host costs no reward");
}

#[tokio::test]
async fn a_tool_without_a_place_drops_the_episode() {
    let table = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let replies = [call("calculate", r#"{"expression": "1+1"}"#), "2".to_owned()];
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    let crowded = rollout_in(&sandbox(1), &table, limits(), 2).await;
    let record = play(&crowded, &replies).await;
    assert_dropped(&record, &Boundary::Tool("calculator".to_owned()));
    assert_eq!(record.id.attempt, 2, "it was tried again");
    let roomy = rollout_in(&sandbox(2), &table, limits(), 2).await;
    let record = play(&roomy, &replies).await;
    assert_eq!((record.ending, record.id.attempt, &record.failures[..]), (Ending::Terminated, 0, &[][..]));
}

#[tokio::test]
async fn an_environment_without_a_place_is_repeated_then_dropped() {
    let rollout = rollout_in(&sandbox(1), &Table::new(), limits(), 1).await;
    let bound = rollout.plugins().environment().clone();
    let occupant = occupy(bound.plugin.clone(), bound.options.clone()).await;
    let record = play(&rollout, &["1"]).await;
    assert_dropped(&record, &Boundary::Environment("word-problems".to_owned()));
    let leaving = tokio::spawn(async move {
        tokio::time::sleep(WAIT + WAIT / 2).await;
        drop(occupant);
    });
    let record = play(&rollout, &["1"]).await;
    assert_eq!((record.ending, record.id.attempt), (Ending::Terminated, 1));
    leaving.await.unwrap();
}

/// The environment's place is taken again before the reward needs it, for some waits or permanently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_without_a_place_is_called_again_then_drops_the_group() {
    let table = Table::new().reward("answer-match", &[]);
    let sandbox = sandbox(1);
    let rollout = rollout_in(&sandbox, &table, limits(), 3).await;
    let bound = rollout.plugins().environment().clone();
    for (stays, dropped) in [(WAIT * 5 / 2, false), (WAIT * 20, true)] {
        let record = play_with(&rollout, &["1"], || {
            let (waits, bound) = (sandbox.counters().waits, bound.clone());
            tokio::spawn(async move {
                let occupant = occupy(bound.plugin, bound.options).await;
                tokio::time::sleep(stays).await;
                drop(occupant);
            });
            while sandbox.counters().waits == waits {
                std::thread::yield_now();
            }
        })
        .await;
        if dropped {
            assert_dropped(&record, &Boundary::Reward("answer-match".to_owned()));
        } else {
            assert_eq!((record.ending, &record.failures[..]), (Ending::Terminated, &[][..]));
            assert_eq!((record.scores.len(), record.rewards.len()), (1, 1));
            assert!(record.timing.reward_ms >= WAIT.as_secs_f64() * 1e3, "it had to wait: {:?}", record.timing);
        }
    }
}
