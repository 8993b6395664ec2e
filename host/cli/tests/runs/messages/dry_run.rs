//! `host run --dry-run`: the plan of a run, which writes nothing.

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let plan = desk.run(WORD_PROBLEMS, &["--dry-run"]).succeeded();
    // By hand (`footprint.rs` has the terms): 6,608 weights of 4 bytes, as many gradients and twice the moments, 1,568 of
    // the weights joined, and 8 slots of 352 rows of 16 numbers. Both learning rates are constant.
    for words in [
        "model: tiny, ",
        "stages: sft (2 steps, learning rate 1e-3), rl (2 steps, learning rate 1e-2)\n",
        "sft: 2 steps x 4 demonstrations = 8 episodes; learning rate 1.00e-3 in optimiser step 2, the last\n",
        "rl: 2 steps x 4 groups x 4 episodes = 32 episodes; learning rate 1.00e-2 in optimiser step 2, the last\n",
        // Three evaluations of four tasks, greedy and sampled; 32 + 24 episodes of three turns of 32 tokens.
        "budget: 40 episodes of training, at most 24 of evaluations, at most 5376 sampled tokens\n",
        "memory of the models, without activations: weights 0.0 MB + gradients 0.0 MB + moments of AdamW 0.1 MB + copies \
         for generation 0.0 MB + keys and values 0.2 MB = 0.3 MB\n",
        "first prompt, task train/0, ",
        "group_size = 4\n",
        "max_staleness = 0\n",
    ] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    assert!(!desk.path("out").exists());
    let nowhere = desk.host(&["run", "run.toml", "--plugins", WORD_PROBLEMS, "--dry-run"]).succeeded();
    assert!(nowhere.contains("first prompt, task train/0, "), "{nowhere}");
    // The prompt is what the first episode of that task begins with.
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let shown = desk.host(&["show", "out", "--episode", "0.demo.0.0.0.0", "--prompt"]).succeeded();
    let question =
        plan.split("tokens:\n").nth(1).and_then(|text| text.split("\n\na whole episode").next()).expect("a prompt");
    let spoken = question.lines().max_by_key(|line| line.len()).expect("a line");
    assert!(shown.contains(spoken), "{spoken}: {shown}");
}

/// A rate that falls over far more steps than the stage has hardly falls: the last one shows it.
#[test]
fn a_dry_run_prints_the_last_learning_rate() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let falls =
        |total: u32| format!("stages.sft.optimizer={{schedule=\"linear\", total_steps={total}, learning_rate=1e-3}}");
    for (total, last) in [(2, "5.00e-4"), (1000, "9.99e-4")] {
        let plan = desk.run(WORD_PROBLEMS, &["--dry-run", "--set", &falls(total)]).succeeded();
        assert!(plan.contains(&format!("learning rate {last} in optimiser step 2, the last\n")), "{plan}");
    }
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
