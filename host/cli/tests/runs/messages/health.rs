//! Health of a rollout set: `host show --health` and the lines of a run in progress, on small runs with a symptom and on a
//! sound one. `symptoms.rs` has the rows of the page on runs that do not learn.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gymkhana_health::usual;
use gymkhana_policy_server::Protocol;
use serde_json::Value;

use crate::common::model_server::{self, Answer};
use crate::common::taught::teach;
use crate::common::{Desk, WORD_PROBLEMS};
use crate::peer::{Mischief, Peer};

/// A stage of reinforcement learning from random weights, without its number of steps. Calls cost points, so that rewards
/// vary.
const RL: &str = "[[stages]]\nkind = \"rl\"\ngroups = 6\ngroup_size = 4\n";

/// An environment that wants to hear `yes`, and misbehaves if asked to.
const HOSTILE: &str = "plugins/guest-hostile-environment.wasm";

/// Findings of the run in `out`, as JSON.
pub(super) fn findings(desk: &Desk) -> Vec<Value> {
    let told = desk.host(&["show", "out", "--health", "--json"]).succeeded();
    serde_json::from_str(&told).expect("a list of findings")
}

/// Names of the checks outside of their usual range.
pub(super) fn unusual(desk: &Desk) -> Vec<String> {
    let findings = findings(desk).into_iter().filter(|finding| finding["status"] != "ok");
    findings.map(|finding| finding["check"].as_str().expect("a name").to_owned()).collect()
}

/// Asserts that the run in `out` has these symptoms, with their remedies.
#[track_caller]
pub(super) fn assert_unusual(desk: &Desk, expected: &[(&str, &str)]) {
    let findings = findings(desk);
    for (check, remedy) in expected {
        let found = findings.iter().find(|finding| finding["check"] == *check).expect("a check");
        assert_eq!(found["status"], "warn", "{found}");
        assert!(found["hint"].as_str().is_some_and(|hint| hint.contains(remedy)), "{found}");
        assert!(found["range"].is_string(), "{found}");
    }
}

/// A finished run from random weights with these overrides.
fn run(sets: &[&str]) -> Desk {
    let desk = Desk::of_groups(RL);
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    desk.run(WORD_PROBLEMS, &sets).succeeded();
    desk
}

/// A model that gives one of these replies, of which `yes` is right, each with about equal probability.
fn taught(replies: &[&str], steps: u32) -> Desk {
    let desk = Desk::with_run_file(&format!(
        "success = \"environment.success\"\npolicy = {{ checkpoint = \"taught\" }}\n\
         environment.options = {{ behaviour = \"honest\" }}\nlimits = {{ turns = 3, reply_tokens = 16 }}\n\
         evaluation = {{ tasks = 0 }}\n[[stages]]\nkind = \"rl\"\nsteps = {steps}\ngroups = 4\ngroup_size = 8\n\
         optimizer = {{ learning_rate = 1e-4 }}\n"
    ));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(teach(replies, &desk.path("taught")));
    desk
}

#[test]
fn a_sound_run_shows_no_warning() {
    let desk = taught(&["yes", "no"], 6);
    let outcome = desk.run(HOSTILE, &[]);
    assert!(!outcome.talk.contains("warning: ") && !outcome.talk.contains("health of"), "{outcome:?}");
    outcome.succeeded();
    let shown = desk.host(&["show", "out", "--health"]).succeeded();
    let checks: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(checks, gymkhana_health::names().collect::<Vec<_>>(), "{shown}");
    assert!(shown.lines().all(|line| line.starts_with("ok    ")), "{shown}");
    assert!(shown.contains(" % of the replies (usual: at most 25 % of the replies)\n"), "{shown}");
}

/// Each finding outside of its range has a second line, which begins below the value.
#[test]
fn a_figure_outside_of_its_range_is_followed_by_its_remedy() {
    let desk = run(&["stages.rl.steps=1"]);
    let shown = desk.host(&["show", "out", "--health"]).succeeded();
    let lines: Vec<&str> = shown.lines().collect();
    let cut = lines.iter().position(|line| line.starts_with("warn  cut-replies  ")).expect("cut replies");
    assert_eq!(lines[cut + 1].trim_start(), "hint: raise `limits.reply_tokens`");
    let width = gymkhana_health::names().map(str::len).max().expect("a check");
    assert_eq!(lines[cut + 1].find("hint"), Some(width + 8));
    assert!(lines[cut][width + 8..].starts_with(|first: char| first.is_ascii_digit()), "{}", lines[cut]);
    let refused = desk.host(&["show", "out", "--health", "--episodes", "all"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

/// A run in progress warns once, after three steps, of a figure that leaves its range, and names all at the stage's end.
#[test]
fn a_run_warns_once_of_a_figure_that_leaves_its_range() {
    let desk = Desk::of_groups(RL);
    let outcome = desk.run(WORD_PROBLEMS, &["--set", "stages.rl.steps=5"]);
    assert_eq!(outcome.talk.matches("warning: stage `rl`, functions: 0 of 1 called, ").count(), 1, "{outcome:?}");
    let end = outcome.talk.lines().find(|line| line.starts_with("health of stage `rl`: ")).expect("a line");
    assert!(end.contains("cut-replies, ") && end.contains("functions"), "{end}");
    assert!(end.ends_with("; see `host show out --health`"), "{end}");
    outcome.succeeded();
    let short = Desk::of_groups(RL).run(WORD_PROBLEMS, &["--set", "stages.rl.steps=2"]);
    assert!(!short.talk.contains("health of stage"), "{short:?}");
}

#[test]
fn failures_have_their_cause() {
    let desk = taught(&["no"], 1);
    let sets = ["--set", "environment.options.behaviour=\"trap-step\"", "--set", "failures.limit=1.0"];
    desk.run(HOSTILE, &sets).succeeded();
    assert_unusual(&desk, &[("failures", "correct the plugin")]);
    let failures = findings(&desk).into_iter().find(|finding| finding["check"] == "failures").expect("a finding");
    let text = failures["text"].as_str().expect("a text");
    assert!(text.starts_with("100.0 % of 32 episodes; environment `guest-hostile-environment`: trap "), "{text}");
}

/// A model that says the same in every attempt, and is wrong.
#[test]
fn a_collapsed_policy_repeats_itself() {
    let desk = taught(&["no"], 3);
    desk.run(HOSTILE, &["--set", "stages.rl.temperature=0.2"]).succeeded();
    let remedy = "`stages.rl.temperature`";
    assert_unusual(&desk, &[("duplicates", remedy), ("variety", remedy), ("groups-without-signal", remedy)]);
}

/// The log-probabilities are those of the whole distribution, and the tokens are those of its most probable one.
#[test]
fn truncated_sampling_differs_from_the_recorded_distribution() {
    let truncated = run(&["stages.rl.steps=2", "stages.rl.top_k=1"]);
    assert_unusual(&truncated, &[("divergence-by-position", "`stages.rl.top_k`")]);
    let whole = unusual(&run(&["stages.rl.steps=2"]));
    assert!(!whole.contains(&"divergence-by-position".to_owned()), "{whole:?}");
}

/// A conversation whose user is played by a model server, in episodes of one turn.
const CONVERSATION: &str = r#"
seed = 1
success = "environment.success"
limits = { turns = 1, reply_tokens = 8 }
evaluation = { tasks = 0 }
plugins.guest-asking-environment = { model = "user" }
models.user = { url = "http://ADDRESS/v1", name = "user" }

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 256 }

[[stages]]
kind = "rl"
steps = 2
groups = 2
group_size = 4
"#;

/// The server answers one of the replies to the agent late; requests of a start have no earlier message of the server.
#[test]
fn a_turn_that_waits_for_a_late_model_is_slow() {
    let conversation = |late: usize| {
        let asked = AtomicUsize::new(0);
        let address = model_server::start(move |body| {
            if body.contains("\"assistant\"") && asked.fetch_add(1, Ordering::SeqCst) == late {
                return Answer::Late(Duration::from_secs_f64(1.2 * usual::SLOW_SECONDS));
            }
            Answer::Yes
        });
        let desk = Desk::with_run_file(&CONVERSATION.replace("ADDRESS", &address));
        desk.run("plugins/guest-asking-environment.wasm", &[]).succeeded();
        desk
    };
    let slow = conversation(3);
    assert_unusual(&slow, &[("slow-turns", "`sandbox.wall_seconds`")]);
    let told = findings(&slow).into_iter().find(|finding| finding["check"] == "slow-turns").expect("a check");
    assert!(told["text"].as_str().is_some_and(|text| text.contains(", mostly environment; median ")), "{told}");
    assert!(!unusual(&conversation(usize::MAX)).contains(&"slow-turns".to_owned()));
}

/// Log-probabilities of a server that computes other numbers than the trainer.
fn shifted(answer: &mut Value) {
    let numbers = answer.pointer_mut("/choices/0/logprobs/token_logprobs").and_then(Value::as_array_mut);
    for number in numbers.into_iter().flatten() {
        *number = number.as_f64().map_or(Value::Null, |number| (number - 0.35).into());
    }
}

/// A log-ratio of 0.35 at each token is a divergence of exp(-0.35) - 1 + 0.35 = 0.05469 by the estimator k3.
#[test]
fn a_server_with_other_numbers_diverges_from_the_trainer() {
    let served = |fault: Option<Mischief>| {
        let desk = Desk::of_groups(&format!("{RL}steps = 2\n")).with_model(2, 512);
        let peer = Peer::start(Protocol::Vllm, &desk.path("model"));
        peer.always(fault);
        let server = format!(
            "policy={{ checkpoint = \"model\", server = {{ url = \"{}\", protocol = \"vllm\", name = \"tiny\" }} }}",
            peer.url()
        );
        desk.run(WORD_PROBLEMS, &["--set", &server]).succeeded();
        desk
    };
    let diverging = served(Some(Mischief::Edits(shifted)));
    assert_unusual(&diverging, &[("divergence", "`policy.server.logprobs`")]);
    let told = findings(&diverging).into_iter().find(|finding| finding["check"] == "divergence").expect("a check");
    assert!(told["text"].as_str().is_some_and(|text| text.starts_with("0.0546")), "{told}");
    assert!(!unusual(&served(None)).contains(&"divergence".to_owned()));
}

/// How far steps overlap depends on the machine, so that the figure of the run is replaced.
#[test]
fn staleness_beyond_the_usual_is_found() {
    let desk = run(&["stages.rl.steps=3", "stages.rl.max_staleness=8"]);
    let metrics = desk.path("out/metrics.jsonl");
    let stale = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        assert!(line["values"]["staleness_mean"].is_number(), "{line}");
        line["values"]["staleness_mean"] = 2.5.into();
        line.to_string() + "\n"
    };
    let lines: String = fs::read_to_string(&metrics).expect("metrics").lines().map(stale).collect();
    fs::write(&metrics, lines).expect("written");
    assert_unusual(&desk, &[("staleness", "lower `stages.rl.max_staleness`")]);
}
