//! Samplers of training tasks in whole runs: choices, attempts and turns, resuming, and sections that do not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::{Desk, json};
use gymkhana_record::{EpisodeRecord, Phase};
use serde_json::Value;

const PLUGINS: &str = "plugins/frozen-lake.wasm";

/// `examples/runs/curriculum.toml` in a smaller size: steps of three groups of four.
const SMALLER: [&str; 13] = [
    "deterministic=true",
    "threads=1",
    "policy.tiny.layers=1",
    "policy.tiny.width=16",
    "policy.tiny.mlp=32",
    "policy.max_concurrent_sequences=8",
    "environment.options.turns=6",
    "limits.turns=6",
    "evaluation.tasks=0",
    "stages.sft.steps=2",
    "stages.sft.batch=6",
    "stages.rl.groups=3",
    "stages.rl.group_size=4",
];

/// Runs the example in its smaller size with these settings.
fn start(desk: &Desk, sets: &[&str]) {
    let sets: Vec<&str> = SMALLER.iter().chain(sets).flat_map(|set| ["--set", set]).collect();
    desk.run(PLUGINS, &sets).succeeded();
}

fn started(sets: &[&str]) -> Desk {
    let desk = Desk::of_example("curriculum.toml");
    start(&desk, sets);
    desk
}

/// A run of the example with this sampler and this number of steps.
fn run(sampler: &str, steps: u32) -> Desk {
    started(&[&format!("sampler={sampler}"), &format!("stages.rl.steps={steps}")])
}

/// The values of a metric in all steps that have it.
fn figures(desk: &Desk, name: &str) -> Vec<f64> {
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = metrics.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| line["values"][name].as_f64()).collect()
}

/// Training groups of a run by step and number.
fn groups(desk: &Desk) -> BTreeMap<(u64, u32), Vec<EpisodeRecord>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for record in desk.episodes().into_iter().filter(|record| record.id.phase == Phase::Train) {
        groups.entry((record.id.step, record.id.group)).or_default().push(record);
    }
    groups
}

/// Task and number of attempts of each group.
fn choices(desk: &Desk) -> Vec<((u64, u32), String, usize, u32)> {
    let of = |(at, group): ((u64, u32), Vec<EpisodeRecord>)| {
        (at, group[0].task.to_string(), group.len(), group[0].turn_limit)
    };
    groups(desk).into_iter().map(of).collect()
}

const WITH_MEMORY: [&str; 5] = [
    r#"{ kind = "difficulty", tasks = 6, attempts = 4, max = 0.5, min = 0.1, readmit = 2 }"#,
    r#"{ kind = "adaptive", tasks = 6, attempts = 2, from = 0.0 }"#,
    r#"{ kind = "mixed-outcome", tasks = 9, candidates = 2 }"#,
    r#"{ kind = "prioritized", tasks = 6, by = "failure", even = 0.5 }"#,
    r#"{ kind = "staged", phases = [{ tasks = 3, turns = 2, steps = 1 }, { tasks = 5, turns = 3, steps = 2 }, {}] }"#,
];

/// The memory of a sampler continues where it stopped.
#[test]
fn a_resumed_run_chooses_the_same_tasks() {
    for sampler in WITH_MEMORY {
        let (whole, parts) = (run(sampler, 4), run(sampler, 2));
        let state = json(&parts.path("out/state.json"));
        assert_eq!(state["progress"]["sampler"]["memories"][""]["steps"].as_u64(), Some(2), "{sampler}");
        parts.host(&["run", "--resume", "out", "--set", "stages.rl.steps=4"]).succeeded();
        let expected = choices(&whole);
        assert_eq!(expected.len(), 4 * 3, "{sampler}");
        assert_eq!(choices(&parts), expected, "{sampler}");
    }
}

/// Twelve episodes per step in all, at least two at each task, and none of the first nine tasks twice in a step.
#[test]
fn attempts_follow_the_chance_of_both_outcomes() {
    let desk = run(WITH_MEMORY[2], 4);
    let mut steps: BTreeMap<u64, Vec<(String, usize)>> = BTreeMap::new();
    for ((step, _), task, attempts, _) in choices(&desk) {
        steps.entry(step).or_default().push((task, attempts));
    }
    for (step, groups) in &steps {
        assert_eq!(groups.iter().map(|(_, attempts)| attempts).sum::<usize>(), 12, "step {step}: {groups:?}");
        assert!(groups.iter().all(|(_, attempts)| (2..=8).contains(attempts)), "step {step}: {groups:?}");
        assert_eq!(groups.iter().map(|(task, _)| task).collect::<BTreeSet<_>>().len(), 3, "step {step}: {groups:?}");
    }
    // Records of groups of other sizes are played again byte for byte.
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains("every byte equal: "), "{replayed}");
}

#[test]
fn phases_change_tasks_and_turns() {
    let desk = run(WITH_MEMORY[4], 4);
    let limits: Vec<u32> = choices(&desk).into_iter().map(|(_, _, _, turns)| turns).collect();
    assert_eq!(limits, [2, 2, 2, 3, 3, 3, 3, 3, 3, 6, 6, 6]);
    let first: BTreeSet<String> = choices(&desk).into_iter().take(3).map(|(_, task, _, _)| task).collect();
    assert_eq!(first, ["train/0", "train/1", "train/2"].map(str::to_owned).into(), "the phase has three tasks");
    // Figures of a step are those after its attempts have counted.
    assert_eq!(figures(&desk, "sampler_phase"), [1.0, 1.0, 2.0, 2.0]);
}

/// A lake of four by four takes six moves, so that nothing is solved in one turn.
#[test]
fn tasks_that_are_never_solved_rest() {
    let sampler = r#"sampler={ kind = "difficulty", tasks = 6, attempts = 4, min = 0.1, readmit = 0 }"#;
    let desk = started(&[sampler, "stages.rl.steps=3", "stages.rl.turns={ from = 1, by = 0, every = 1 }"]);
    let tasks: BTreeSet<String> = choices(&desk).into_iter().take(6).map(|(_, task, _, _)| task).collect();
    assert_eq!(tasks.len(), 6, "the second step plays the three tasks that do not rest");
    // In the third step all six rest, and return early.
    assert_eq!(figures(&desk, "tasks_resting"), [3.0, 6.0, 6.0]);
}

#[test]
fn weighted_tasks_are_those_with_a_weight() {
    let desk = Desk::of_example("curriculum.toml");
    let lines: String = (0..50).map(|task| format!("{{\"w\": {}}}\n", u8::from(task == 7 || task == 31))).collect();
    fs::write(desk.path("weights.jsonl"), lines).expect("a file");
    let sampler = r#"sampler={ kind = "weighted", file = "weights.jsonl", column = "w" }"#;
    start(&desk, &["stages.rl.steps=3", sampler]);
    let tasks: BTreeSet<String> = choices(&desk).into_iter().map(|(_, task, _, _)| task).collect();
    assert_eq!(tasks, ["train/7", "train/31"].map(str::to_owned).into());
}

/// One message with the object and the fix, before anything is written.
#[test]
fn samplers_that_do_not_fit_are_refused() {
    for (sampler, words) in [
        (r#"{ kind = "difficulty" }"#, "split `train` of environment `frozen-lake` is infinite"),
        (r#"{ kind = "difficult" }"#, "difficult"),
        (r#"{ kind = "difficulty", tasks = 5, min = 0.9, max = 0.1 }"#, "sampler.min is out of range: 0.9"),
        (r#"{ kind = "adaptive", tasks = 5, fewest = 9 }"#, "sampler.fewest is 9, above group_size = 8 of stage `rl`"),
        (r#"{ kind = "weighted", file = "absent.jsonl" }"#, "sampler.file `absent.jsonl` cannot be read"),
        (r#"{ kind = "staged", phases = [{}, {}] }"#, "sampler.phases.0 never ends"),
        (r#"{ kind = "staged", phases = [{ steps = 2 }, { steps = 2 }] }"#, "sampler.phases.1 is the last phase"),
        (r#"{ kind = "staged", phases = [{ split = "trian", steps = 2 }, {}] }"#, "did you mean `train`?"),
        (r#"{ kind = "prioritized", tasks = 5, by = "failure", even = 0 }"#, "`sampler.even` is 0; it must be above 0"),
    ] {
        let desk = Desk::of_example("curriculum.toml");
        let refused = desk.run(PLUGINS, &["--set", &format!("sampler={sampler}")]).mistake(sampler);
        assert!(refused.contains(words), "{sampler}\n{refused}");
        assert!(!desk.path("out").exists(), "{sampler}");
    }
    let desk = Desk::of_example("curriculum.toml");
    let plan = r#"stages.rl.plan={ kind = "guided" }"#;
    let refused = desk.run(PLUGINS, &["--set", plan]).mistake("a plan");
    assert!(refused.contains("its plan excludes sampler.kind = \"mixed-outcome\""), "{refused}");
}
