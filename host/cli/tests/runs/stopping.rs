//! Runs that signals stop: after a step, in an evaluation, and at once.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, files_below, json, run_arguments};

/// Number of metrics lines of a stage.
fn steps(desk: &Desk, stage: u64) -> usize {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).unwrap_or_default();
    let of_stage = format!("\"stage\":{stage},");
    text.lines().filter(|line| line.contains(&of_stage)).count()
}

/// Whether an episode is in the journal.
fn has_journalled(out: &Path) -> bool {
    let journalled = |(name, bytes): &(String, u64)| name.starts_with("journal-") && *bytes > 100;
    files_below(&out.join("episodes")).iter().any(journalled)
}

/// The step in `stopped at step STEP of STEPS`.
fn stopped_at(talk: &str, steps: u64) -> u64 {
    let behind = talk.split("stopped at step ").nth(1).unwrap_or_else(|| panic!("{talk}"));
    let (step, rest) = behind.split_once(' ').expect("a step");
    assert!(rest.starts_with(&format!("of {steps}; continue with `host run --resume out`")), "{talk}");
    step.parse().expect("a number")
}

#[test]
fn the_first_signal_finishes_the_step_and_the_folder_alone_continues_the_run() {
    for (signal, code, more, all) in
        [("INT", 130, &[][..], 24), ("TERM", 143, &["--set", "stages.rl.steps=25"][..], 25)]
    {
        let desk = Desk::with_run_file(SMALL_RUN);
        let sets = ["evaluation.tasks=0", "stages.rl.steps=24", "stages.rl.checkpoint_every=100"];
        let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
        let mut run = Signalled::start(&desk, &run_arguments(WORD_PROBLEMS, &sets));
        run.wait_until(|| steps(&desk, 1) >= 2);
        run.send(signal);
        let outcome = run.end();
        assert_eq!((outcome.code, outcome.results.lines().count()), (Some(code), 1), "{outcome:?}");
        assert!(outcome.results.starts_with("stage sft: success not measured, 8 episodes, "), "{outcome:?}");
        assert!(outcome.talk.contains("a second signal ends the run at once"), "{}", outcome.talk);
        let step = stopped_at(&outcome.talk, 24);
        assert!((2..24).contains(&step), "{step}");
        assert_eq!(steps(&desk, 1) as u64, step, "the steps before it are recorded, and none behind it");
        let checkpoint = format!("1-{step:06}");
        assert_eq!(json(&desk.path("out/state.json"))["checkpoint"]["name"], *checkpoint);
        assert!(desk.path(&format!("out/checkpoints/{checkpoint}/model.safetensors")).is_file());
        // Neither the run file nor the plugins are needed.
        fs::remove_file(desk.path("run.toml")).expect("a file can be removed");
        fs::remove_file(desk.path("plugins")).expect("a link can be removed");
        desk.host(&[&["run", "--resume", "out"], more].concat()).succeeded();
        assert_eq!(steps(&desk, 1), all);
        assert_each_stored_once(&desk.path("out"));
        let count = desk.episodes().len();
        assert_eq!(count, 2 * 4 + all * 16);
        let replayed = desk.host(&["replay", "out"]).succeeded();
        assert_eq!(replayed, format!("{count} episodes replayed, every byte equal: {count}\n"));
    }
}

/// A run that is stopped in its first evaluation has made no step: it can be replaced, and files of others stay.
#[test]
fn a_run_stopped_in_its_first_evaluation_can_be_replaced() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let mut run = Signalled::start(&desk, &run_arguments(WORD_PROBLEMS, &["--set", "evaluation.tasks=20000"]));
    run.wait_until(|| has_journalled(&desk.path("out")));
    run.send("INT");
    let outcome = run.end();
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert_eq!(stopped_at(&outcome.talk, 2), 0);
    assert!(!desk.episodes().is_empty(), "finished episodes are stored");
    let taken = desk.run(WORD_PROBLEMS, &[]).mistake("a taken folder");
    assert!(taken.contains("error: `out` holds a run, started ") && taken.contains(" ago\n"), "{taken}");
    assert!(taken.contains("`host run --resume out`"), "{taken}");
    assert!(taken.contains("it has made no step: --overwrite replaces it"), "{taken}");
    desk.write("out/notes.txt", "mine");
    desk.run(WORD_PROBLEMS, &["--overwrite"]).succeeded();
    assert_eq!(fs::read(desk.path("out/notes.txt")).expect("the file is still there"), b"mine");
    // The three evaluations of four tasks, greedy and sampled, 8 demonstrations and 32 episodes of training.
    assert_eq!(desk.episodes().len(), 3 * 2 * 4 + 8 + 32);
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains("every byte equal: 64"), "{replayed}");
    // Now it has made steps.
    let kept = desk.run(WORD_PROBLEMS, &["--overwrite"]).mistake("a run with steps");
    assert!(kept.contains("has made training steps, so --overwrite does not replace it"), "{kept}");
    assert_eq!(desk.episodes().len(), 64);
}

/// A step of 8000 episodes takes much longer than the test waits.
#[test]
fn the_second_signal_ends_the_run_at_once() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let sets: Vec<&str> =
        ["evaluation.tasks=0", "stages.rl.groups=2000"].into_iter().flat_map(|set| ["--set", set]).collect();
    let mut run = Signalled::start(&desk, &run_arguments(WORD_PROBLEMS, &sets));
    let is_second_stage =
        || fs::read_to_string(desk.path("out/state.json")).is_ok_and(|state| state.contains("\"1-000000\""));
    // The state is written after earlier episodes have left the journal.
    run.wait_until(|| is_second_stage() && has_journalled(&desk.path("out")));
    run.send("INT");
    std::thread::sleep(Duration::from_secs(1));
    assert!(run.is_running(), "the first signal waits for the step");
    run.send("INT");
    let outcome = run.end();
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert!(!outcome.talk.contains("stopped at step"), "{}", outcome.talk);
    assert_eq!(steps(&desk, 1), 0);
    assert_eq!(json(&desk.path("out/state.json"))["checkpoint"]["name"], "1-000000");
}

#[test]
fn only_folders_of_runs_are_replaced() {
    let desk = Desk::with_run_file(SMALL_RUN);
    fs::create_dir(desk.path("out")).expect("a folder can be made");
    desk.write("out/thesis.txt", "ten years of work");
    let refused = desk.run(WORD_PROBLEMS, &["--overwrite"]).mistake("no run");
    assert!(refused.contains("`out` is not empty and does not hold a run"), "{refused}");
    assert_eq!(files_below(&desk.path("out")), [("thesis.txt".to_owned(), 17)]);
    let both = desk.run(WORD_PROBLEMS, &["--overwrite", "--resume"]).mistake("two wishes");
    assert!(both.contains("cannot be used with"), "{both}");
}
