//! `host run --dry-run`: the plan of a run, which writes nothing.

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let plan = desk.run(WORD_PROBLEMS, &["--dry-run"]).succeeded();
    // Parameters by hand: embeddings 259 x 16 or more, and one layer; AdamW keeps two numbers per weight.
    for words in [
        "model: tiny, ",
        "stages: sft (2 steps, learning rate 1e-3), rl (2 steps, learning rate 1e-2)\n",
        "sft: 2 steps x 4 demonstrations = 8 episodes\n",
        "rl: 2 steps x 4 groups x 4 episodes = 32 episodes\n",
        "memory of the trainer, without activations: weights ",
        "first prompt, task train/0, ",
        "group_size = 4\n",
        "max_staleness = 0\n",
    ] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    assert!(!desk.path("out").exists());
    // The prompt is what the first episode of that task begins with.
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let shown = desk.host(&["show", "out", "--episode", "0.demo.0.0.0.0", "--prompt"]).succeeded();
    let question = plan.split("tokens:\n").nth(1).and_then(|text| text.split("\n\nrun file").next()).expect("a prompt");
    let spoken = question.lines().max_by_key(|line| line.len()).expect("a line");
    assert!(shown.contains(spoken), "{spoken}: {shown}");
}

#[test]
fn mistakes_are_found_and_defaults_of_pretrained_weights_are_shown() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let wrong = desk.run(WORD_PROBLEMS, &["--dry-run", "--set", "success=\"answer-match.right\""]);
    assert!(wrong.mistake("an unknown component").contains("answer-match"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let without = SMALL_RUN.lines().filter(|line| !line.starts_with("tiny")).collect::<Vec<_>>().join("\n");
    desk.write("run.toml", without);
    let checkpoint = "policy.checkpoint=\"out/checkpoints/1-000002\"";
    let next = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", "next", "--dry-run", "--set", checkpoint];
    let plan = desk.host(&next).succeeded();
    assert!(plan.contains("stages: sft (2 steps, learning rate 1e-5), rl (2 steps, learning rate 1e-2)\n"), "{plan}");
    assert!(plan.contains("other_tokens = 0.0\n") && plan.contains("warmup_steps = 10\n"), "{plan}");
    assert!(!desk.path("next").exists());
    let both = desk.host(&[&next[..], &["--overwrite"]].concat()).mistake("two ways");
    assert!(both.contains("--overwrite"), "{both}");
}
