//! Stages that learn preferences from recorded episodes and from files.

use std::collections::BTreeMap;
use std::fs;

use super::{learn, steps, sum};
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, episodes};
use gymkhana_record::{EpisodeRecord, Phase};
use serde_json::Value;

fn attempts(desk: &Desk) -> Vec<EpisodeRecord> {
    desk.episodes().into_iter().filter(|record| record.id.phase == Phase::Train).collect()
}

/// A run file with one stage of three steps, which plays nothing.
fn stage(kind: &str, groups: usize, recorded: &str) -> String {
    let (head, _) = SMALL_RUN.split_once("[[stages]]").expect("stages");
    let head = head.replace("tasks = 4", "tasks = 0");
    format!(
        "{head}[[stages]]\nkind = \"{kind}\"\nsteps = 3\ngroups = {groups}\noptimizer = {{ learning_rate = 1e-2 }}\n\
         recorded = {{ {recorded} }}\n"
    )
}

fn value(steps: &[Value], step: usize, key: &str) -> f64 {
    steps[step][key].as_f64().unwrap_or_else(|| panic!("{key}: {steps:?}"))
}

/// Pairs of recorded attempts train a preference stage that plays nothing.
#[test]
fn recorded_pairs_train_a_preference_stage() {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let attempts = attempts(&desk);
    let mut rewards: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for record in attempts.iter().filter(|record| record.sampled_tokens() > 0) {
        rewards.entry(record.task.index).or_default().push(record.rewards[0]);
    }
    let differ = |rewards: &&Vec<f64>| rewards.iter().any(|reward| *reward != rewards[0]);
    let pairs = rewards.values().filter(differ).count();
    assert!(pairs > 0, "no task has attempts of different rewards");
    let stage = |more: &str| stage("dpo", pairs, &format!("runs = [\"out\"], where = \"purpose == 'train'\"{more}"));
    learn(&desk, "pairs", &stage("")).succeeded();
    let measured = steps(&desk, "pairs");
    assert_eq!(sum(&measured, "episodes"), 3.0 * 2.0 * pairs as f64);
    let loss = |step: usize| value(&measured, step, "loss");
    // At the reference policy every pair has the loss log 2; training on the same pairs lowers it.
    assert!((loss(0) - std::f64::consts::LN_2).abs() < 1e-4, "{measured:?}");
    assert!(loss(2) < loss(0), "{measured:?}");
    let margin = |step| value(&measured, step, "better_reward") - value(&measured, step, "worse_reward");
    assert!(margin(0).abs() < 1e-3 && margin(2) > 0.0, "{measured:?}");
    assert!(episodes(&desk.path("pairs")).is_empty(), "the policy played");
    // Half of the recorded episodes are the better ones, whatever the policy learns.
    let shown = desk.host(&["show", "pairs"]).succeeded();
    assert!(shown.contains("preference accuracy of dpo: ") && !shown.contains("training success"), "{shown}");
    for (text, words) in [
        (stage(", margin = 1e6"), "give no pair"),
        (stage(", branches = true"), "branches of one episode"),
        (stage("").replace("\"dpo\"", "\"rl\""), "needs a loss over preferences"),
        (stage("").replace("steps = 3", "steps = 3\nmax_staleness = 1"), "max_staleness has no effect with `recorded`"),
        (stage("").replace("[\"out\"]", "[]"), "exactly one of the keys `runs` and `files`"),
        (stage(", skip_bad = 1"), "recorded.skip_bad has no effect with `runs`"),
        (stage(", margin = -1"), "recorded.margin"),
    ] {
        let message = learn(&desk, "wrong", &text).mistake(words);
        assert!(message.contains(words), "{message}");
        assert!(!desk.path("wrong").exists(), "{words}");
    }
}

/// Episodes that met `success` are desirable; the episodes of the small run need another measure of it.
#[test]
fn recorded_episodes_train_an_unpaired_preference_stage() {
    let desk = Desk::with_run_file(&SMALL_RUN.replace("answer-match.correct", "answer-match.calls"));
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let attempts = attempts(&desk);
    let used: Vec<bool> =
        attempts.iter().filter(|record| record.sampled_tokens() > 0).map(|record| record.success).collect();
    assert!(used.contains(&true) && used.contains(&false), "{used:?}");
    let runs = "runs = [\"out\"], where = \"purpose == 'train'\"";
    learn(&desk, "labelled", &stage("kto", used.len(), runs)).succeeded();
    let measured = steps(&desk, "labelled");
    assert_eq!(sum(&measured, "episodes"), 3.0 * used.len() as f64);
    let desirable = used.iter().filter(|success| **success).count() as f64 / used.len() as f64;
    assert!((value(&measured, 0, "success") - desirable).abs() < 1e-9, "{measured:?}");
    // At the reference policy every episode has the value 1/2.
    assert!((value(&measured, 0, "loss") - 0.5).abs() < 1e-4, "{measured:?}");
    assert!(value(&measured, 2, "loss") < value(&measured, 0, "loss"), "{measured:?}");
    let message =
        learn(&desk, "wrong", &stage("kto", 8, &runs.replace("train'", "train' and success"))).mistake("one kind");
    assert!(message.contains("episodes are desirable: there is nothing to prefer"), "{message}");
    let message = learn(&desk, "wrong", &stage("kto", 1, runs)).mistake("a single episode");
    assert!(
        message.contains("minibatches = 1 and this number of episodes: 1\nhint: set groups to 2 or more"),
        "{message}"
    );
    let message = learn(&desk, "wrong", &stage("kto", 8, &format!("{runs}, margin = 1"))).mistake("a margin");
    assert!(message.contains("recorded.margin has no effect"), "{message}");
}

/// Files that Hugging Face's library wrote: pairs of conversations in Parquet, and labels in a data set's folder.
#[test]
fn answers_of_parquet_and_of_a_data_set_train_preference_stages() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let golden = gymkhana_tests::root().join("host/data/tests/golden");
    let files = |file: &str| format!("files = [\"{}\"]", golden.join(file).display());
    learn(&desk, "pairs", &stage("dpo", 4, &files("pairs.parquet"))).succeeded();
    let measured = steps(&desk, "pairs");
    assert_eq!(sum(&measured, "episodes"), 24.0);
    assert!(value(&measured, 2, "loss") < value(&measured, 0, "loss"), "{measured:?}");
    assert_eq!(value(&measured, 2, "preference_accuracy"), 1.0, "{measured:?}");
    learn(&desk, "labels", &stage("kto", 4, &files("labels"))).succeeded();
    let measured = steps(&desk, "labels");
    assert_eq!((sum(&measured, "episodes"), value(&measured, 0, "success")), (12.0, 0.5));
}

/// Rows with two answers, and rows with labels: the first kind trains both stages.
#[test]
fn answers_of_files_train_preference_stages() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let rows: Vec<String> = (0..4)
        .map(|row| format!("{{\"prompt\": \"Say {row}\", \"chosen\": \"yes {row}\", \"rejected\": \"no\"}}"))
        .collect();
    let label = |row| format!("{{\"prompt\": \"Say {row}\", \"completion\": \"yes {row}\", \"label\": {}}}", row < 2);
    let labels: Vec<String> = (0..4).map(label).collect();
    desk.write("pairs.jsonl", rows.join("\n"));
    desk.write("labels.jsonl", labels.join("\n"));
    learn(&desk, "pairs", &stage("dpo", 4, "files = [\"pairs.jsonl\"]")).succeeded();
    let measured = steps(&desk, "pairs");
    assert_eq!(sum(&measured, "episodes"), 24.0);
    assert!((value(&measured, 0, "loss") - std::f64::consts::LN_2).abs() < 1e-4, "{measured:?}");
    assert!(value(&measured, 2, "loss") < value(&measured, 0, "loss"), "{measured:?}");
    assert_eq!(value(&measured, 2, "preference_accuracy"), 1.0, "{measured:?}");
    assert!(measured[0]["entropy"].is_null(), "no entropy was recorded: {measured:?}");
    learn(&desk, "both", &stage("kto", 12, "files = [\"pairs.jsonl\", \"labels.jsonl\"]")).succeeded();
    let measured = steps(&desk, "both");
    assert_eq!((sum(&measured, "episodes"), value(&measured, 0, "success")), (36.0, 0.5));
    assert!(value(&measured, 2, "better_reward") > value(&measured, 2, "worse_reward"), "{measured:?}");

    desk.write("bad.jsonl", format!("{}\n{{\"prompt\": \"?\", \"chosen\": \"x\"}}\n", rows[0]));
    let long = "word ".repeat(2000);
    desk.write("long.jsonl", format!("{{\"prompt\": \"{long}\", \"chosen\": \"a\", \"rejected\": \"b\"}}\n"));
    for (kind, recorded, words) in [
        ("dpo", "files = [\"labels.jsonl\"]", "labels.jsonl, line 1: the row has one answer with a label"),
        ("dpo", "files = [\"bad.jsonl\"]", "bad.jsonl, line 2: there is `chosen` without `rejected`"),
        ("dpo", "files = [\"none.jsonl\"]", "none.jsonl"),
        ("dpo", "files = [\"long.jsonl\"]", "all 1 preferences exceed the context"),
        ("dpo", "files = [\"pairs.jsonl\"], margin = 1", "recorded.margin has no effect with `files`"),
        ("dpo", "files = [\"pairs.jsonl\"], where = \"success\"", "recorded.where has no effect with `files`"),
        ("dpo", "files = [\"pairs.jsonl\"], runs = [\"out\"]", "exactly one of the keys `runs` and `files`"),
        ("rl", "files = [\"pairs.jsonl\"]", "set kind = \"dpo\" or \"kto\""),
    ] {
        let message = learn(&desk, "wrong", &stage(kind, 4, recorded)).mistake(words);
        assert!(message.contains(words), "{message}");
        assert!(!desk.path("wrong").exists(), "{words}");
    }
    let pairs = stage("dpo", 4, "files = [\"pairs.jsonl\"]");
    for (change, words) in [
        ("settings = { off_policy = { cap = 2.0, level = \"token\" } }", "settings.off_policy needs the probabilities"),
        ("settings = { covariance_clip = { low = 1.0, high = 2.0, share = 0.5 } }", "covariance_clip"),
        ("top_p = 0.5", "a cut by top_k, top_p or min_p has no effect with `recorded`"),
    ] {
        let message =
            learn(&desk, "wrong", &pairs.replace("steps = 3", &format!("steps = 3\n{change}"))).mistake(words);
        assert!(message.contains(words), "{message}");
    }
    let of_seats = format!("{pairs}[seats.agent]\npolicy = \"separate\"\n");
    let message = learn(&desk, "wrong", &of_seats).mistake("seats");
    assert!(message.contains("recorded.files has answers of one seat, but [seats] tells seats apart"), "{message}");
    let skipping = stage("dpo", 1, "files = [\"bad.jsonl\", \"long.jsonl\"], skip_bad = 1");
    let outcome = learn(&desk, "skipping", &skipping);
    assert!(
        outcome.talk.contains("skipped") && outcome.talk.contains("1 of 2 preferences are left out"),
        "{}",
        outcome.talk
    );
    outcome.succeeded();
    // The desk's file is short; the project's example has 40 rows.
    let root = gymkhana_tests::root().join("examples");
    let example = fs::read_to_string(root.join("runs/preferences.toml")).expect("an example");
    let desk = Desk::with_run_file(&example.replace("../data/", ""));
    for file in ["own-questions.jsonl", "preferences.jsonl"] {
        desk.write(file, fs::read_to_string(root.join("data").join(file)).expect("rows"));
    }
    let smaller = [
        "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 256 }",
        "evaluation.tasks=2",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.dpo.steps=2",
        "stages.dpo.groups=40",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run("plugins/dataset.wasm,plugins/answer-match.wasm", &sets).succeeded();
    assert_eq!(sum(&steps(&desk, "out")[2..], "episodes"), 160.0);
}
