//! Evaluation between training steps: its records and figures, the checkpoints that stay, and stages that stop early.

use std::fs;
use std::time::Duration;

use gymkhana_record::{EpisodeRecord, Phase};
use serde_json::{Value, json};

use crate::common::killed::{assert_each_stored_once, resume, start};
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, json as read};

/// The small run with these lines in `[evaluation]`, this number of steps in its second stage, and more lines.
fn small_run(evaluation: &str, steps: u32, more: &str) -> String {
    let run = SMALL_RUN.replace("tasks = 4\n", &format!("tasks = 4\n{evaluation}\n"));
    run.replace("steps = 2\ngroups", &format!("steps = {steps}\ncheckpoint_every = 1\ngroups")) + more
}

/// Steps and success of the evaluations in the summary of a stage.
fn evaluations(desk: &Desk, stage: usize) -> Vec<(u64, f64)> {
    let summary = read(&desk.path("out/summary.json"));
    let list = summary["stages"][stage]["evaluations"].as_array().cloned().unwrap_or_default();
    let number = |one: &Value| one["step"].as_u64().zip(one["success"].as_f64()).expect("step and success");
    list.iter().map(number).collect()
}

/// Share of solved tasks in the episodes of a phase before a step of the second stage.
fn solved(records: &[EpisodeRecord], phase: Phase, step: u64) -> f64 {
    let played: Vec<&EpisodeRecord> = records
        .iter()
        .filter(|record| (record.id.stage, record.id.phase, record.id.step) == (1, phase, step))
        .collect();
    let tasks: Vec<String> = played.iter().map(|record| record.task.to_string()).collect();
    assert_eq!(tasks, ["test/0", "test/1", "test/2", "test/3"], "{phase:?} before step {step}");
    played.iter().filter(|record| record.success).count() as f64 / 4.0
}

/// Names of the second stage's checkpoints.
fn checkpoints(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(desk.path("out/checkpoints")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("1-")).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_run_is_evaluated_between_steps_and_keeps_the_newest_and_the_best_weights() {
    let desk = Desk::with_run_file(&small_run("every = 2", 6, "[checkpoints]\nlast = 2\n"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let records = desk.episodes();
    // Six steps: the evaluation after the sixth is that after the stage.
    let expected: Vec<(u64, f64)> = [2, 4].map(|step| (step, solved(&records, Phase::During, step))).to_vec();
    assert_eq!(evaluations(&desk, 1), expected);
    assert_eq!(evaluations(&desk, 0), [], "the first stage has two steps");
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in lines.iter().filter(|line| line["stage"] == 1) {
        let step = line["step"].as_u64().expect("a step");
        let measured = expected.iter().find(|(at, _)| *at == step).map(|(_, success)| *success);
        assert_eq!(line["values"].get("eval_success").and_then(Value::as_f64), measured, "step {step}");
        let sampled = measured.map(|_| solved(&records, Phase::DuringSampled, step));
        assert_eq!(line["values"].get("eval_success_sampled").and_then(Value::as_f64), sampled, "step {step}");
    }
    let best = if expected[1].1 > expected[0].1 { 4 } else { 2 };
    assert_eq!(checkpoints(&desk), [format!("1-{best:06}"), "1-000005".to_owned(), "1-000006".to_owned()]);
    assert!(desk.host(&["replay", "out"]).succeeded().contains(&format!("every byte equal: {}", records.len())));
}

/// Mean reward of the greedy episodes before a step of the second stage.
fn reward(records: &[EpisodeRecord], step: u64) -> f64 {
    let played =
        records.iter().filter(|record| (record.id.stage, record.id.phase, record.id.step) == (1, Phase::During, step));
    played.map(|record| record.rewards[0]).sum::<f64>() / 4.0
}

#[test]
fn the_best_weights_may_be_those_with_the_highest_reward() {
    let run = small_run("every = 1\nmetric = \"eval_reward\"", 6, "");
    let desk = Desk::with_run_file(&run);
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let records = desk.episodes();
    let expected: Vec<f64> = (1..6).map(|step| reward(&records, step)).collect();
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found: Vec<f64> =
        lines.filter(|line| line["stage"] == 1).filter_map(|line| line["values"]["eval_reward"].as_f64()).collect();
    assert_eq!(found, expected);
    let best =
        (1..6_usize).rev().max_by(|one, other| expected[one - 1].total_cmp(&expected[other - 1])).expect("a step");
    assert_eq!(checkpoints(&desk).first(), Some(&format!("1-{best:06}")), "{expected:?}");
}

#[test]
fn a_stage_stops_early_and_more_steps_continue_it() {
    // Three turns of 32 random bytes solve no word problem.
    let desk = Desk::with_run_file(&small_run("every = 2\npatience = 2", 40, ""));
    let outcome = desk.run(WORD_PROBLEMS, &[]);
    let words = "the stage stops early, after 6 steps: eval_success on held-out tasks was highest after 2, and \
                 evaluation.patience is 2";
    assert!(outcome.talk.contains(words), "{}", outcome.talk);
    outcome.succeeded();
    assert_eq!(evaluations(&desk, 1), [(2, 0.0), (4, 0.0), (6, 0.0)]);
    let stage = &read(&desk.path("out/summary.json"))["stages"][1];
    assert_eq!((&stage["stopped_after"], &stage["episodes"]), (&json!(6), &json!(96)));
    assert_eq!(checkpoints(&desk), ["1-000002", "1-000006"]);
    let after = desk.episodes().iter().filter(|record| record.id.stage == 1 && record.id.phase == Phase::After).count();
    assert_eq!(after, 4);
    // A finished run stays as it is, and more steps continue it until the next evaluation.
    desk.host(&["run", "--resume", "out"]).succeeded();
    desk.host(&["run", "--resume", "out", "--set", "stages.rl.steps=50"]).succeeded();
    assert_eq!(evaluations(&desk, 1), [(2, 0.0), (4, 0.0), (6, 0.0), (8, 0.0)]);
    assert_eq!(read(&desk.path("out/summary.json"))["stages"][1]["stopped_after"], 8);
    assert_each_stored_once(&desk.path("out"));
    assert!(desk.host(&["replay", "out"]).succeeded().contains("replayed, every byte equal"));
}

/// Kills the run after every few changes of its folder, so that evaluations are interrupted as well.
#[test]
fn a_killed_run_measures_the_same() {
    let text = small_run("every = 1\npatience = 3", 6, "[checkpoints]\nlast = 2\n")
        .replace("seed = 1", "seed = 1\ndeterministic = true");
    let whole = Desk::with_run_file(&text);
    whole.run(WORD_PROBLEMS, &[]).succeeded();
    let desk = Desk::with_run_file(&text);
    let mut kills = 0;
    while kills < 8 && start(&desk, WORD_PROBLEMS).killed_after(6, Duration::from_millis(20), &desk.path("out")) {
        kills += 1;
    }
    assert!(kills > 2, "the run was killed {kills} times");
    resume(&desk, WORD_PROBLEMS).succeeded();
    assert_each_stored_once(&desk.path("out"));
    assert_eq!(evaluations(&desk, 1), evaluations(&whole, 1));
    assert_eq!(checkpoints(&desk), checkpoints(&whole));
    let ids = |desk: &Desk| desk.episodes().iter().map(|record| record.id).collect::<Vec<_>>();
    assert_eq!(ids(&desk), ids(&whole));
}

#[test]
fn keys_without_an_effect_are_refused() {
    let desk = Desk::with_run_file(&small_run("patience = 2", 2, ""));
    let message = desk.run(WORD_PROBLEMS, &[]).mistake("patience alone");
    assert!(message.contains("evaluation.patience has no effect without evaluation.every\nhint: set"), "{message}");
    let message = desk.run(WORD_PROBLEMS, &["--set", "evaluation.every=1", "--set", "evaluation.tasks=0"]);
    let message = message.mistake("no tasks");
    for (metric, words) in [
        ("eval_succes", "`eval_succes` is not a figure of an evaluation\nhint: use `eval_success`, "),
        (
            "lake/eval_success",
            "evaluation.metric is `lake/eval_success`, but no environment `lake` is evaluated\nhint: leave",
        ),
    ] {
        let metric = format!("evaluation.metric={metric}");
        let refused = desk.run(WORD_PROBLEMS, &["--set", "evaluation.every=1", "--set", &metric]).mistake(&metric);
        assert!(refused.contains(words), "{refused}");
    }
    assert!(message.contains("evaluation.every has no effect without evaluation.tasks\nhint: set"), "{message}");
}
