//! Runs whose groups and turn limits depend on the step: dynamic sampling and growing turn limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::{Desk, WORD_PROBLEMS};
use gymkhana_record::{Ending, EpisodeRecord, Phase};
use serde_json::Value;

const LAKE: &str = "plugins/frozen-lake.wasm";

/// Groups of a step.
const GROUPS: u32 = 4;

/// A run from random weights, whose few malformed calls cost points: some groups have rewards that differ and some do
/// not.
fn desk(stage: &str) -> Desk {
    Desk::with_run_file(&format!(
        r#"
seed = 3
success = "answer-match.correct"
limits = {{ turns = 2, reply_tokens = 24 }}
evaluation = {{ tasks = 0 }}
plugins.answer-match.options = {{ per-call-cost = 0.5 }}

[policy]
max_concurrent_sequences = 8
tiny = {{ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }}

[[stages]]
kind = "rl"
steps = 4
groups = {GROUPS}
group_size = 2
{stage}
"#
    ))
}

/// A metric of every step.
fn figures(desk: &Desk, name: &str) -> Vec<f64> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let value = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["values"][name].as_f64();
    text.lines().map(|line| value(line).unwrap_or_else(|| panic!("no {name} in {line}"))).collect()
}

/// Groups of a step: their episodes by the group's index.
fn groups(records: &[EpisodeRecord], step: u64) -> BTreeMap<u32, Vec<&EpisodeRecord>> {
    let mut groups: BTreeMap<u32, Vec<&EpisodeRecord>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.id.step == step) {
        groups.entry(record.id.group).or_default().push(record);
    }
    groups
}

fn rewards_differ(group: &[&EpisodeRecord]) -> bool {
    group.iter().any(|record| record.rewards != group[0].rewards)
}

fn tokens(groups: &[&Vec<&EpisodeRecord>]) -> f64 {
    groups.iter().flat_map(|group| group.iter()).map(|record| record.sampled_tokens()).sum::<usize>() as f64
}

/// The weight falls from 0.5 over 0.25 to 0: two steps have three demonstrations each, of the tasks of their first groups.
#[test]
fn demonstrations_are_played_as_long_as_they_have_a_weight() {
    let shown = "demonstrations = { batch = 3, weight = 0.5, schedule = { shape = \"linear\", to = 0.0, over = 2 } }";
    let desk = desk(&format!("{shown}\noptimizer = {{ learning_rate = 1e-3, ema = 0.9 }}"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let (shown, played): (Vec<_>, Vec<_>) =
        desk.episodes().into_iter().partition(|record| record.id.phase == Phase::Demonstration);
    for step in 0..4 {
        let tasks = |records: &[EpisodeRecord]| -> BTreeSet<u64> {
            let of_step = records.iter().filter(|record| record.id.step == step);
            of_step.filter(|record| record.id.group < 3).map(|record| record.task.index).collect()
        };
        let expected = if step < 2 { tasks(&played) } else { BTreeSet::new() };
        assert_eq!(tasks(&shown), expected, "step {step}");
    }
    assert_eq!(figures(&desk, "demonstrations"), [3.0, 3.0, 0.0, 0.0]);
    assert_eq!(figures(&desk, "demonstration_weight"), [0.5, 0.25, 0.0, 0.0]);
    for (step, share) in (0..).zip(figures(&desk, "cut_short")) {
        let of_step: Vec<_> = played.iter().filter(|record| record.id.step == step).collect();
        let is_cut = |record: &&&EpisodeRecord| matches!(record.ending, Ending::TurnLimit | Ending::ContextLimit);
        let cut = of_step.iter().filter(is_cut).count();
        assert_eq!(share, cut as f64 / of_step.len() as f64, "step {step}");
    }
    let average = desk.path("out/checkpoints/0-000004/average/model.safetensors");
    assert!(average.exists(), "{}", average.display());
}

#[test]
fn without_dynamic_sampling_every_group_is_trained_on() {
    let desk = desk("");
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let records = desk.episodes();
    let mut flat = 0;
    for step in 0..4 {
        let groups = groups(&records, step);
        assert_eq!(groups.keys().copied().collect::<Vec<u32>>(), (0..GROUPS).collect::<Vec<u32>>(), "step {step}");
        flat += groups.values().filter(|group| !rewards_differ(group)).count();
        let trained = tokens(&groups.values().collect::<Vec<_>>());
        assert_eq!(figures(&desk, "sampled_tokens")[step as usize], trained, "step {step}");
    }
    assert_eq!(figures(&desk, "episodes"), [8.0; 4]);
    assert!(flat > 0, "the run has groups that dynamic sampling would replace");
}

#[test]
fn dynamic_sampling_replaces_groups_with_equal_rewards() {
    const ROUNDS: u32 = 3;
    let desk = desk(&format!("dynamic_sampling = {{ max_rounds = {ROUNDS} }}"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let records = desk.episodes();
    let mut added = 0;
    for step in 0..4 {
        let groups = groups(&records, step);
        let differ = |index: &u32| rewards_differ(&groups[index]);
        // Each round starts as many groups as are missing, with the next indices.
        let (mut next, mut kept) = (GROUPS, (0..GROUPS).filter(differ).collect::<Vec<u32>>());
        for _ in 0..ROUNDS {
            let round = next..next + (GROUPS - kept.len() as u32);
            next = round.end;
            kept.extend(round.filter(differ));
        }
        assert_eq!(groups.keys().copied().collect::<Vec<u32>>(), (0..next).collect::<Vec<u32>>(), "step {step}");
        added += next - GROUPS;
        let tasks: BTreeSet<u64> = groups.values().map(|group| group[0].task.index).collect();
        assert_eq!(tasks.len(), groups.len(), "step {step}: a group was replaced by one of the same task");
        let trained: Vec<&Vec<&EpisodeRecord>> = kept.iter().map(|index| &groups[index]).collect();
        assert_eq!(figures(&desk, "episodes")[step as usize], 2.0 * trained.len() as f64, "step {step}");
        assert_eq!(figures(&desk, "sampled_tokens")[step as usize], tokens(&trained), "step {step}");
    }
    assert!(added > 0, "no group was replaced");
    assert!(desk.host(&["replay", "out"]).succeeded().contains(&format!("every byte equal: {}", records.len())));
}

/// The lake ends no episode of a policy that says no direction, so that each one reaches its turn limit.
#[test]
fn a_turn_schedule_raises_the_limit_of_each_step() {
    let desk = Desk::with_run_file(
        r#"
seed = 3
success = "environment.success"
limits = { turns = 4, reply_tokens = 4 }
evaluation = { tasks = 2, sampled = false }

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 1024 }

[[stages]]
kind = "rl"
algorithm = "scalinginter"
turns = { from = 1, by = 1, every = 1 }
steps = 5
groups = 2
group_size = 4
"#,
    );
    desk.run(LAKE, &[]).succeeded();
    let records = desk.episodes();
    let trained = || records.iter().filter(|record| record.id.phase == Phase::Train);
    for (step, limit) in (0..).zip([1, 2, 3, 4, 4]) {
        let of_step = || trained().filter(move |record| record.id.step == step);
        assert_eq!(of_step().count(), 8);
        assert!(of_step().all(|record| record.turn_limit == limit), "step {step}");
        let longest = of_step().map(|record| record.policy_turns.len()).max();
        assert_eq!(longest, Some(limit as usize), "step {step}");
    }
    let measured: BTreeSet<u32> =
        records.iter().filter(|record| record.id.phase != Phase::Train).map(|record| record.turn_limit).collect();
    assert_eq!(measured, BTreeSet::from([4]), "evaluations have the run's limit");
    assert!(desk.host(&["replay", "out"]).succeeded().contains(&format!("every byte equal: {}", records.len())));
}
