//! Environments and rewards that break the contract: each result is rejected with the right kind of failure.

use std::fs;

use crate::common::{component, option, plugin, sandbox, text, train};
use gymkhana_record::{Ending, FailureKind, NamedValue, Part, Score, Seed, TaskRef, Turn};
use gymkhana_sandbox::{Action, CallError, EnvironmentEpisode, Grants, Plugin, StepResult, Trajectory, score};

async fn start(behaviour: &str) -> Result<EnvironmentEpisode, CallError> {
    let plugin = plugin("guest-hostile-environment");
    let options = [option("behaviour", behaviour)];
    EnvironmentEpisode::start(&plugin, &train(0), &options, Seed(1)).await.map(|(episode, _)| episode)
}

async fn step(behaviour: &str) -> Result<StepResult, CallError> {
    let mut episode = start(behaviour).await.expect("it starts well");
    episode.step(0, Action::Message(&text("no"))).await
}

#[tokio::test]
async fn an_honest_environment_passes_every_check() {
    let mut episode = start("honest").await.expect("started");
    let first = episode.step(0, Action::Message(&text("no"))).await.expect("stepped");
    assert_eq!(first.observations, [(0, text("no"))]);
    let last = episode.step(0, Action::Message(&text("yes"))).await.expect("stepped");
    assert_eq!((last.rewards, last.terminated), (vec![(0, 1.0)], true));
    episode.close().await.expect("closed");
}

#[tokio::test]
async fn starts_that_break_the_contract_are_refused() {
    use FailureKind::{Budget, Malformed, Refused, Trap};
    for (behaviour, kind) in [
        ("trap-start", Trap),
        ("loop-start", Budget),
        ("error-start", Refused),
        ("no-observation", Malformed),
        ("malformed-functions", Malformed),
        ("duplicate-functions", Malformed),
        ("no-such-behaviour", Refused),
    ] {
        let error = start(behaviour).await.err().expect(behaviour);
        assert_eq!(error.kind, kind, "{behaviour}: {error}");
    }
}

#[tokio::test]
async fn steps_that_break_the_contract_are_refused() {
    use FailureKind::{Budget, Malformed, Memory, Refused, Trap};
    for (behaviour, kind) in [
        ("trap-step", Trap),
        ("loop-step", Budget),
        ("memory-step", Memory),
        ("error-step", Refused),
        ("nan-reward", Malformed),
        ("out-of-range-reward", Malformed),
        ("bad-seat", Malformed),
        ("nan-extra", Malformed),
    ] {
        let error = step(behaviour).await.expect_err(behaviour);
        assert_eq!(error.kind, kind, "{behaviour}: {error}");
    }
    // 65 MiB exceed the guest's memory of 32 MiB, so that the guest fails before it returns.
    let error = step("huge-observation").await.expect_err("too large");
    assert_eq!(error.kind, Memory, "{error}");
}

#[tokio::test]
async fn other_tasks_and_options_are_refused_by_the_plugin() {
    let plugin = plugin("guest-hostile-environment");
    let task = TaskRef { split: "exam".to_owned(), index: 0 };
    let error = EnvironmentEpisode::start(&plugin, &task, &[], Seed(1)).await.err().expect("no such split");
    assert_eq!(error.kind, FailureKind::Refused);
    assert!(error.message.contains("exam"), "{error}");
    let error = plugin.splits(&[option("behavior", "honest")]).await.expect_err("no such option");
    assert!(error.message.contains("behaviour"), "the nearest option is named: {error}");
}

#[tokio::test]
async fn a_trap_in_a_snapshot_and_at_the_close_is_a_trap() {
    let mut episode = start("trap-snapshot").await.expect("it starts well");
    assert_eq!(episode.snapshot().await.expect_err("a panic").kind, FailureKind::Trap);
    let episode = start("trap-snapshot").await.expect("it starts well");
    episode.close().await.expect("nothing was saved");
    let episode = start("trap-close").await.expect("it starts well");
    assert_eq!(episode.close().await.expect_err("a panic").kind, FailureKind::Trap);
}

/// The state key of a restored episode reveals a wrong restore.
#[tokio::test]
async fn a_snapshot_that_restores_to_something_else_has_another_state_key() {
    let plugin = plugin("guest-hostile-environment");
    for (behaviour, same) in [("honest", true), ("false-restore", false)] {
        let mut first = start(behaviour).await.expect("it starts well");
        first.step(0, Action::Message(&text("no"))).await.expect("stepped");
        let snapshot = first.snapshot().await.expect("a snapshot");
        let mut second = EnvironmentEpisode::restore(&plugin, &snapshot, Seed(1)).await.expect("restored");
        let keys = (first.state_key().await.expect("a key"), second.state_key().await.expect("a key"));
        assert_eq!(keys.0 == keys.1, same, "{behaviour}");
    }
}

#[tokio::test]
async fn an_episode_is_rewound_in_its_own_store() {
    let mut episode = start("honest").await.expect("it starts well");
    let no = text("no");
    episode.step(0, Action::Message(&no)).await.expect("stepped");
    let (saved, key) = (episode.snapshot().await.expect("a snapshot"), episode.state_key().await.expect("a key"));
    for _ in 0..3 {
        episode.step(0, Action::Message(&no)).await.expect("stepped");
    }
    assert_ne!(episode.state_key().await.expect("a key"), key);
    episode.rewind(&saved).await.expect("back");
    assert_eq!(episode.state_key().await.expect("a key"), key);
    assert_eq!(episode.snapshot().await.expect("a snapshot").bytes, saved.bytes);
}

#[tokio::test]
async fn a_tool_is_not_an_environment() {
    let plugin = plugin("guest-hostile-tool");
    let error = EnvironmentEpisode::start(&plugin, &train(0), &[], Seed(1)).await.err().expect("a tool");
    assert_eq!(error.kind, FailureKind::Refused);
    assert!(error.message.contains("does not offer the interface `environment`"), "{error}");
}

fn message(seat: u32, words: &str) -> Turn {
    Turn::Message { seat, content: vec![Part::Text(words.to_owned())] }
}

async fn score_with(behaviour: &str, options: &[NamedValue]) -> Result<Vec<Vec<Score>>, CallError> {
    let plugin = plugin("guest-hostile-reward");
    let turns = [message(0, "one"), message(1, "two"), message(0, "three")];
    let trajectory = Trajectory {
        task: &train(3),
        turns: &turns,
        ending: Ending::Terminated,
        environment_rewards: &[],
        extras: &[],
        privileged: &[],
        views: &[],
    };
    let options = [&[option("behaviour", behaviour)], options].concat();
    score(&plugin, &[trajectory, trajectory], &options, 0, Seed(1)).await
}

#[tokio::test]
async fn a_good_reward_scores_each_seat_of_each_trajectory() {
    let scores = score_with("good", &[]).await.expect("scores");
    let totals: Vec<Vec<(u32, f64)>> =
        scores.iter().map(|scores| scores.iter().map(|score| (score.seat, score.total)).collect()).collect();
    assert_eq!(totals, [[(0, 1.0), (1, 1.0)], [(0, 1.0), (1, 1.0)]]);
}

#[tokio::test]
async fn scores_that_break_the_contract_are_refused() {
    use FailureKind::{Budget, Malformed, Refused, Trap};
    for (behaviour, kind) in [
        ("nan", Malformed),
        ("infinite", Malformed),
        ("out-of-range", Malformed),
        ("nan-turn", Malformed),
        ("too-few", Malformed),
        ("too-many", Malformed),
        ("wrong-components", Malformed),
        ("bad-evidence", Malformed),
        ("error", Refused),
        ("trap", Trap),
        ("loop", Budget),
    ] {
        let error = score_with(behaviour, &[]).await.expect_err(behaviour);
        assert_eq!(error.kind, kind, "{behaviour}: {error}");
    }
}

/// The range in the manifest must equal the range that the reward describes.
#[tokio::test]
async fn a_reward_whose_manifest_promises_another_range_is_refused() {
    let honest = fs::read(component("guest-hostile-reward")).expect("built");
    let (said, forged) = (b"\"reward-range\":[-1.0,1.0]", b"\"reward-range\":[-1.0,9.0]");
    let mut lying = honest.clone();
    let places: Vec<usize> = (0..honest.len()).filter(|&place| honest[place..].starts_with(said)).collect();
    assert!(!places.is_empty(), "the manifest says it");
    places.iter().for_each(|&place| lying[place..place + forged.len()].copy_from_slice(forged));
    let sandbox = sandbox();
    let load = |bytes| Plugin::from_bytes(&sandbox, "a reward", bytes, &Grants::default()).expect("loaded");
    let error = load(&lying).reward_info().await.expect_err("the ranges differ");
    assert!(error.kind == FailureKind::Malformed && error.message.contains("its manifest another one"), "{error}");
    assert!(load(&honest).reward_info().await.is_ok());
}
