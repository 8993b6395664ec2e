//! Games whose seats use the run's policy, a separate model, frozen weights or the oracle.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Desk, SMALL_GAME, TIC_TAC_TOE, files_below};
use gymkhana_record::{EpisodeRecord, Phase, Segment};
use serde_json::Value;

/// A desk with a finished small game under these bindings.
fn played(bindings: &str) -> Desk {
    let desk = Desk::with_run_file(&format!("{SMALL_GAME}\n{bindings}"));
    desk.run(TIC_TAC_TOE, &[]).succeeded();
    let episodes = desk.episodes().len();
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert_eq!(replayed, format!("{episodes} episodes replayed, every byte equal: {episodes}\n"));
    desk
}

/// Metrics of the steps of a stage.
fn metrics(desk: &Desk, stage: u64) -> Vec<Value> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["stage"] == stage).map(|line| line["values"].clone()).collect()
}

fn checkpoints(desk: &Desk) -> BTreeSet<String> {
    let files = files_below(&desk.path("out/checkpoints"));
    files.into_iter().filter_map(|(path, _)| Some(path.split_once('/')?.0.to_owned())).collect()
}

/// Segments of a seat in the training episodes of a step.
fn segments(records: &[EpisodeRecord], phase: Phase, step: u64, seat: u32) -> Vec<Segment> {
    let of_step = records.iter().filter(|record| (record.id.phase, record.id.step) == (phase, step));
    of_step.flat_map(|record| record.segments.clone()).filter(|segment| segment.seat() == seat).collect()
}

fn sampled(segments: &[Segment]) -> usize {
    segments.iter().map(Segment::sampled_len).sum()
}

/// Weight versions that sampled a seat's tokens in a training step.
fn versions(records: &[EpisodeRecord], step: u64, seat: u32) -> BTreeSet<u32> {
    versions_of(&segments(records, Phase::Train, step, seat))
}

/// Weight versions that sampled these tokens.
fn versions_of(segments: &[Segment]) -> BTreeSet<u32> {
    let tokens = segments.iter().flat_map(|segment| segment.versions().iter().zip(segment.sampled()));
    tokens.filter(|(_, sampled)| **sampled).map(|(version, _)| *version).collect()
}

#[test]
fn seats_share_the_policy_unless_the_run_file_says_otherwise() {
    let desk = played("");
    assert_eq!(checkpoints(&desk), ["0-000030", "1-000004"].map(str::to_owned).into());
    let records = desk.episodes();
    let mut moved = 0.0;
    for (step, values) in (0..).zip(metrics(&desk, 1)) {
        let own = [0, 1].map(|seat| sampled(&segments(&records, Phase::Train, step, seat)));
        assert_eq!(values["tokens"], (own[0] + own[1]) as f64);
        moved += values["updates"].as_f64().expect("a number");
        // A zero-sum game.
        let [x, o] = ["x/reward", "o/reward"].map(|name| values[name].as_f64().expect("a number"));
        assert!((x + o).abs() < 1e-12 && values["reward"].as_f64().expect("a number").abs() < 1e-12, "{values}");
    }
    assert!(moved >= 2.0, "rewards differ, and the weights move");
    assert!(metrics(&desk, 1)[0].get("o/loss").is_none());
}

#[test]
fn separate_seats_are_trained_side_by_side_each_from_its_own_tokens() {
    let desk = played("[seats.o]\npolicy = \"separate\"\n");
    let names = ["0-000030", "0-000030-seat1", "1-000004", "1-000004-seat1"];
    assert_eq!(checkpoints(&desk), names.map(str::to_owned).into());
    let weights =
        |name: &str| fs::read(desk.path(&format!("out/checkpoints/{name}/model.safetensors"))).expect("weights");
    assert_ne!(weights("1-000004"), weights("1-000004-seat1"));
    let records = desk.episodes();
    for (stage, phase, steps) in [(0, Phase::Demonstration, 30), (1, Phase::Train, 4)] {
        let lines = metrics(&desk, stage);
        assert_eq!(lines.len(), steps);
        for (step, values) in (0..).zip(lines) {
            for (seat, name) in [(0, "tokens"), (1, "o/tokens")] {
                let own = sampled(&segments(&records, phase, step, seat));
                // If X won at once, O has no turn.
                let learnt = values[name].as_f64().unwrap_or(0.0);
                assert_eq!(learnt, own as f64, "stage {stage}, step {step}, seat {seat}");
            }
            assert_eq!(values["o/loss"].is_number(), values["o/tokens"].is_number());
        }
    }
    let summary = crate::common::json(&desk.path("out/summary.json"));
    let said = (0..4).map(|step| [0, 1].map(|seat| sampled(&segments(&records, Phase::Train, step, seat))));
    assert_eq!(summary["stages"][1]["tokens"], said.map(|own| own[0] + own[1]).sum::<usize>());
    // Each model counts its own weight versions.
    let imitated = metrics(&desk, 0).iter().filter(|values| values["o/loss"].is_number()).count() as u32;
    assert!((15..=30).contains(&imitated), "{imitated}");
    for (seat, updates, begun) in [(0, "updates", 30), (1, "o/updates", imitated)] {
        let mut version = begun;
        for (step, values) in (0..).zip(metrics(&desk, 1)) {
            assert_eq!(versions(&records, step, seat), [version].into(), "seat {seat} in step {step}");
            version += values[updates].as_f64().expect("a number") as u32;
        }
        assert!(version > begun, "seat {seat} has learnt");
    }
    // A seat with another binding has no checkpoint to resume from.
    let other =
        desk.run(TIC_TAC_TOE, &["--resume", "--set", "seats.x.policy=separate", "--set", "seats.o.policy=shared"]);
    assert_eq!(other.code, Some(2));
    assert!(other.talk.contains("was started with another run file"), "{}", other.talk);
    desk.run(TIC_TAC_TOE, &["--resume"]).succeeded();
    let both = |record: &&EpisodeRecord| record.id.phase == Phase::Train && record.segments.len() == 2;
    let id = records.iter().find(both).expect("a game in which both move").id.to_string();
    let shown = desk.host(&["show", "out", "--episode", &id]).succeeded();
    assert!(shown.contains(" sampled by the weights after 30 updates (seat 0), "), "{shown}");
    assert!(shown.contains(" updates (seat 1)\n"), "{shown}");
}

/// Moves of one token, whose stop token the limit cuts off: with the mask nothing is left to learn from.
#[test]
fn replies_that_the_limit_cuts_can_be_masked() {
    let updates = |masks: &[&str]| {
        let desk = Desk::with_run_file(SMALL_GAME);
        desk.run(TIC_TAC_TOE, &[&["--set", "limits.reply_tokens=1"], masks].concat()).succeeded();
        // Now and then the stop token is sampled at once.
        let lines = metrics(&desk, 1).into_iter().filter(|values| values["cut_replies"] == 1.0);
        let updates: Vec<f64> = lines.map(|values| values["updates"].as_f64().expect("a number")).collect();
        assert!(!updates.is_empty());
        updates.iter().sum::<f64>()
    };
    assert!(updates(&[]) >= 1.0);
    assert_eq!(updates(&["--set", "stages.rl.settings.masks=['cut-reply']"]), 0.0);
}

/// X learns in steps 0 and 1, O in steps 2 and 3; the weights of the other stay.
#[test]
fn separate_seats_learn_in_turn() {
    let desk = Desk::with_run_file(&format!("{SMALL_GAME}\n[seats.o]\npolicy = \"separate\"\n"));
    desk.run(TIC_TAC_TOE, &["--set", "stages.rl.alternate_every=2"]).succeeded();
    let (records, lines) = (desk.episodes(), metrics(&desk, 1));
    let learnt = |name: &str| lines.iter().map(|values| values[name].is_number()).collect::<Vec<_>>();
    assert_eq!(learnt("loss"), [true, true, false, false]);
    assert_eq!(learnt("o/loss"), [false, false, true, true]);
    let of = |seat: usize| (0..4).map(|step| versions(&records, step, seat as u32)).collect::<Vec<_>>();
    let (x, o) = (of(0), of(1));
    assert!(x[0] < x[1] && x[1] < x[2] && x[2] == x[3], "{x:?}");
    assert!(o[0] == o[1] && o[1] == o[2] && o[2] < o[3], "{o:?}");

    let alone = Desk::with_run_file(SMALL_GAME);
    let refused = alone.run(TIC_TAC_TOE, &["--set", "stages.rl.alternate_every=2"]).mistake("one model");
    assert!(refused.contains("alternate_every is 2, but the run trains one model"), "{refused}");
}

/// The settings of O's model differ from those of X's, which is the run's policy, in optimiser, flags and temperature.
#[test]
fn a_separate_seat_learns_by_its_own_settings() {
    let desk = Desk::with_run_file(&format!("{SMALL_GAME}\n[seats.o]\npolicy = \"separate\"\ntemperature = 0.6\n"));
    let own = "stages.rl.seats.o={ optimizer = { learning_rate = 3e-3 }, settings = { epochs = 2, kl = { beta = 0.1, \
               estimator = \"k3\", place = \"loss\" } } }";
    desk.run(TIC_TAC_TOE, &["--set", own]).succeeded();
    let lines = metrics(&desk, 1);
    let of = |name: &str| lines.iter().filter_map(|values| values[name].as_f64()).collect::<Vec<f64>>();
    let updates =
        [of("updates"), of("o/updates")].map(|steps| steps.iter().fold(0.0, |most: f64, step| most.max(*step)));
    assert_eq!(updates, [1.0, 2.0], "optimiser steps of one pass and of two");
    let rates = |name: &str, own: f64| of(name).iter().all(|rate| *rate == own || *rate == 0.0);
    assert!(rates("learning_rate", 1e-2) && rates("o/learning_rate", 3e-3), "{lines:?}");
    // Only the model of O has a reference policy, from which it moves away.
    let moves = |name: &str| of(name).iter().any(|divergence| *divergence > 0.0);
    assert!(!moves("reference_divergence") && moves("o/reference_divergence"), "{lines:?}");
    // Sampling and loss agree about the temperature: at 1 in either, the distributions would differ by far more.
    let drifts = of("o/on_policy_divergence");
    assert!(!drifts.is_empty() && drifts.iter().all(|drift| *drift < 1e-3), "{drifts:?}");
    // The seat's settings are in the resolved run file, so that a resumed run has them.
    desk.run(TIC_TAC_TOE, &["--resume", "--set", own]).succeeded();
    let without = desk.run(TIC_TAC_TOE, &["--resume"]);
    assert!(without.mistake("started with another run file").contains("seats"), "{without:?}");
}

#[test]
fn frozen_seats_keep_the_weights_that_they_were_given() {
    let first = Desk::with_run_file(SMALL_GAME);
    first.run(TIC_TAC_TOE, &["--set", "stages.rl.steps=1"]).succeeded();
    let trained = first.path("out/checkpoints/1-000001");
    let given = format!("[seats.o]\npolicy = \"frozen\"\ncheckpoint = \"{}\"\n", trained.display());
    let desk = played(&given);
    assert_eq!(checkpoints(&desk), ["0-000030", "1-000004"].map(str::to_owned).into());
    let records = desk.episodes();
    let frozen = versions(&records, 0, 1);
    assert_eq!(frozen.len(), 1);
    let lines = metrics(&desk, 1);
    for (step, values) in (0..).zip(&lines) {
        assert_eq!(versions(&records, step, 1), frozen);
        assert_eq!(values["tokens"], sampled(&segments(&records, Phase::Train, step, 0)) as f64);
        assert!(values.get("o/loss").is_none() && values["o/reward"].is_number());
    }
    assert_ne!(versions(&records, 3, 0), versions(&records, 0, 0), "the policy itself has learnt");
    // Another model in the folder makes another run.
    let template = trained.join("chat_template.jinja");
    let kept = fs::read(&template).expect("a file of the model");
    fs::write(&template, [&kept[..], b"{# changed #}"].concat()).expect("changed");
    let changed = desk.run(TIC_TAC_TOE, &["--resume"]);
    assert!(changed.mistake("changed").contains("seats.o"), "{changed:?}");
    let weights = trained.join("config.json");
    fs::write(&template, &kept).expect("restored");
    let config = fs::read_to_string(&weights).expect("a file of the model");
    fs::write(&weights, format!("{config} ")).expect("changed");
    let changed = desk.run(TIC_TAC_TOE, &["--resume"]);
    assert!(changed.mistake("changed").contains("seats.o"), "{changed:?}");
    fs::write(&weights, config).expect("restored");
    desk.run(TIC_TAC_TOE, &["--resume"]).succeeded();
    // The initial weights of a run with a checkpoint are its frozen ones.
    let from = SMALL_GAME.replace("tiny = {", &format!("checkpoint = \"{}\" # {{", trained.display()));
    let desk = Desk::with_run_file(&format!("{from}\n[seats.o]\npolicy = \"frozen\"\n"));
    desk.run(TIC_TAC_TOE, &[]).succeeded();
    assert_eq!(versions(&desk.episodes(), 3, 1), frozen);
    // A separate seat starts from the same weights and is trained.
    let separate = given.replace("seats.o", "seats.x").replace("frozen", "separate");
    let records = played(&separate).episodes();
    assert_eq!(versions_of(&segments(&records, Phase::Before, 0, 0)), frozen);
    assert!(versions(&records, 3, 0).first() > frozen.last());
}

#[test]
fn the_oracle_takes_a_seat_and_nobody_learns_its_tokens() {
    let desk = played("[seats.o]\npolicy = \"oracle\"\n");
    let records = desk.episodes();
    for (step, values) in (0..).zip(metrics(&desk, 1)) {
        assert_eq!(values["tokens"], sampled(&segments(&records, Phase::Train, step, 0)) as f64);
        // A perfect player loses only if the opening was already lost.
        assert!(values["o/reward"].as_f64().is_some_and(|reward| reward > -0.5), "{values}");
        assert!(values["reward"] == values["x/reward"], "the reward is that of the policy's own seats");
    }
    let own = (0..4).map(|step| sampled(&segments(&records, Phase::Train, step, 0))).sum::<usize>();
    assert_eq!(
        crate::common::json(&desk.path("out/summary.json"))["stages"][1]["tokens"],
        own,
        "what was learnt, and no more"
    );
    for (step, values) in (0..).zip(metrics(&desk, 0)) {
        assert_eq!(values["tokens"], sampled(&segments(&records, Phase::Demonstration, step, 0)) as f64);
    }
    let expert = segments(&records, Phase::Train, 0, 1);
    let certain = |segment: &Segment| segment.log_probs().iter().all(|log_prob| *log_prob == 0.0);
    assert!(!expert.is_empty() && expert.iter().all(certain));
}

/// Each game with a run file of its own; forks before every turn end as recorded.
#[test]
fn every_game_is_trained_on_and_replayed() {
    for (game, environment) in [
        ("tic-tac-toe", "{ options = { opening = 3, first = \"alternate\" } }"),
        ("kuhn-poker", "{ options = { alpha = 0.1 } }"),
        ("negotiation", "{ options = { turns = 4 } }"),
    ] {
        let desk = Desk::with_run_file(SMALL_GAME);
        let plugins = format!("plugins/{game}.wasm");
        let environment = format!("environment={environment}");
        let sets = [environment.as_str(), "limits.reply_tokens=16", "stages.sft.steps=4", "stages.rl.steps=1"];
        desk.run(&plugins, &sets.map(|set| ["--set", set]).concat()).succeeded();
        let replayed = desk.host(&["replay", "out", "--forks"]).succeeded();
        let all = desk.episodes().len();
        let told = format!("every byte equal: {all}\nepisodes with equal forks: {all}\nforks replayed: ");
        assert!(replayed.contains(&told), "{game}: {replayed}");
    }
}

/// `examples/runs/tic-tac-toe.toml` in a smaller size.
#[test]
fn the_example_of_a_game_is_a_sound_run_file() {
    let example =
        fs::read_to_string(gymkhana_tests::root().join("examples/runs/tic-tac-toe.toml")).expect("an example");
    let desk = Desk::with_run_file(&example);
    let smaller = [
        "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }",
        "policy.max_concurrent_sequences=8",
        "evaluation.tasks=4",
        "stages.sft.steps=2",
        "stages.rl.steps=1",
        "stages.rl.groups=2",
        "stages.rl.group_size=2",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run(TIC_TAC_TOE, &sets).succeeded();
    let records = desk.episodes();
    let moved = segments(&records, Phase::Demonstration, 0, 1);
    assert!(!moved.is_empty(), "the oracle plays both sides of a demonstration");
    assert!(metrics(&desk, 0)[0].get("o/loss").is_none(), "and only X's is imitated");
}
