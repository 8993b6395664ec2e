//! Whole runs with group plans and context strategies, and presets with and without their companions.

use std::fs;

use crate::common::{Desk, WORD_PROBLEMS};
use serde_json::Value;

/// One stage of reinforcement learning from random weights, with these lines; calls cost points, so rewards vary.
fn desk(stage: &str) -> Desk {
    Desk::with_run_file(&format!(
        r#"
seed = 5
success = "answer-match.correct"
limits = {{ turns = 3, reply_tokens = 24 }}
evaluation = {{ tasks = 0 }}
rewards.answer-match.options = {{ per-call-cost = 0.5 }}

[policy]
max_concurrent_sequences = 16
tiny = {{ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }}

[[stages]]
kind = "rl"
steps = 2
groups = 3
group_size = 4
{stage}
"#
    ))
}

/// Sampled tokens that each step trained on.
fn trained_tokens(desk: &Desk) -> Vec<f64> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| line["values"]["sampled_tokens"].as_f64()).collect()
}

#[track_caller]
fn trains_and_replays(desk: &Desk, sets: &[&str]) {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    desk.run(WORD_PROBLEMS, &sets).succeeded();
    let tokens = trained_tokens(desk);
    assert!(tokens.len() == 2 && tokens.iter().all(|tokens| *tokens > 0.0), "{tokens:?}");
    let episodes = desk.episodes().len();
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {episodes}")), "{replayed}");
}

#[test]
fn plans_train_and_replay() {
    trains_and_replays(&desk("plan = { kind = \"branch\", roots = 2, threshold = 0.0 }"), &[]);
    trains_and_replays(&desk("plan = { kind = \"prefixes\", roots = 2, continuations = 1 }"), &[]);
    trains_and_replays(&desk("plan = { kind = \"guided\", retries = 1 }"), &[]);
}

#[test]
fn context_strategies_train_and_replay() {
    trains_and_replays(&desk(""), &["context={ strategy = \"window\", most = 1, keep = 1 }"]);
    trains_and_replays(&desk(""), &["context={ strategy = \"summary\", tokens = 300 }"]);
    trains_and_replays(&desk(""), &["context={ strategy = \"edits\" }"]);
}

#[test]
fn presets_without_their_companions_are_refused() {
    for (preset, companion) in [
        ("igpo", "[probe]"),
        ("arpo", "plan = { kind = \"branch\""),
        ("aepo", "plan = { kind = \"branch\""),
        ("grpo-roc", "plan = { kind = \"oversample\""),
        ("g-ra", "gate ="),
        ("otc", "[rewards.tool-efficiency]"),
        ("supo", "[context]"),
    ] {
        let outcome = desk(&format!("algorithm = \"{preset}\"")).run(WORD_PROBLEMS, &[]);
        assert_eq!(outcome.code, Some(2), "{preset}: {}", outcome.talk);
        let wanted = format!("stage `rl`: algorithm `{preset}` needs ");
        assert!(outcome.talk.contains(&wanted), "{}", outcome.talk);
        assert!(
            outcome.talk.contains("hint: add lines such as") && outcome.talk.contains(companion),
            "{}",
            outcome.talk
        );
    }
}

#[test]
fn presets_with_their_companions_train() {
    let branch = "algorithm = \"arpo\"\nplan = { kind = \"branch\", roots = 2, threshold = 0.0 }";
    desk(branch).run(WORD_PROBLEMS, &[]).succeeded();
    let clean = "algorithm = \"grpo-roc\"\nplan = { kind = \"oversample\", factor = 2, keep = \"clean\" }";
    desk(clean).run(WORD_PROBLEMS, &[]).succeeded();
    let probe = ["--set", "probe={ kind = \"answer\", field = \"answer\" }"];
    desk("algorithm = \"igpo\"").run(WORD_PROBLEMS, &probe).succeeded();
    let summary = ["--set", "context={ strategy = \"summary\", tokens = 300 }"];
    desk("algorithm = \"supo\"").run(WORD_PROBLEMS, &summary).succeeded();
}
