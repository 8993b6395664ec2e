//! Runs with wrappers around the environment: `examples/runs/retry.toml` in a smaller size.

mod combinations;
mod library;

use std::collections::BTreeSet;
use std::fs;

use gymkhana_record::{Boundary, EpisodeRecord, Phase, Turn, Value, text_of};

use crate::common::Desk;

const PLUGINS: &str = "plugins/frozen-lake.wasm,plugins/retry.wasm,plugins/turn-cost.wasm";

const SMALLER: [&str; 14] = [
    "deterministic=true",
    "threads=1",
    "policy.tiny.layers=1",
    "policy.tiny.width=16",
    "policy.tiny.mlp=32",
    "policy.tiny.context=2048",
    "policy.max_concurrent_sequences=8",
    "environment.options.turns=6",
    "limits.turns=24",
    "evaluation.tasks=2",
    "stages.sft.steps=1",
    "stages.sft.batch=2",
    "stages.rl.groups=2",
    "stages.rl.group_size=2",
];

/// Runs the example in its smaller size with this number of RL steps and further settings.
fn run(desk: &Desk, steps: u32, more: &[&str]) -> crate::common::Outcome {
    let steps = format!("stages.rl.steps={steps}");
    let sets = SMALLER.into_iter().chain([steps.as_str()]).flat_map(|set| ["--set", set]);
    desk.run(PLUGINS, &sets.chain(more.iter().copied()).collect::<Vec<_>>())
}

fn number(record: &EpisodeRecord, fact: &str) -> f64 {
    let fact = record.extras.iter().find(|known| known.name == fact).unwrap_or_else(|| panic!("{:?}", record.extras));
    match fact.value {
        Value::Integer(number) => number as f64,
        Value::Number(number) => number,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrapped_run_is_trained_replayed_rescored_and_resumed() {
    let desk = Desk::of_example("retry.toml");
    run(&desk, 1, &[]).succeeded();
    let records = desk.episodes();
    let trained: Vec<&EpisodeRecord> = records.iter().filter(|record| record.id.phase == Phase::Train).collect();
    assert_eq!(trained.len(), 4);
    for record in &trained {
        // An attempt has up to six turns of 0.02 each, and one that is solved ends the episode.
        let attempts = number(record, "attempts");
        assert!(record.success || attempts == 3.0, "{attempts}");
        let observed = |turn: &Turn| match turn {
            Turn::Observation { content, .. } => text_of(content),
            _ => String::new(),
        };
        let shown: String = record.turns.iter().map(observed).collect();
        assert_eq!(shown.matches("is over. Try the task again.").count() as f64, attempts - 1.0, "{shown}");
        let rewards: f64 = record.environment_rewards.iter().flat_map(|seat| &seat.rewards).sum();
        if !record.success {
            // The best of three attempts that failed after one to six turns.
            assert!((-0.12 - 1e-9..=-0.02 + 1e-9).contains(&rewards), "{rewards}");
        }
        // Each plugin has its own costs.
        let plugins: BTreeSet<&str> = record.costs.iter().filter_map(|cost| cost.at.plugin()).collect();
        assert_eq!(plugins, ["frozen-lake", "retry", "turn-cost"].into());
        assert!(record.costs.iter().all(|cost| matches!(cost.at, Boundary::Environment(_))));
    }
    let written = fs::read_to_string(desk.path("out/run.toml")).expect("a run file");
    assert!(written.contains("plugin = \"retry\"") && written.contains("attempts = 3"), "{written}");
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
    let rescored = desk.host(&["rescore", "out", "--json", "--set", "seed=1"]).succeeded();
    assert!(rescored.contains("\"changed\": 0") || rescored.contains("\"changed\":0"), "{rescored}");
    let figures = desk.host(&["eval", "out/checkpoints/1-000001", "out", "--tasks", "2", "--json"]).succeeded();
    assert!(figures.contains("\"success\""), "{figures}");
    desk.host(&["run", "--resume", "out", "--set", "stages.rl.steps=2"]).succeeded();
    let whole = Desk::of_example("retry.toml");
    run(&whole, 2, &[]).succeeded();
    let tokens = |desk: &Desk| {
        let trained = desk.episodes().into_iter().filter(|record| record.id.phase == Phase::Train);
        trained.map(|record| (record.id, record.segments)).collect::<Vec<_>>()
    };
    assert!(tokens(&whole) == tokens(&desk), "the resumed run sampled other tokens");
}

#[test]
fn wrong_wrappers_are_refused_before_anything_is_written() {
    let desk = Desk::of_example("retry.toml");
    let plan = run(&desk, 1, &["--dry-run"]).succeeded();
    assert!(plan.contains("first prompt, task train/0"), "{plan}");
    for (set, message) in [
        ("environment.wrap=['retry', 'turn-cost', 'retry']", "environment.wrap puts `retry` around itself"),
        ("environment.wrap=['retri']", "asks for the capability `inner-environment`"),
        (
            "environment.wrap=['retry', 'turn-cost', 'observe']",
            "--plugins gives no wrapper `observe`, which `wrap` lists",
        ),
        (
            "environment.wrap=[{ plugin = 'retry', attempts = 0 }, 'turn-cost']",
            "environment.wrap.retry.attempts is 0, which plugin `retry` refuses",
        ),
        ("environment.wrap=['retry', { plugin = 'turn-cost', prize = 1 }]", "plugin `turn-cost` has no option `prize`"),
        ("environment.options.size=99", "environment.options.size is 99, which plugin `frozen-lake` refuses"),
    ] {
        let refused = run(&desk, 1, &["--set", set]).mistake(set);
        assert!(refused.contains(message), "{set}: {refused}");
        assert!(!desk.path("out").exists(), "{set}");
    }
}
