//! Runs with context strategies: episodes with several segments are trained on, resumed, replayed and forked.

use std::fs;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, episodes};
use gymkhana_record::{EpisodeRecord, Phase, Segment};
use serde_json::Value;

const PLUGINS: &str = "plugins/frozen-lake.wasm";

fn sets(more: &[&'static str]) -> Vec<&'static str> {
    let smaller = [
        "policy.tiny.layers=1",
        "policy.tiny.width=16",
        "policy.tiny.mlp=32",
        "policy.max_concurrent_sequences=8",
        "limits.turns=6",
        "evaluation.tasks=4",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.rl.steps=2",
        "stages.rl.groups=4",
        "stages.rl.group_size=2",
        "deterministic=true",
        "threads=1",
    ];
    smaller.into_iter().chain(more.iter().copied()).flat_map(|set| ["--set", set]).collect()
}

/// Episodes and metrics without times.
fn tokens(desk: &Desk) -> Vec<Vec<Vec<u32>>> {
    let of = |record: &EpisodeRecord| record.segments.iter().map(|segment| segment.tokens().to_vec()).collect();
    desk.episodes().iter().map(of).collect()
}

#[test]
fn a_run_learns_from_several_segments() {
    let desk = Desk::of_example("frozen-lake.toml");
    let state = sets(&["context.strategy=state"]);
    desk.run(PLUGINS, &state).succeeded();
    let records = desk.episodes();
    let of = |phase: Phase| records.iter().filter(move |record| record.id.phase == phase);
    for phase in [Phase::Demonstration, Phase::Train] {
        assert!(
            of(phase).any(|record| record.segments.len() > 2),
            "{phase:?}: each turn but the first begins a segment"
        );
    }
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let trained: Vec<f64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line["stage"] == 1)
        .map(|line| line["values"]["tokens"].as_f64().expect("a number"))
        .collect();
    let sampled = |step: u64| {
        let played = of(Phase::Train).filter(|record| record.id.step == step);
        played.map(EpisodeRecord::sampled_tokens).sum::<usize>() as f64
    };
    assert_eq!(trained, [sampled(0), sampled(1)], "each sampled token is learnt once");
    let replayed = desk.host(&["replay", "out", "--forks"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
    assert!(replayed.contains(&format!("episodes with equal forks: {}", records.len())), "{replayed}");
    // The same seed gives the same tokens in every segment.
    let again = Desk::of_example("frozen-lake.toml");
    again.run(PLUGINS, &state).succeeded();
    assert_eq!(tokens(&again), tokens(&desk));
    // A run resumes under its own strategy only.
    let other = desk.run(PLUGINS, &[sets(&["context.strategy=edits"]), vec!["--resume"]].concat());
    assert_eq!(other.code, Some(2), "{other:?}");
    desk.run(PLUGINS, &[&state[..], &["--resume"]].concat()).succeeded();
}

/// A demonstration of one token more than the context is left out, and the others are trained on. Lengths come from a
/// run with room for all.
#[test]
fn demonstrations_that_exceed_the_context_are_left_out_and_counted() {
    let only_sft = SMALL_RUN.split("[[stages]]\nkind = \"rl\"").next().expect("a first stage");
    let desk = Desk::with_run_file(only_sft);
    let run = |out: &str, context: usize| {
        let context = format!("policy.tiny.context={context}");
        let arguments = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", out, "--set", &context];
        desk.host(&[&arguments[..], &["--set", "evaluation.tasks=0", "--set", "stages.sft.batch=16"]].concat())
    };
    let left_out = |out: &str| -> Vec<f64> {
        let text = fs::read_to_string(desk.path(&format!("{out}/metrics.jsonl"))).expect("metrics");
        let value = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["values"]["left_out"].as_f64();
        text.lines().map(|line| value(line).expect("a number")).collect()
    };
    assert!(!run("roomy", 2048).talk.contains("left out"));
    assert_eq!(left_out("roomy"), [0.0, 0.0]);
    let demonstrations = episodes(&desk.path("roomy"));
    let length = |record: &EpisodeRecord| record.segments.iter().map(Segment::len).max().expect("a segment");
    let longest = demonstrations.iter().map(length).max().expect("an episode");
    let whole = run("whole", longest);
    assert!(whole.code == Some(0) && !whole.talk.contains("left out"), "{whole:?}");
    let narrow = run("narrow", longest - 1);
    let told = format!("demonstrations are left out: they exceed the context of {} tokens\nhint: raise", longest - 1);
    assert!(narrow.code == Some(0) && narrow.talk.contains(&told), "{narrow:?}");
    let expected = [0, 1].map(|step| {
        let too_long = |record: &&EpisodeRecord| record.id.step == step && length(record) == longest;
        demonstrations.iter().filter(too_long).count() as f64
    });
    assert_eq!(left_out("narrow"), expected);
    let total = expected.iter().sum::<f64>();
    assert!(narrow.talk.contains(&format!("stage sft, all steps: {total} of 32 demonstrations")), "{}", narrow.talk);
}
