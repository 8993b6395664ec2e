//! Runs with a bounded memory: `examples/runs/long-reader.toml` and `memory.toml` in a smaller size.

use std::fs;

use crate::common::Desk;
use gymkhana_record::{EpisodeRecord, NamedValue, Phase, Value};

/// Runs an example with a small model for a few steps, replays it and returns its episodes.
fn small(example: &str, plugins: &str, options: &str, context: &str) -> Vec<EpisodeRecord> {
    let path = gymkhana_tests::root().join("examples/runs").join(example);
    let desk = Desk::with_run_file(&fs::read_to_string(path).expect("an example"));
    let model =
        format!("policy.tiny={{ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = {context} }}");
    let options = format!("environment.options={{ {options}, oracle-care = 100 }}");
    let smaller = [
        model.as_str(),
        options.as_str(),
        "policy.max_concurrent_sequences=8",
        "evaluation.tasks=2",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.rl.steps=1",
        "stages.rl.groups=2",
        "stages.rl.group_size=2",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run(plugins, &sets).succeeded();
    let records = desk.episodes();
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
    records
}

/// Demonstrations, all of which succeed.
fn demonstrations(records: &[EpisodeRecord]) -> Vec<&EpisodeRecord> {
    let all: Vec<_> = records.iter().filter(|record| record.id.phase == Phase::Demonstration).collect();
    assert!(all.len() == 8 && all.iter().all(|record| record.success), "the oracle answers every question");
    all
}

fn text(facts: &[NamedValue], name: &str) -> String {
    match facts.iter().find(|fact| fact.name == name).map(|fact| &fact.value) {
        Some(Value::Text(text) | Value::Other(text)) => text.clone(),
        other => panic!("`{name}` is {other:?}"),
    }
}

#[test]
fn a_document_is_read_with_a_memory_in_replies() {
    let options = "characters = 400, parts = 4, memory-chars = 48";
    let records = small("long-reader.toml", "plugins/long-reader.wasm", options, "768");
    for record in demonstrations(&records) {
        // An opening, four memories and an answer; each reply but the first two begins a segment.
        assert_eq!((record.policy_turns.len(), record.segments.len()), (6, 5));
    }
}

#[test]
fn a_document_is_read_with_a_memory_in_a_tool() {
    let options = "characters = 200, parts = 2, memory-chars = 2";
    let plugins = "plugins/long-reader.wasm,plugins/memory.wasm";
    let records = small("memory.toml", plugins, options, "1024");
    for record in demonstrations(&records) {
        // The memory holds the one sentence that the question needs, and nothing else.
        assert_eq!(text(&record.views, "memory.semantic"), text(&record.privileged, "facts"));
    }
}
