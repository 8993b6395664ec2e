//! Whole runs with group plans and context strategies, and presets with and without their companions.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Desk, WORD_PROBLEMS};
use gymkhana_record::{EpisodeRecord, Phase, Segment, Turn, text_of};
use serde_json::Value;

/// Plugins of the lake, whose environment gives hints and whose episodes have several turns.
const LAKE: &str = "plugins/frozen-lake.wasm";

/// One stage of reinforcement learning on word problems with these lines, after demonstrations of the calculator's call;
/// calls cost points, so that rewards vary.
fn desk(stage: &str) -> Desk {
    with_stage(
        r#"
success = "answer-match.correct"
limits = { turns = 4, reply_tokens = 96 }
plugins.answer-match.options = { per-call-cost = 0.5 }
"#,
        stage,
    )
}

/// The same on the smallest lake. Its ice deflects moves, so that success differs for equal replies.
fn lake(stage: &str) -> Desk {
    with_stage(
        r#"
success = "environment.success"
limits = { turns = 4, reply_tokens = 8 }
environment.options = { size = 2, slippery = true }
"#,
        stage,
    )
}

/// Word problems from random weights, for strategies that an oracle cannot follow. Few replies hold a call, all of them
/// malformed, so that a step needs many episodes.
fn untrained(stage: &str) -> Desk {
    Desk::with_run_file(&format!(
        r#"
seed = 5
success = "answer-match.correct"
limits = {{ turns = 3, reply_tokens = 24 }}
evaluation = {{ tasks = 0 }}
plugins.answer-match.options = {{ per-call-cost = 0.5 }}

[policy]
max_concurrent_sequences = 16
tiny = {{ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 1024 }}

[[stages]]
kind = "rl"
steps = 2
groups = 12
group_size = 4
{stage}
"#
    ))
}

fn with_stage(task: &str, stage: &str) -> Desk {
    Desk::with_run_file(&format!(
        r#"
seed = 5
evaluation = {{ tasks = 0 }}
{task}

[policy]
max_concurrent_sequences = 16
tiny = {{ layers = 1, width = 32, heads = 2, kv_heads = 1, mlp = 64, context = 2048 }}

[[stages]]
kind = "sft"
steps = 40
batch = 8
optimizer = {{ learning_rate = 1e-2 }}

[[stages]]
kind = "rl"
steps = 2
groups = 3
group_size = 4
{stage}
"#
    ))
}

/// A metric of every step of reinforcement learning.
fn figures(desk: &Desk, name: &str) -> Vec<f64> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let of_training = lines.filter(|line| line["values"].get("reward").is_some());
    of_training.filter_map(|line| line["values"][name].as_f64()).collect()
}

/// Runs, checks that the weights were updated and that every episode replays, and returns the episodes of the training.
#[track_caller]
fn trains_and_replays(desk: &Desk, plugins: &str, sets: &[&str]) -> Vec<EpisodeRecord> {
    let records = trains(desk, plugins, sets);
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", desk.episodes().len())), "{replayed}");
    records
}

/// Runs, checks that the weights were updated, and returns the episodes of the training.
#[track_caller]
fn trains(desk: &Desk, plugins: &str, sets: &[&str]) -> Vec<EpisodeRecord> {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    desk.run(plugins, &sets).succeeded();
    assert!(figures(desk, "updates").iter().sum::<f64>() >= 1.0, "no update");
    let records = desk.episodes();
    assert_eq!(figures(desk, "sampled_tokens").len(), 2, "two steps");
    records.into_iter().filter(|record| record.id.phase == Phase::Train).collect()
}

/// Texts of a record's observations.
fn observations(record: &EpisodeRecord) -> impl Iterator<Item = String> {
    record.turns.iter().filter_map(|turn| match turn {
        Turn::Observation { content, .. } => Some(text_of(content)),
        _ => None,
    })
}

/// Checks that forks name episodes of the same group, and that the shared turns have equal tokens. Returns the number of
/// forked episodes.
fn forked(records: &[EpisodeRecord]) -> usize {
    let forks = records.iter().filter_map(|record| Some((record, record.forks.last()?)));
    let mut count = 0;
    for (record, fork) in forks {
        let parent = records.iter().find(|other| other.id == fork.parent).expect("the parent is recorded");
        assert_eq!((parent.id.step, parent.id.group), (record.id.step, record.id.group));
        assert_eq!(parent.task, record.task);
        let shared = |record: &EpisodeRecord| -> Vec<u32> {
            let of = |segment: &Segment| {
                let tokens = segment.tokens().iter().zip(segment.turns());
                tokens.filter(|(_, turn)| **turn < fork.turns[0]).map(|(token, _)| *token).collect::<Vec<_>>()
            };
            record.segments.iter().flat_map(of).collect()
        };
        assert_eq!(shared(parent), shared(record), "{}", record.id);
        count += 1;
    }
    count
}

#[test]
fn a_branching_plan_forks_after_calls() {
    let plan = "plan = { kind = \"branch\", roots = 2, threshold = 0.0 }";
    let records = trains_and_replays(&desk(plan), WORD_PROBLEMS, &[]);
    assert_eq!(records.len(), 24, "a branch counts as a member of its group");
    assert!(forked(&records) > 0, "no episode branched");
    for fork in records.iter().flat_map(|record| &record.forks) {
        assert!(fork.taken() > 0, "a branch follows an answer, so that it shares a turn");
    }
    assert_eq!(forked(&trains_and_replays(&desk(""), WORD_PROBLEMS, &[])), 0, "plain groups have no forks");
}

#[test]
fn a_plan_of_prefixes_continues_from_them() {
    let plan = "plan = { kind = \"prefixes\", roots = 2, continuations = 1 }";
    let records = trains_and_replays(&lake(plan), LAKE, &[]);
    assert_eq!(records.len(), 24);
    // Two of four members of each group begin at the start.
    assert_eq!(forked(&records), 12);
    assert!(records.iter().all(|record| record.forks.is_empty() == (record.id.member < 2)));
}

#[test]
fn a_guided_plan_shows_the_hint_of_a_failed_attempt() {
    let records = trains_and_replays(&lake("plan = { kind = \"guided\", retries = 1 }"), LAKE, &[]);
    let (retries, firsts): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.id.member >= 4);
    assert_eq!(firsts.len(), 24);
    let failed = firsts.iter().filter(|record| !record.success).count();
    assert!(failed > 0 && retries.len() == failed, "{} retries after {failed} failures", retries.len());
    for retry in retries {
        let is_first = |record: &&&EpisodeRecord| {
            let of = |record: &EpisodeRecord| (record.id.step, record.id.group, record.id.member % 4);
            of(record) == of(retry)
        };
        let first = firsts.iter().find(is_first).expect("the first attempt is recorded");
        assert!(retry.guidance.is_some() && retry.guidance == first.hint, "{}", retry.id);
        let hint = retry.guidance.as_deref().map(text_of).unwrap_or_default();
        assert!(hint.starts_with("A hint: the goal is "), "{hint}");
        assert!(observations(retry).any(|text| text.contains(&hint)), "{}: the policy did not see the hint", retry.id);
    }
    assert!(firsts.iter().all(|record| record.guidance.is_none()));
}

#[test]
fn a_window_begins_segments_without_older_results() {
    let window = "context={ strategy = \"window\", most = 1, keep = 1 }";
    let records = trains_and_replays(&desk(""), WORD_PROBLEMS, &[window]);
    let answers =
        |record: &EpisodeRecord| record.turns.iter().filter(|turn| matches!(turn, Turn::Answer { .. })).count();
    // The second answer, if a turn follows it, replaces the first one.
    let replaced = records.iter().filter(|record| record.segments.len() > 1);
    assert!(replaced.clone().count() > 0, "no context was shortened");
    assert!(replaced.clone().all(|record| answers(record) > 1));
    assert!(trains_and_replays(&desk(""), WORD_PROBLEMS, &[]).iter().all(|record| record.segments.len() == 1));
}

#[test]
fn a_summary_is_a_note_that_begins_a_segment() {
    let summary = ["context={ strategy = \"summary\", tokens = 100 }"];
    let records = trains_and_replays(&untrained(""), WORD_PROBLEMS, &summary);
    let mut notes = 0;
    for record in &records {
        let is_note: Vec<bool> = record.policy_turns.iter().map(|turn| turn.note.is_some()).collect();
        let of_record = is_note.iter().filter(|is_note| **is_note).count();
        // The context begins again with the turn after a note.
        let followed = of_record - usize::from(is_note.last() == Some(&true));
        assert_eq!(record.segments.len(), 1 + followed, "{}", record.id);
        notes += of_record;
        // No plugin sees a note: it is not among the messages.
        let messages = record.turns.iter().filter(|turn| matches!(turn, Turn::Message { .. })).count();
        assert!(messages <= is_note.len() - of_record, "{}", record.id);
    }
    assert!(notes > 0, "no summary was requested");
    let whole = trains_and_replays(&untrained(""), WORD_PROBLEMS, &[]);
    assert!(whole.iter().flat_map(|record| &record.policy_turns).all(|turn| turn.note.is_none()));
}

#[test]
fn edits_offer_a_function_of_the_host() {
    let offers = |records: &[EpisodeRecord]| -> BTreeSet<bool> {
        let functions = records.iter().flat_map(|record| &record.opening.functions);
        functions.map(|seat| seat.functions.iter().any(|function| function.name == "edit_context")).collect()
    };
    let records = trains_and_replays(&desk(""), WORD_PROBLEMS, &["context={ strategy = \"edits\" }"]);
    assert_eq!(offers(&records), BTreeSet::from([true]));
    assert_eq!(offers(&trains_and_replays(&desk(""), WORD_PROBLEMS, &[])), BTreeSet::from([false]));
}

#[test]
fn presets_without_their_companions_are_refused() {
    for (preset, companion) in [
        ("igpo", "[probe]"),
        ("arpo", "plan = { kind = \"branch\""),
        ("aepo", "plan = { kind = \"branch\""),
        ("grpo-roc", "plan = { kind = \"oversample\""),
        ("scalinginter", "turns = { from = 4"),
        ("g-ra", "gate ="),
        ("otc", "[plugins.tool-efficiency]"),
        ("supo", "[context]"),
    ] {
        let outcome = desk(&format!("algorithm = \"{preset}\"")).run(WORD_PROBLEMS, &[]);
        let refused = outcome.mistake(preset);
        assert!(refused.contains(&format!("stage `rl`: algorithm `{preset}` needs ")), "{refused}");
        assert!(refused.contains("hint: add lines such as") && refused.contains(companion), "{refused}");
    }
}

#[test]
fn presets_of_branches_train_with_their_plan() {
    let arpo = desk("algorithm = \"arpo\"\nplan = { kind = \"branch\", roots = 2, threshold = 0.0 }");
    assert!(forked(&trains(&arpo, WORD_PROBLEMS, &[])) > 0, "no episode branched");
    let probe = "probe = { beta = 1.0 }, penalty = 0.1";
    let aepo = desk(&format!("algorithm = \"aepo\"\nplan = {{ kind = \"branch\", roots = 2, base = 1.0, {probe} }}"));
    assert!(forked(&trains(&aepo, WORD_PROBLEMS, &[])) > 0, "no episode branched");
}

#[test]
fn grpo_roc_trains_on_the_selected_half() {
    let clean = "algorithm = \"grpo-roc\"\nplan = { kind = \"oversample\", factor = 2, keep = \"clean\" }";
    let desk = desk(clean);
    let records = trains(&desk, WORD_PROBLEMS, &[]);
    let selected = records.iter().filter(|record| record.selected).count();
    assert_eq!((records.len(), selected), (48, 24));
    assert_eq!(figures(&desk, "episodes"), [12.0; 2]);
}

#[test]
fn igpo_trains_with_the_gains_of_its_probe() {
    let desk = desk("algorithm = \"igpo\"");
    let records = trains(&desk, WORD_PROBLEMS, &["probe={ kind = \"answer\", field = \"answer\" }"]);
    assert!(records.iter().flat_map(|record| record.turn_gains.iter().flatten()).any(|gain| *gain != 0.0));
}

#[test]
fn supo_trains_with_summaries() {
    let desk = untrained("algorithm = \"supo\"");
    let records = trains(&desk, WORD_PROBLEMS, &["context={ strategy = \"summary\", tokens = 100 }"]);
    assert!(records.iter().flat_map(|record| &record.policy_turns).any(|turn| turn.note.is_some()));
}

/// Score of a reward plugin for the only seat, and one of its components.
fn score(record: &EpisodeRecord, plugin: &str, component: &str) -> (f64, f64) {
    let score = record.scores.iter().find(|score| score.plugin == plugin).expect("the plugin scored");
    let of_seat = &score.scores[0];
    let found = of_seat.components.iter().find(|found| found.name == component).expect("the component");
    (of_seat.total, found.value)
}

#[test]
fn otc_adds_the_score_of_call_efficiency() {
    let plugins = format!("{WORD_PROBLEMS},plugins/tool-efficiency.wasm");
    let records = trains(&desk("algorithm = \"otc\""), &plugins, &[]);
    for record in &records {
        let (efficiency, calls) = score(record, "tool-efficiency", "calls");
        let (answer, _) = score(record, "answer-match", "correct");
        assert_eq!(calls, record.calls() as f64, "{}", record.id);
        assert!((record.rewards[0] - efficiency - answer).abs() < 1e-9, "{}", record.id);
    }
}

/// The gate makes the costs of single calls free, so that it changes rewards in both directions.
#[test]
fn g_ra_adds_a_gated_score_only_behind_its_gate() {
    let plugins = format!("{WORD_PROBLEMS},plugins/tool-efficiency.wasm");
    let gate = "plugins.answer-match.gate=tool-efficiency.calls >= 2";
    let records = trains(&desk("algorithm = \"g-ra\""), &plugins, &[gate]);
    let mut seen = BTreeSet::new();
    for record in &records {
        let (efficiency, calls) = score(record, "tool-efficiency", "calls");
        let (answer, _) = score(record, "answer-match", "correct");
        let opened = if calls >= 2.0 { answer } else { 0.0 };
        assert!((record.rewards[0] - efficiency - opened).abs() < 1e-9, "{}", record.id);
        if answer != 0.0 {
            seen.insert(calls >= 2.0);
        }
    }
    assert_eq!(seen.len(), 2, "the gate was open and closed for scores other than 0: {seen:?}");
}
