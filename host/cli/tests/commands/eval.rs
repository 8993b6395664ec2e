//! `host eval`: statistics match the model's behaviour, given only its folder or its name.
//!
//! The model was trained to say `yes`, which solves the task, or `no`, each with a probability of about one half. After
//! `no` the prompt is outside its training data.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::common::hub::{FakeHub, MODEL};
use crate::common::taught::teach;
use crate::common::{Desk, SMALL_GAME, TIC_TAC_TOE, finish};
use serde_json::Value;

const PLUGINS: &str = "plugins/guest-hostile-environment.wasm";

fn taught() -> &'static Path {
    static TAUGHT: OnceLock<PathBuf> = OnceLock::new();
    TAUGHT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("half");
        // Checkpoints are never overwritten; this one is from an earlier run of the tests.
        let _none = std::fs::remove_dir_all(&folder);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(teach(&["yes", "no"], &folder));
        folder
    })
}

/// A desk whose run file names other weights, which are unused.
fn desk() -> Desk {
    Desk::with_run_file(
        r#"
        success = "environment.success"
        deterministic = true
        policy = { tiny = {}, max_concurrent_sequences = 16 }
        environment.options = { behaviour = "honest" }
        limits = { turns = 3, reply_tokens = 16 }
        evaluation = { tasks = 6, sampled = true }
        stages = [{ kind = "rl", steps = 1, groups = 2, group_size = 4 }]
        "#,
    )
}

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let model = taught().to_str().expect("a plain path");
    [&["eval", model, "run.toml", "--plugins", PLUGINS], more].concat()
}

fn number(figures: &Value, key: &str) -> f64 {
    figures[key].as_f64().unwrap_or_else(|| panic!("{key} in {figures}"))
}

/// A reply of one token has no stop token.
#[test]
fn cut_replies_are_counted() {
    let desk = desk();
    let narrow = ["--set", "limits.reply_tokens=1"];
    let table = desk.host(&arguments(&narrow)).succeeded();
    assert!(table.contains("       cut replies  100.0 %; raise limits.reply_tokens\n"), "{table}");
    let json = desk.host(&arguments(&[&narrow[..], &["--json"]].concat())).succeeded();
    assert_eq!(number(&serde_json::from_str(&json).expect("JSON"), "cut_replies"), 1.0);
}

#[test]
fn figures_say_what_the_model_does() {
    let desk = desk();
    let json = desk.host(&arguments(&["--samples", "8", "--json"])).succeeded();
    let figures: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((number(&figures, "tasks"), number(&figures, "episodes")), (6.0, 48.0));
    // 48 attempts with a probability of about one half: mean 24, standard deviation 3.5.
    let success = number(&figures, "success");
    assert!((0.15..0.85).contains(&success), "{success}");
    let at = |pass: &str, k: &str| figures[pass][k].as_f64().unwrap_or_else(|| panic!("{pass}@{k} in {figures}"));
    for pass in ["pass_at", "pass_hat"] {
        assert_eq!(figures[pass].as_object().expect("a table").keys().collect::<Vec<_>>(), ["1", "2", "4", "8"]);
        assert!((at(pass, "1") - success).abs() < 1e-12);
    }
    assert!(at("pass_at", "8") >= at("pass_at", "2") && at("pass_at", "2") > success);
    assert!(at("pass_hat", "8") <= at("pass_hat", "2") && at("pass_hat", "2") < success);
    let by_turn = figures["by_turn"].as_array().expect("a list");
    let (first, last) = (&by_turn[0], &by_turn[by_turn.len() - 1]);
    assert_eq!((number(first, "turns"), number(last, "turns")), (1.0, 3.0));
    assert_eq!(number(first, "ended"), number(first, "solved"), "what ends after one turn is solved");
    assert!(number(first, "solved_so_far") > 0.15 && number(last, "solved") < number(last, "ended"));
    assert!((number(last, "solved_so_far") - success).abs() < 1e-12);
    assert_eq!((number(&figures, "calls_per_success"), number(&figures, "calls_per_episode")), (0.0, 0.0));
    // The same figures as a table, and again: the run is deterministic.
    let table = desk.host(&arguments(&["--samples", "8"])).succeeded();
    for words in [format!("success  {success:.3}"), format!("pass^8  {:.3}", at("pass_hat", "8")), "turns".to_owned()] {
        assert!(table.contains(&words), "{table}");
    }
    assert_eq!(desk.host(&arguments(&["--samples", "8", "--json"])).succeeded(), json);
}

/// A model that always writes a call that cannot be read.
#[test]
fn malformed_calls_are_counted_apart_from_calls() {
    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join("malformed");
    // Checkpoints are never overwritten; this one is from an earlier run of the tests.
    let _none = std::fs::remove_dir_all(&model);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(teach(&["<tool_call>\n{broken\n</tool_call>"], &model));
    let model = model.to_str().expect("a plain path");
    let arguments = ["eval", model, "run.toml", "--plugins", PLUGINS, "--set", "limits.turns=1"];
    let desk = desk();
    let figures = desk.host(&[&arguments[..], &["--json"]].concat()).succeeded();
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    assert_eq!(number(&figures, "calls_per_episode"), 0.0);
    assert_eq!(number(&figures, "malformed_calls_per_episode"), 1.0);
    let table = desk.host(&arguments).succeeded();
    assert!(table.contains("calls per episode  0.00\n   malformed calls  1.00 per episode\n"), "{table}");
    // A run samples at temperature 1, so that not every reply is the one that was taught.
    let run = format!(
        r#"
        success = "environment.success"
        policy = {{ checkpoint = "{model}", max_concurrent_sequences = 8 }}
        environment.options = {{ behaviour = "honest" }}
        limits = {{ turns = 1, reply_tokens = 16 }}
        evaluation.tasks = 0
        stages = [{{ kind = "rl", steps = 1, groups = 2, group_size = 4 }}]
        "#
    );
    desk.write("run.toml", run);
    desk.run(PLUGINS, &[]).succeeded();
    let metrics = std::fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let line: Value = serde_json::from_str(metrics.trim_end()).expect("one line of JSON");
    assert_eq!(number(&line["values"], "calls"), 0.0);
    assert!(number(&line["values"], "malformed_calls") >= 0.5, "{line}");
}

/// With greedy decoding, a run's evaluation and `host eval` play the same episodes.
#[test]
fn a_runs_own_evaluation_is_the_same() {
    let desk = desk();
    let checkpoint = format!("policy={{ checkpoint = \"{}\", max_concurrent_sequences = 16 }}", taught().display());
    let run = ["run", "run.toml", "--plugins", PLUGINS, "--out", "out", "--set", &checkpoint];
    desk.host(&run).succeeded();
    let summary = crate::common::json(&desk.path("out/summary.json"));
    let greedy = |arguments: &[&str]| -> Value {
        let arguments = [arguments, &["--temperature", "0", "--json"]].concat();
        serde_json::from_str(&desk.host(&arguments).succeeded()).expect("JSON")
    };
    assert_eq!(greedy(&arguments(&[]))["success"], summary["stages"][0]["success_before"]);
    // A checkpoint and its run's folder suffice.
    let trained = greedy(&["eval", "out/checkpoints/0-000001", "out"]);
    assert_eq!(trained["success"], summary["success"]);
    assert_eq!(trained["episodes"], 6);
}

#[test]
fn a_hubs_model_needs_no_run_file() {
    let desk = desk();
    let hub = FakeHub::start();
    hub.push("main", &"1".repeat(40), taught());
    let set = ["--set", "success=environment.success", "--set", "environment.options.behaviour=honest"];
    let plain = [&["--plugins", PLUGINS, "--tasks", "4", "--samples", "2", "--json"], &set[..]].concat();
    let figures = |model: &str| -> Value {
        let mut command = desk.command(&[&["eval", model], &plain[..]].concat());
        let results = finish(hub.used_by(&mut command, &desk.path("cache"))).succeeded();
        serde_json::from_str(&results).expect("JSON")
    };
    let found = figures(MODEL);
    assert_eq!((number(&found, "tasks"), number(&found, "episodes")), (4.0, 8.0));
    assert_eq!(found["model"]["commit"], "1".repeat(40));
}

/// Separate seats use their parts of the checkpoint; the figures are those of the policy's seats.
#[test]
fn a_games_checkpoint_has_a_part_for_each_seat() {
    let desk = Desk::with_run_file(&format!("{SMALL_GAME}\n[seats.o]\npolicy = \"separate\"\n"));
    let short = ["--set", "stages.sft.steps=2", "--set", "stages.rl.steps=1"];
    desk.run(TIC_TAC_TOE, &short).succeeded();
    let arguments = ["eval", "out/checkpoints/1-000001", "out", "--tasks", "3", "--json"];
    let figures: Value = serde_json::from_str(&desk.host(&arguments).succeeded()).expect("JSON");
    assert_eq!(number(&figures, "episodes"), 3.0);
    std::fs::remove_dir_all(desk.path("out/checkpoints/1-000001-seat1")).expect("a part");
    let message = desk.host(&arguments).mistake("a part is missing");
    assert!(message.contains("1-000001-seat1"), "{message}");
}

#[test]
fn mistakes() {
    let desk = desk();
    let model = taught().to_str().expect("a plain path");
    let mut messages = String::new();
    for (title, arguments) in [
        ("no such model", &["nowhere", "run.toml", "--plugins", PLUGINS][..]),
        ("no plugins", &[model, "run.toml"]),
        // Of several tasks, any may end first.
        (
            "a rule without its fact",
            &[model, "--plugins", PLUGINS, "--set", "success=environment.crossed", "--tasks", "1"],
        ),
        ("no such split", &[model, "run.toml", "--plugins", PLUGINS, "--split", "tset"]),
        ("greedy and several", &[model, "run.toml", "--plugins", PLUGINS, "--temperature", "0", "--samples", "2"]),
        ("no such run", &[model, "plugins"]),
        ("no such path", &[model, "nothere"]),
    ] {
        messages.push_str(&desk.host(&[&["eval"], arguments].concat()).mistake(title));
    }
    insta::assert_snapshot!("eval", messages);
    let fails = ["--samples", "8", "--set", "environment.options.behaviour=trap-step"];
    let outcome = desk.host(&arguments(&fails));
    assert_eq!((outcome.code, outcome.results.as_str()), (Some(2), ""));
    assert!(outcome.talk.contains("of 48 episodes failed, above failures.limit = 0.2"), "{}", outcome.talk);
}
