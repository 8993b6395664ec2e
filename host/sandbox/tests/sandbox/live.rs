//! Live instances: bounded number, equal results for equal seeds, and snapshots that include the host-side state.

mod wrapping;

use std::time::Duration;

use crate::common::{call, config, load, plugin, text, text_of, train};
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::{Action, EnvironmentEpisode, OptionalInterface, Sandbox, SandboxConfig, ToolSession};
use gymkhana_tests::{memory_mappings, run_alone};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_plugins_than_places_wait_for_each_other() {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(4), ..config() }).expect("a sandbox");
    let plugin = load(&sandbox, "guest-hostile-tool");
    let sessions: Vec<_> = (0..40)
        .map(|seed| {
            let plugin = plugin.clone();
            tokio::spawn(async move {
                let mut session = ToolSession::open(&plugin, None, &[], Seed(seed)).await.expect("a place in time");
                tokio::time::sleep(Duration::from_millis(5)).await;
                session.call(&call("state", "{}")).await.map(|answer| text_of(&answer))
            })
        })
        .collect();
    for session in sessions {
        assert_eq!(session.await.expect("no panic"), Ok("1".to_owned()));
    }
    let counters = sandbox.counters();
    assert_eq!((counters.places, counters.free_places), (4, 4));
    assert!(counters.waits >= 30, "{counters:?}");
}

#[tokio::test]
async fn waiting_for_a_place_ends_as_a_typed_failure() {
    let config = SandboxConfig { max_instances: Some(1), wait: Duration::from_millis(30), ..config() };
    let plugin = load(&Sandbox::new(&config).expect("a sandbox"), "guest-hostile-tool");
    let _holder = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("the only place");
    let error = ToolSession::open(&plugin, None, &[], Seed(2)).await.err().expect("no place");
    assert_eq!(error.kind, FailureKind::Capacity);
}

/// `places_for` assumes at most this number of memory mappings.
#[test]
fn a_live_plugin_takes_at_most_four_memory_mappings() {
    run_alone("live::six_hundred_plugins_take_at_most_four_memory_mappings_each");
}

#[tokio::test]
#[ignore = "measures its process, which the test above starts"]
async fn six_hundred_plugins_take_at_most_four_memory_mappings_each() {
    let sandbox = Sandbox::new(&SandboxConfig { max_instances: Some(600), ..config() }).expect("a sandbox");
    let plugin = load(&sandbox, "guest-hostile-tool");
    let before = memory_mappings();
    let mut sessions = Vec::new();
    for seed in 0..600 {
        let mut session = ToolSession::open(&plugin, None, &[], Seed(seed)).await.expect("a session");
        // Its memory grows, too.
        session.call(&call("huge", r#"{"size": 300000}"#)).await.expect("an answer");
        sessions.push(session);
    }
    let taken = memory_mappings() - before;
    assert!(taken <= 600 * 4, "{taken} mappings for 600 live plugins");
}

async fn draws(seed: u64, calls: usize) -> Vec<String> {
    let mut session = ToolSession::open(&plugin("guest-hostile-tool"), None, &[], Seed(seed)).await.expect("a session");
    let mut drawn = Vec::new();
    for _ in 0..calls {
        drawn.push(text_of(&session.call(&call("random", "{}")).await.expect("numbers")));
    }
    drawn
}

#[tokio::test]
async fn equal_seeds_draw_equal_numbers_and_calls_have_streams_of_their_own() {
    let first = draws(7, 3).await;
    assert_eq!(first, draws(7, 3).await);
    assert_ne!(first, draws(8, 3).await);
    assert!(first[0] != first[1] && first[1] != first[2]);
    // The numbers by the rule that the interface states: children of the seed by plugin, call and number.
    let mut stream = Seed(7).child("guest-hostile-tool").child("call").child(2).stream();
    assert_eq!(first[0], format!("{} {}", stream.bits(), stream.bits()));
}

#[tokio::test]
async fn auxiliary_calls_do_not_shift_a_sessions_random_numbers() {
    let plugin = plugin("guest-hostile-tool");
    let mut session = ToolSession::open(&plugin, None, &[], Seed(7)).await.expect("a session");
    session.call(&call("random", "{}")).await.expect("numbers");
    session.snapshot().await.expect("a snapshot");
    let second = text_of(&session.call(&call("random", "{}")).await.expect("numbers"));
    assert_eq!(second, draws(7, 2).await[1]);
}

#[tokio::test]
async fn a_restored_session_goes_on_as_the_first_would() {
    let plugin = plugin("guest-hostile-tool");
    let mut first = ToolSession::open(&plugin, None, &[], Seed(7)).await.expect("a session");
    for name in ["random", "clock", "sleep"] {
        first.call(&call(name, "{}")).await.expect(name);
    }
    let snapshot = first.snapshot().await.expect("a snapshot");
    let mut second = ToolSession::restore(&plugin, &snapshot, Seed(7)).await.expect("restored");
    for name in ["state", "random", "clock", "random"] {
        let answers = (first.call(&call(name, "{}")).await, second.call(&call(name, "{}")).await);
        assert_eq!(answers.0, answers.1, "{name}");
        assert!(answers.0.is_ok());
    }
}

#[tokio::test]
async fn an_episode_is_restored_from_its_snapshot_alone() {
    let plugin = plugin("guest-hostile-environment");
    let (mut first, started) = EnvironmentEpisode::start(&plugin, &train(5), &[], Seed(3)).await.expect("started");
    assert_eq!((started.seat, started.opening.observations.len()), (0, 1));
    for _ in 0..3 {
        first.step(0, Action::Message(&text("no"))).await.expect("stepped");
    }
    let snapshot = first.snapshot().await.expect("a snapshot");
    drop(first);
    let mut second = EnvironmentEpisode::restore(&plugin, &snapshot, Seed(3)).await.expect("restored");
    let stepped = second.step(0, Action::Message(&text("no"))).await.expect("stepped");
    assert!(stepped.truncated, "the fourth turn is the last");
    let mut broken = snapshot;
    broken.bytes.truncate(3);
    let error = EnvironmentEpisode::restore(&plugin, &broken, Seed(3)).await.err().expect("no snapshot");
    assert_eq!(error.kind, FailureKind::Refused);
}

#[tokio::test]
async fn plugins_describe_themselves_and_their_interfaces() {
    let plugin = plugin("guest-echo");
    assert_eq!((plugin.name(), plugin.manifest().name.namespace()), ("guest-echo", "guest"));
    assert!(plugin.offers(OptionalInterface::Snapshot) && !plugin.offers(OptionalInterface::Oracle));
    let info = plugin.environment_info().await.expect("described");
    assert_eq!(info.seats, ["speaker"]);
    let splits = plugin.splits(&[]).await.expect("splits");
    assert_eq!((splits[0].name.as_str(), splits[0].tasks), ("train", None));
    let (mut episode, _) = EnvironmentEpisode::start(&plugin, &train(0), &[], Seed(0)).await.expect("started");
    let error = episode.state_key().await.expect_err("not offered");
    assert_eq!(error.kind, FailureKind::Refused);
    assert!(error.message.contains("environment-state-key"), "{error}");
    let again = episode.step(0, Action::Message(&text("still here"))).await.expect("a refusal ends nothing");
    assert_eq!(again.observations, [(0, text("still here"))]);
}
