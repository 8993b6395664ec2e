//! Resumed runs: what comes from the folder, what may change, and what is refused.

use std::fs;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, json};
use gymkhana_record::Phase;
use gymkhana_registry::Digest;

fn finished() -> Desk {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    desk
}

/// The message of a refused `host run --resume out` with one key set.
fn refused(desk: &Desk, set: &str) -> String {
    desk.host(&["run", "--resume", "out", "--set", set]).mistake(set)
}

#[test]
fn a_finished_run_says_so() {
    let desk = finished();
    let again = desk.host(&["run", "--resume", "out"]);
    assert!(again.talk.contains("the run in `out` is finished"), "{}", again.talk);
    assert!(again.talk.contains("`host run --resume out --set stages.rl.steps=4`"), "{}", again.talk);
    assert!(again.succeeded().contains("64 episodes in out"));
    // The older form, and the folder twice.
    desk.run(WORD_PROBLEMS, &["--resume"]).succeeded();
    desk.host(&["run", "--out", "out", "--resume", "out"]).succeeded();
}

#[test]
fn a_resume_without_one_folder_is_refused() {
    let desk = finished();
    let none = desk.host(&["run", "--resume"]).mistake("no folder");
    assert!(none.contains("--resume names no folder") && none.contains("host run --resume DIR"), "{none}");
    let two = desk.host(&["run", "--resume", "run.toml", "--out", "out"]).mistake("two folders");
    assert!(two.contains("--resume names `run.toml` and --out names `out`"), "{two}");
    let absent = desk.host(&["run", "--resume", "nowhere"]).mistake("no run");
    assert!(absent.contains("`nowhere` does not hold a run"), "{absent}");
}

#[test]
fn a_plugin_that_the_folder_lost_is_given_again() {
    let desk = finished();
    let digest = Digest::of(&fs::read(desk.path("plugins/calculator.wasm")).expect("a plugin"));
    let kept = desk.path(&format!("out/plugins/{digest}.wasm"));
    fs::remove_file(&kept).expect("a file can be removed");
    let refused = desk.host(&["run", "--resume", "out"]).mistake("a lost plugin");
    assert!(refused.contains(&digest.to_string()) && refused.contains("pass the run's plugins with --plugins"));
    // Another plugin in its place is refused.
    fs::copy(desk.path("plugins/answer-match.wasm"), &kept).expect("a file can be copied");
    let altered = desk.host(&["run", "--resume", "out"]).mistake("another plugin");
    assert!(altered.contains("instead of the one in its name"), "{altered}");
    fs::remove_file(&kept).expect("a file can be removed");
    desk.host(&["run", "--resume", "out", "--plugins", WORD_PROBLEMS]).succeeded();
    desk.host(&["run", "--resume", "out"]).succeeded();
}

#[test]
fn a_finished_run_takes_more_steps() {
    let desk = finished();
    let before = desk.episodes();
    desk.host(&["run", "--resume", "out", "--set", "stages.rl.steps=4"]).succeeded();
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    assert_eq!(metrics.lines().filter(|line| line.contains("\"stage\":1,")).count(), 4);
    let records = desk.episodes();
    assert_eq!(records.len(), before.len() + 2 * 16, "two steps of 16 episodes; the last evaluation is repeated");
    let kept = |record: &&gymkhana_record::EpisodeRecord| {
        !matches!(record.id.phase, Phase::After | Phase::AfterSampled) || record.id.stage == 0
    };
    for record in before.iter().filter(kept) {
        assert!(records.contains(record), "episode {} changed", record.id);
    }
    let summary = json(&desk.path("out/summary.json"));
    assert_eq!(summary["stages"][1]["episodes"], 64, "four steps of 16 episodes");
    assert_eq!(summary["stages"][1]["success_before"], summary["stages"][0]["success_after"]);
    assert_eq!(json(&desk.path("out/state.json"))["checkpoint"]["name"], "1-000004");
    assert!(desk.host(&["replay", "out"]).succeeded().contains("every byte equal: 96"));
    // The folder's run file has the new number: the next resume needs no --set, and the old number is refused.
    desk.host(&["run", "--resume", "out"]).succeeded();
    let fewer = desk.run(WORD_PROBLEMS, &["--resume"]).mistake("the old run file");
    assert!(fewer.contains("stages.rl.steps is 4 there and 2 here, but steps can only grow"), "{fewer}");
}

#[test]
fn other_differences_are_refused_with_both_values_and_the_way_round() {
    let desk = finished();
    for (set, words) in [
        ("seed=2", "other --set values: seed is 1 there and 2 here\n"),
        ("stages.rl.steps=1", "stages.rl.steps is 2 there and 1 here, but steps can only grow\n"),
        ("stages.sft.steps=6", "stages.sft.steps is 2 there and 6 here, but a later stage has begun\n"),
        ("stages.rl.groups=8", "stages.rl.groups is 4 there and 8 here\n"),
    ] {
        let message = refused(&desk, set);
        assert!(message.contains(words), "{message}");
    }
    let message = refused(&desk, "seed=2");
    assert!(message.contains("with `--set policy.checkpoint=out/checkpoints/1-000002`"), "{message}");
    // As the message says. The checkpoint replaces `policy.tiny` of the run file.
    let next = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", "next", "--set", "seed=2"];
    let checkpoint = ["--set", "policy.checkpoint=\"out/checkpoints/1-000002\""];
    desk.host(&[&next[..], &checkpoint].concat()).succeeded();
    let resolved = fs::read_to_string(desk.path("next/run.toml")).expect("the resolved run file");
    assert!(!resolved.contains("tiny"), "{resolved}");
}
