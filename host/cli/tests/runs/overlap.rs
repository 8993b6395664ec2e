//! Overlap of rollout and training: the staleness of tokens is bounded in every order of events and after every kill.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::common::killed::{assert_each_stored_once, resume, start};
use crate::common::{Desk, WORD_PROBLEMS};
use gymkhana_record::{Phase, Seed};
use serde_json::Value;

/// Six steps of reinforcement learning from random weights. Calls cost points, so that rewards vary.
fn desk(settings: &str) -> Desk {
    Desk::of_groups(&format!("[[stages]]\nkind = \"rl\"\nsteps = 6\ngroups = 3\ngroup_size = 4\n{settings}"))
}

/// A metric of every step.
fn figures(desk: &Desk, name: &str) -> Vec<f64> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let value = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["values"][name].as_f64();
    text.lines().map(|line| value(line).unwrap_or_else(|| panic!("no {name} in {line}"))).collect()
}

/// Checks that every step's groups are stored once and that no token exceeds the bound.
fn assert_whole(desk: &Desk, bound: f64) {
    let lags = figures(desk, "staleness_max");
    assert_eq!(lags.len(), 6);
    assert!(lags.iter().all(|most| *most <= bound), "{lags:?}");
    assert_eq!(figures(desk, "episodes"), [12.0; 6]);
    let trained = desk.episodes().iter().filter(|record| record.id.phase == Phase::Train).count();
    assert_eq!(trained, 72, "three groups of four in each of six steps");
    assert_each_stored_once(&desk.path("out"));
    assert!(desk.host(&["replay", "out"]).succeeded().contains("every byte equal: 72"));
}

#[test]
fn no_token_exceeds_the_staleness_bound() {
    for bound in [0, 1, 3] {
        let desk = desk(&format!("max_staleness = {bound}"));
        desk.run(WORD_PROBLEMS, &[]).succeeded();
        assert_whole(&desk, f64::from(bound));
        let oldest = figures(&desk, "staleness_max").into_iter().fold(0.0, f64::max);
        assert_eq!(oldest > 0.0, bound > 0, "steps overlap where they may, and only there");
    }
}

#[test]
fn a_killed_run_keeps_its_staleness_bound_and_its_episodes() {
    let desk = desk("max_staleness = 2");
    let mut moments = Seed(77).child("kills").stream();
    let mut kills = 0;
    for _ in 0..6 {
        let (changes, pause) = (3 + moments.below(20), Duration::from_micros(moments.below(20_000)));
        kills += u32::from(start(&desk, WORD_PROBLEMS).killed_after(changes, pause, &desk.path("out")));
    }
    assert!(kills >= 2, "only {kills} kills came before the end");
    resume(&desk, WORD_PROBLEMS).succeeded();
    assert_whole(&desk, 2.0);
}

#[test]
fn oversampled_groups_are_cancelled() {
    let desk = desk("oversample_groups = 3\nmax_staleness = 1");
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    assert_eq!(figures(&desk, "episodes"), [12.0; 6], "training uses as many episodes as without oversampling");
    let episodes = desk.episodes();
    // Timing decides which groups finish first, but not how many are selected.
    for step in 0..6 {
        let of_step = || episodes.iter().filter(|record| record.id.step == step);
        let selected: BTreeSet<u32> =
            of_step().filter(|record| record.selected).map(|record| record.id.group).collect();
        assert_eq!(selected.len(), 3, "step {step} selects {selected:?}");
        for group in 0..6 {
            let count = of_step().filter(|record| record.id.group == group).count();
            assert!(count == 4 || (count == 0 && !selected.contains(&group)), "step {step}: group {group} has {count}");
            let kept = of_step().filter(|record| record.id.group == group).all(|record| record.selected);
            assert_eq!(count == 4 && kept, selected.contains(&group), "step {step}: group {group} is mixed");
        }
        assert!(of_step().all(|record| record.id.group < 6), "step {step} has more than the oversampled groups");
    }
}

/// A plan plays more episodes than `group_size`; without capacity for all of them the group would never start.
#[test]
fn a_plan_that_needs_more_instances_than_available_is_rejected() {
    let desk = desk("plan = { kind = \"oversample\", factor = 8 }");
    let refused = desk.run(WORD_PROBLEMS, &["--set", "sandbox.instances=48"]);
    assert!(refused.mistake("too few places").contains("a group of 32 episodes"), "{refused:?}");
    desk.run(WORD_PROBLEMS, &["--set", "sandbox.instances=96", "--set", "stages.rl.steps=1"]).succeeded();
}

#[test]
fn settings_that_depend_on_timing_are_rejected_in_deterministic_runs() {
    for (settings, set, told) in [
        ("max_staleness = 1", "deterministic=true", "max_staleness must be 0 under deterministic = true"),
        ("oversample_groups = 1", "deterministic=true", "oversample_groups must be 0 under deterministic = true"),
        ("oversample_groups = 1\ndynamic_sampling = { max_rounds = 1 }", "seed=1", "hint: remove one of them"),
        ("max_staleness = 65", "seed=1", "its range is 0 to 64"),
    ] {
        let refused = desk(settings).run(WORD_PROBLEMS, &["--set", set]);
        assert!(refused.mistake(settings).contains(told), "{refused:?}");
    }
    desk("max_staleness = 0").run(WORD_PROBLEMS, &["--set", "deterministic=true"]).succeeded();
}
