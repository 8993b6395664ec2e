//! Algorithms in whole runs: presets with their settings, preference stages and distillation.

mod backfill;

use std::fs;

use crate::common::{Desk, WORD_PROBLEMS};
use serde_json::Value;

/// A run of these stages from random weights. Calls cost points, so that rewards vary.
fn desk(stages: &str) -> Desk {
    Desk::of_groups(stages)
}

fn stage(kind: &str, more: &str) -> String {
    format!("[[stages]]\nkind = \"{kind}\"\nsteps = 2\ngroups = 3\ngroup_size = 4\n{more}\n")
}

/// A metric of every step that reports it, with the index of the stage.
fn metric(desk: &Desk, name: &str) -> Vec<(u64, f64)> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let value = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        Some((line["stage"].as_u64()?, line["values"][name].as_f64()?))
    };
    text.lines().filter_map(value).collect()
}

/// A metric of every step that reports it.
fn figures(desk: &Desk, name: &str) -> Vec<f64> {
    metric(desk, name).into_iter().map(|(_, value)| value).collect()
}

#[test]
fn adapters_train_in_whole_runs() {
    let memory = ["--set", "policy.activation_checkpointing=true", "--set", "policy.micro_batch_tokens=700"];
    let adapters = ["--set", "policy.lora={rank=2, alpha=4.0, modules=[\"q_proj\", \"up_proj\"]}"];
    let stages = stage("sft", "").replace("groups = 3\ngroup_size = 4", "batch = 4") + &stage("rl", "");
    let learning = desk(&stages);
    learning
        .run(WORD_PROBLEMS, &[memory, ["--set", "stages.rl.steps=1", adapters[0], adapters[1]]].concat())
        .succeeded();
    for checkpoint in ["0-000002", "1-000001"] {
        let config = learning.path(&format!("out/checkpoints/{checkpoint}/adapter/adapter_config.json"));
        let config: Value = serde_json::from_str(&fs::read_to_string(config).expect("a file")).expect("JSON");
        assert_eq!((config["r"].as_u64(), config["target_modules"].as_array().map(Vec::len)), (Some(2), Some(2)));
    }
    learning.host(&["eval", "out/checkpoints/1-000001", "out", "--tasks", "2"]).succeeded();
    let refused = |set: &str| {
        let outcome = desk(&stages).run(WORD_PROBLEMS, &["--set", set]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.talk);
        outcome.talk
    };
    assert!(refused("policy.lora={rank=0, alpha=1.0}").contains("`policy.lora.rank` is 0; it must be 1 or more"));
    assert!(refused("policy.lora={rank=1, alpha=1.0, modules=[\"query\"]}").contains("unknown variant `query`"));
    assert!(refused("policy.device=\"gpu\"").contains("expected `cpu` or `cuda`"));
    // The project's libtorch has no CUDA.
    assert!(refused("policy.device=\"cuda\"").contains("set LIBTORCH to the folder of a torch 2.11.0 with CUDA"));
}

#[test]
fn presets_go_through_whole_runs() {
    let names = [
        "ppo",
        "grpo",
        "dapo",
        "rloo",
        "reinforce++",
        "gspo",
        "cispo",
        "gigpo",
        "step-ppo",
        "simpletir",
        "spear",
        "epo",
        "dart",
        "score",
        "rise",
    ];
    let warm = "settings = { critic = { warmup_steps = 1 } }";
    let stages: Vec<String> = names
        .iter()
        .map(|name| {
            let more = match *name {
                "ppo" | "step-ppo" => warm,
                // The tasks of word-problems never repeat.
                "dart" => "settings = { replay = \"off\" }",
                _ => "",
            };
            stage("rl", &format!("name = \"{name}\"\nalgorithm = \"{name}\"\n{more}"))
        })
        .collect();
    let desk = desk(&stages.join("\n"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let updates = metric(&desk, "updates");
    let losses = metric(&desk, "loss");
    for (stage, name) in (0..).zip(names) {
        let of_stage = |metric: &[(u64, f64)]| -> Vec<f64> {
            metric.iter().filter(|(index, _)| *index == stage).map(|(_, value)| *value).collect()
        };
        let updates = of_stage(&updates);
        assert_eq!(updates.len(), 2, "{name}: steps");
        assert!(updates.iter().sum::<f64>() >= 1.0, "{name}: no update in {updates:?}");
        assert!(of_stage(&losses).iter().all(|loss| loss.is_finite()), "{name}: a loss is not finite");
    }
    assert_eq!(figures(&desk, "value_loss").len(), 2 * 2, "the two presets with a critic");
    // A step whose returns are all equal has no share.
    let explained = figures(&desk, "explained_variance");
    assert!((1..=4).contains(&explained.len()) && explained.iter().all(|share| *share <= 1.0), "{explained:?}");
    assert_eq!(figures(&desk, "replayed").len(), 2, "the preset with a replay buffer");
    assert!(desk.host(&["replay", "out"]).succeeded().contains("every byte equal"));
}

/// The tasks of word-problems never repeat, so that no group could get an earlier success.
#[test]
fn backfilling_needs_tasks_that_repeat() {
    let outcome = desk(&stage("rl", "algorithm = \"dart\"")).run(WORD_PROBLEMS, &[]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.talk);
    for words in ["replay.kind is \"backfill\"", "no task repeats", "split `train` has infinitely many tasks"] {
        assert!(outcome.talk.contains(words), "{}", outcome.talk);
    }
}

/// Each stage updates the weights, and the stored run file holds the algorithms that the kinds imply.
#[test]
fn preferences_and_teachers_are_stages_of_their_own() {
    let first = desk(&stage("rl", ""));
    first.run(WORD_PROBLEMS, &[]).succeeded();
    let teacher = fs::read_dir(first.path("out/checkpoints"))
        .expect("checkpoints")
        .map(|entry| entry.expect("an entry").path())
        .max()
        .expect("a checkpoint");
    let taught = stage("distill", &format!("teacher = {:?}", teacher.display().to_string()));
    let desk = desk(&format!("{}{taught}", stage("dpo", "")));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    assert_eq!(figures(&desk, "updates"), [1.0; 4]);
    let kept = fs::read_to_string(desk.path("out/run.toml")).expect("the resolved run file");
    for line in ["algorithm = \"dpo\"", "algorithm = \"distill\"", "name = \"distill\""] {
        assert!(kept.contains(line), "{line}\n{kept}");
    }
    for (stages, message) in [
        (stage("distill", ""), "set `teacher` to the folder of its model"),
        (stage("dpo", "teacher = \"there\""), "uses no teacher, but `teacher` is set"),
        (stage("distill", "teacher = \"nowhere\""), "`nowhere`"),
    ] {
        let wrong = self::desk(&stages).run(WORD_PROBLEMS, &[]);
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
        assert!(wrong.talk.contains(message), "{message}: {}", wrong.talk);
    }
}

#[test]
fn a_stage_without_differing_rewards_warns_once() {
    let desk = desk(&stage("rl", "").replace("steps = 2", "steps = 5"));
    let warned = |outcome: &crate::common::Outcome| outcome.talk.matches("learns nothing: no rewards differed").count();
    let varied = desk.run(WORD_PROBLEMS, &[]);
    assert_eq!((varied.code, warned(&varied)), (Some(0), 0), "{varied:?}");
    let free = ["--set", "plugins.answer-match.options.per-call-cost=0.0"];
    fs::remove_dir_all(desk.path("out")).expect("removed");
    let flat = desk.run(WORD_PROBLEMS, &free);
    assert_eq!((flat.code, warned(&flat)), (Some(0), 1), "{flat:?}");
}
