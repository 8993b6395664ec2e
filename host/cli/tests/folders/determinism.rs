//! With `deterministic = true` the same seed gives the same run on any number of workers, however often it is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::common::killed::{Signalled, assert_each_stored_once, resume, start};
use crate::common::{Desk, Outcome, SMALL_GAME, TIC_TAC_TOE, WORD_PROBLEMS, files_below, finish, run_arguments};
use gymkhana_record::{EpisodeId, EpisodeRecord, Seed};
use gymkhana_rollout::ReplayDifference;
use serde_json::Value;

/// Everything that must be equal: all but times.
pub struct Essence {
    pub records: Vec<EpisodeRecord>,
    /// Weights and optimiser state after each stage, by file.
    weights: BTreeMap<String, Vec<u8>>,
    metrics: Vec<Value>,
}

impl Essence {
    pub fn of(desk: &Desk) -> Self {
        let out = desk.path("out");
        let tensors =
            files_below(&out.join("checkpoints")).into_iter().filter(|(path, _)| path.ends_with(".safetensors"));
        let weights = tensors.map(|(path, _)| {
            let bytes = fs::read(out.join("checkpoints").join(&path)).expect("a file of a checkpoint");
            (path, bytes)
        });
        let text = fs::read_to_string(out.join("metrics.jsonl")).expect("metrics");
        let metrics = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            let fields = line.as_object_mut().expect("an object");
            fields.remove("time");
            let values = fields["values"].as_object_mut().expect("an object");
            values.retain(|name, _| !name.starts_with("seconds"));
            line
        });
        Self { records: desk.episodes(), weights: weights.collect(), metrics: metrics.collect() }
    }

    pub fn assert_same(&self, other: &Self) {
        let ids = |essence: &Self| essence.records.iter().map(|record| record.id).collect::<Vec<EpisodeId>>();
        assert_eq!(ids(self), ids(other));
        for (one, other) in self.records.iter().zip(&other.records) {
            // Tokens, log-probabilities, entropies and all plugin output.
            assert_eq!(ReplayDifference::between(one, other), None, "{}", one.id);
        }
        assert_eq!(self.metrics, other.metrics);
        assert!(self.weights.keys().eq(other.weights.keys()));
        for (name, bytes) in &self.weights {
            assert!(*bytes == other.weights[name], "{name} differs");
        }
    }

    /// Checks that exactly these checkpoints exist.
    fn assert_checkpoints(&self, expected: &[&str]) {
        let files =
            expected.iter().map(|step| ["model", "trainer/state"].map(|file| format!("{step}/{file}.safetensors")));
        let files: BTreeSet<String> = files.flatten().collect();
        assert!(self.weights.keys().eq(&files), "{:?}", self.weights.keys());
    }

    /// Number of weight updates in the second stage; the tests need some.
    fn updates(&self) -> f64 {
        self.metrics.iter().filter_map(|line| line["values"]["updates"].as_f64()).sum()
    }
}

fn run_on_workers(desk: &Desk, workers: &str, more: &[&str]) -> Outcome {
    let mut command = desk.command(&run_arguments(WORD_PROBLEMS, more));
    finish(command.env("TOKIO_WORKER_THREADS", workers))
}

#[test]
fn the_number_of_workers_changes_nothing_and_the_seed_everything() {
    let [one, four, other] = [("1", vec![]), ("4", vec![]), ("4", vec!["--set", "seed=2"])].map(|(workers, more)| {
        let desk = Desk::deterministic(4);
        run_on_workers(&desk, workers, &more).succeeded();
        Essence::of(&desk)
    });
    one.assert_same(&four);
    one.assert_checkpoints(&["0-000004", "1-000004"]);
    assert!(one.updates() >= 2.0, "{}", one.updates());
    let name = "1-000004/model.safetensors";
    assert!(one.weights[name] != other.weights[name]);
    let replies = |essence: &Essence| essence.records.iter().map(|record| record.segments.clone()).collect::<Vec<_>>();
    assert_ne!(replies(&one), replies(&other));
}

/// Episodes of two seats that start with either seat, in fewer slots than a group has seats: waiting for each other's
/// slots must not deadlock.
#[test]
fn episodes_of_several_seats_share_slots_without_waiting_for_each_other() {
    let plugins = "plugins/guest-two-seats.wasm";
    let desk = Desk::with_run_file(
        r#"
        deterministic = true
        success = "environment.success"
        limits = { reply_tokens = 8 }
        evaluation = { tasks = 8, sampled = false }
        stages = [{ kind = "rl", steps = 1, groups = 4, group_size = 4 }]

        [policy]
        max_concurrent_sequences = 7
        tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 2048 }
        "#,
    );
    let narrow = desk.run(plugins, &["--set", "policy.max_concurrent_sequences=1"]);
    assert_eq!(narrow.code, Some(2), "{narrow:?}");
    assert!(narrow.talk.contains("each of the 2 seats of environment `guest-two-seats`"), "{}", narrow.talk);
    assert!(narrow.talk.contains("raise policy.max_concurrent_sequences to 2 or more"), "{}", narrow.talk);
    assert!(!desk.path("out").exists());
    desk.run(plugins, &[]).succeeded();
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert_eq!(replayed, "32 episodes replayed, every byte equal: 32\n");
    // Unbound slots suffice, however few.
    fs::remove_dir_all(desk.path("out")).expect("a folder can be removed");
    desk.run(plugins, &["--set", "policy.max_concurrent_sequences=1", "--set", "deterministic=false"]).succeeded();
}

/// Kills come after a seeded number of changes in the run's folder, so that they hit all phases of a run: creating its
/// folder, episodes, parts, metrics, checkpoints and evaluations.
#[test]
fn a_run_that_was_killed_again_and_again_ends_as_if_nothing_had_been() {
    assert_survives_kills(|| Desk::deterministic(4), WORD_PROBLEMS, &["0-000004", "1-000004"]);
}

/// The same with two trained models: after a resume both are at the same step.
#[test]
fn a_run_of_two_models_that_was_killed_again_and_again_ends_as_if_nothing_had_been() {
    let game = || {
        let often = SMALL_GAME.replace("checkpoint_every = 10", "checkpoint_every = 4");
        Desk::with_run_file(&format!("deterministic = true\n{often}\n[seats.o]\npolicy = \"separate\"\n"))
    };
    assert_survives_kills(game, TIC_TAC_TOE, &["0-000030", "0-000030-seat1", "1-000004", "1-000004-seat1"]);
}

#[test]
fn a_stopped_run_and_one_that_took_more_steps_end_as_if_nothing_had_been() {
    let undisturbed = Desk::deterministic(4);
    undisturbed.run(WORD_PROBLEMS, &[]).succeeded();
    let expected = Essence::of(&undisturbed);
    let stopped = Desk::deterministic(4);
    let mut run = Signalled::start(&stopped, &run_arguments(WORD_PROBLEMS, &[]));
    let metrics = stopped.path("out/metrics.jsonl");
    // After the first step of eight.
    run.wait_until(|| fs::metadata(&metrics).is_ok_and(|metadata| metadata.len() > 0));
    run.send("INT");
    assert_eq!(run.end().code, Some(130));
    stopped.host(&["run", "--resume", "out"]).succeeded();
    let grown = Desk::deterministic(4);
    grown.run(WORD_PROBLEMS, &["--set", "stages.rl.steps=2"]).succeeded();
    grown.host(&["run", "--resume", "out", "--set", "stages.rl.steps=4"]).succeeded();
    for other in [&stopped, &grown] {
        expected.assert_same(&Essence::of(other));
    }
    expected.assert_checkpoints(&["0-000004", "1-000004"]);
    let run_file = |desk: &Desk| fs::read_to_string(desk.path("out/run.toml")).expect("the run file");
    assert_eq!(run_file(&grown), run_file(&undisturbed));
}

fn assert_survives_kills(desk: impl Fn() -> Desk, plugins: &'static str, checkpoints: &[&str]) {
    let undisturbed = desk();
    undisturbed.run(plugins, &[]).succeeded();
    let disturbed = desk();
    let mut moments = Seed(20_260).child("kills").stream();
    let mut kills = 0;
    // The first two die early, while their folders are created.
    for most in [2, 8].into_iter().chain([40; 8]) {
        let changes = 1 + moments.below(most);
        let pause = Duration::from_micros(moments.below(3_000));
        if !start(&disturbed, plugins).killed_after(changes, pause, &disturbed.path("out")) {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 4, "only {kills} kills came before the end");
    resume(&disturbed, plugins).succeeded();
    let essence = Essence::of(&undisturbed);
    essence.assert_same(&Essence::of(&disturbed));
    essence.assert_checkpoints(checkpoints);
    assert!(essence.updates() >= 2.0, "{}", essence.updates());
    assert_each_stored_once(&disturbed.path("out"));
    let partial = files_below(&disturbed.path("out/checkpoints")).into_iter().find(|(path, _)| path.starts_with('.'));
    assert_eq!(partial, None, "a half checkpoint was left");
    let stages = |desk: &Desk| {
        let summary = crate::common::json(&desk.path("out/summary.json"));
        let stages = summary["stages"].as_array().expect("a list").clone();
        let timeless = stages.into_iter().map(|mut stage| {
            stage.as_object_mut().expect("an object").remove("seconds");
            stage
        });
        timeless.collect::<Vec<Value>>()
    };
    assert_eq!(stages(&undisturbed), stages(&disturbed));
    let replayed = disturbed.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", disturbed.episodes().len())), "{replayed}");
}
