//! Trusted sharing: episodes in one instance have separate host-side state and end together.

use std::num::NonZeroU32;

use crate::common::{call, load, logging, option, sandbox, text, text_of, train};
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::{Action, EnvironmentEpisode, Plugin, Sandbox, ToolSession};

/// A new sandbox, and a plugin of which up to `episodes` episodes share an instance.
fn shared(name: &str, episodes: u32) -> (Sandbox, Plugin) {
    let sandbox = sandbox();
    let plugin = load(&sandbox, name).with_shared_instances(NonZeroU32::new(episodes).expect("some"));
    (sandbox, plugin)
}

fn taken(sandbox: &Sandbox) -> u32 {
    let counters = sandbox.counters();
    counters.places - counters.free_places
}

async fn open(plugin: &Plugin, seed: u64) -> ToolSession {
    ToolSession::open(plugin, None, &[], Seed(seed)).await.expect("a session")
}

async fn answer(session: &mut ToolSession, function: &str) -> String {
    text_of(&session.call(&call(function, "{}")).await.expect(function))
}

#[tokio::test]
async fn episodes_in_one_instance_have_streams_and_clocks_of_their_own() {
    let (sandbox, together) = shared("guest-hostile-tool", 8);
    let alone = load(&sandbox, "guest-hostile-tool");
    // The answers to each session in an instance of its own.
    let mut expected = Vec::new();
    for seed in [1, 2] {
        let mut session = open(&alone, seed).await;
        let mut answers = Vec::new();
        for function in ["random", "clock", "sleep", "clock", "random", "state"] {
            answers.push(answer(&mut session, function).await);
        }
        expected.push(answers);
    }
    assert_eq!(taken(&sandbox), 0, "they are closed");
    let mut sessions = [open(&together, 1).await, open(&together, 2).await];
    assert_eq!(taken(&sandbox), 1, "both are in one instance");
    let mut answers = vec![Vec::new(), Vec::new()];
    for function in ["random", "clock", "sleep", "clock", "random", "state"] {
        for (session, answers) in sessions.iter_mut().zip(&mut answers) {
            answers.push(answer(session, function).await);
        }
    }
    assert_eq!(answers, expected);
    assert_ne!(answers[0][0], answers[1][0], "other seeds, other numbers");
}

#[tokio::test]
async fn log_lines_belong_to_the_session_of_the_call() {
    let (_sandbox, plugin) = shared("guest-hostile-tool", 8);
    let ((loud, loud_log), (quiet, quiet_log)) = (logging(&plugin), logging(&plugin));
    let (mut loud, mut quiet) = (open(&loud, 1).await, open(&quiet, 2).await);
    loud.call(&call("output", r#"{"size": 2}"#)).await.expect("printed");
    answer(&mut quiet, "state").await;
    assert_eq!((loud_log.take().len(), quiet_log.take().len()), (4, 0));
}

#[tokio::test]
async fn a_trap_ends_all_who_share_and_new_ones_start() {
    let (sandbox, plugin) = shared("guest-hostile-tool", 8);
    let ((loud, loud_log), (quiet, quiet_log)) = (logging(&plugin), logging(&plugin));
    let (mut culprit, mut neighbour) = (open(&loud, 1).await, open(&quiet, 2).await);
    let mut idle = open(&plugin, 3).await;
    let error = culprit.call(&call("trap", "{}")).await.expect_err("a trap");
    assert_eq!(error.kind, FailureKind::Trap);
    for session in [&mut neighbour, &mut idle] {
        let error = session.call(&call("state", "{}")).await.expect_err("the instance is gone");
        assert_eq!(error.kind, FailureKind::Neighbour);
        assert!(
            error.message.starts_with("another episode ended the instance that this one shared with it: ")
                && error.message.contains("a panic, as asked"),
            "{error}"
        );
        assert!(error.kind.is_hosts(), "no innocent episode pays");
    }
    assert!(loud_log.take().iter().any(|line| line.message.contains("a panic, as asked")));
    assert!(quiet_log.take().is_empty());
    let mut next = open(&plugin, 4).await;
    assert_eq!(answer(&mut next, "state").await, "1");
    assert_eq!(taken(&sandbox), 1, "the old instance is gone");
}

#[tokio::test]
async fn an_endless_loop_ends_all_who_share_and_a_refusal_ends_none() {
    let (_sandbox, plugin) = shared("guest-hostile-tool", 8);
    let (mut culprit, mut neighbour) = (open(&plugin, 1).await, open(&plugin, 2).await);
    culprit.call(&call("error", "{}")).await.expect_err("as asked");
    assert_eq!(answer(&mut neighbour, "state").await, "1");
    let error = culprit.call(&call("loop", "{}")).await.expect_err("endless");
    assert_eq!(error.kind, FailureKind::Budget);
    let error = neighbour.call(&call("state", "{}")).await.expect_err("the instance is gone");
    assert_eq!(error.kind, FailureKind::Neighbour);
}

#[tokio::test]
async fn a_cancelled_call_ends_all_who_share() {
    let (_sandbox, plugin) = shared("guest-hostile-tool", 8);
    let (mut culprit, mut neighbour) = (open(&plugin, 1).await, open(&plugin, 2).await);
    let endless = call("loop", "{}");
    tokio::time::timeout(std::time::Duration::from_millis(20), culprit.call(&endless)).await.expect_err("cancelled");
    let error = neighbour.call(&call("state", "{}")).await.expect_err("the instance is gone");
    assert!(error.kind == FailureKind::Neighbour && error.message.contains("cancelled"), "{error}");
    let error = culprit.call(&call("state", "{}")).await.expect_err("its own fault");
    assert_eq!(error.kind, FailureKind::Deadline, "{error}");
    assert_eq!(answer(&mut open(&plugin, 3).await, "state").await, "1");
}

#[tokio::test]
async fn what_breaks_the_contract_ends_its_own_episode_alone() {
    let (_sandbox, plugin) = shared("guest-hostile-environment", 8);
    let start = async |behaviour| {
        let options = [option("behaviour", behaviour)];
        EnvironmentEpisode::start(&plugin, &train(0), &options, Seed(1)).await.expect("started").0
    };
    let (mut culprit, mut neighbour) = (start("nan-reward").await, start("honest").await);
    let no = text("no");
    let error = culprit.step(0, Action::Message(&no)).await.expect_err("no number");
    assert_eq!(error.kind, FailureKind::Malformed);
    culprit.step(0, Action::Message(&no)).await.expect_err("it is over");
    neighbour.step(0, Action::Message(&no)).await.expect("it goes on");
}

#[tokio::test]
async fn a_full_instance_is_followed_by_another() {
    let (sandbox, plugin) = shared("guest-hostile-tool", 3);
    let mut sessions = Vec::new();
    for (seed, instances) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)] {
        sessions.push(open(&plugin, seed).await);
        assert_eq!(taken(&sandbox), instances, "after {seed}");
    }
    drop(sessions);
    assert_eq!(taken(&sandbox), 0, "an instance goes with its last episode");
}

#[tokio::test]
async fn the_guest_closes_dropped_episodes() {
    let (sandbox, plugin) = shared("guest-hostile-tool", 8);
    let mut stays = open(&plugin, 0).await;
    // A session holds little, but a hundred thousand that were never closed would not fit into 32 MiB.
    for seed in 0..100_000 {
        drop(open(&plugin, seed).await);
    }
    assert_eq!(answer(&mut stays, "state").await, "1");
    assert_eq!(taken(&sandbox), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_into_one_instance_take_turns() {
    let (sandbox, plugin) = shared("guest-hostile-tool", 64);
    let sessions: Vec<_> = (0..32)
        .map(|seed| {
            let plugin = plugin.clone();
            tokio::spawn(async move {
                let mut session = open(&plugin, seed).await;
                for count in 1..=50 {
                    assert_eq!(answer(&mut session, "state").await, count.to_string());
                }
            })
        })
        .collect();
    for session in sessions {
        session.await.expect("no panic");
    }
    assert_eq!(taken(&sandbox), 0);
}

#[tokio::test]
async fn a_shared_session_is_restored_from_its_snapshot() {
    let (_sandbox, plugin) = shared("guest-hostile-tool", 8);
    let mut first = open(&plugin, 7).await;
    for function in ["random", "sleep"] {
        answer(&mut first, function).await;
    }
    let snapshot = first.snapshot().await.expect("a snapshot");
    let mut second = ToolSession::restore(&plugin, &snapshot, Seed(7)).await.expect("restored");
    for function in ["state", "random", "clock"] {
        assert_eq!(answer(&mut first, function).await, answer(&mut second, function).await, "{function}");
    }
}
