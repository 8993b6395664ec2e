//! Runs with failing plugins: they continue with typed failures in the record, up to the failure limit.
//!
//! The policy is a checkpoint that was trained on two replies, one of them harmless, so that about half of the episodes
//! fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::common::server::Server;
use crate::common::taught::teach;
use crate::common::{Desk, files_below};
use gymkhana_record::{Boundary, Ending, EpisodeRecord, FailureKind};

/// A call of the hostile tool's function that panics.
const CALL: &str = "<tool_call>\n{\"name\": \"trap\", \"arguments\": {}}\n</tool_call>";
/// Bytes minus tokens of the call: each mark is one token, and one token ends the reply.
const MARKS_IN_BYTES: usize = "<tool_call>".len() + "</tool_call>".len() - 3;
const PLUGINS: &str = "plugins/guest-hostile-environment.wasm,plugins/guest-hostile-tool.wasm";

/// A checkpoint that says `yes` or makes the call, each with a probability of about one half.
fn taught() -> &'static Path {
    static TAUGHT: OnceLock<PathBuf> = OnceLock::new();
    TAUGHT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("taught");
        // Checkpoints are never overwritten; this one is from an earlier run of the tests.
        let _none = fs::remove_dir_all(&folder);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(teach(&["yes", CALL], &folder));
        folder
    })
}

/// A desk with a run of one step of 32 single-turn episodes, with this behaviour of the environment and this failure
/// limit.
fn desk(behaviour: &str, limit: f64) -> Desk {
    let checkpoint = taught().display();
    Desk::with_run_file(&format!(
        r#"
        success = "environment.success"
        policy = {{ checkpoint = "{checkpoint}", max_concurrent_sequences = 16 }}
        environment.options = {{ behaviour = "{behaviour}" }}
        limits = {{ turns = 1, reply_tokens = 96 }}
        failures = {{ limit = {limit:?}, provoked = -0.25 }}
        evaluation.tasks = 0
        stages = [{{ kind = "rl", steps = 1, groups = 8, group_size = 4 }}]
        "#
    ))
}

/// Failed episodes and the others; both must exist.
fn parted(desk: &Desk) -> (Vec<EpisodeRecord>, Vec<EpisodeRecord>) {
    let records = desk.episodes();
    assert_eq!(records.len(), 32);
    let (failed, sound): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| !record.failures.is_empty());
    // With 32 episodes and a probability of one half, 3 to 29 holds in all but one case in a million.
    assert!(failed.len() >= 3 && sound.len() >= 3, "{} failed, {} did not", failed.len(), sound.len());
    (failed, sound)
}

/// About half of the attempts call the tool that traps.
#[test]
fn an_evaluation_names_its_failures() {
    let desk = desk("honest", 1.0);
    let model = taught().to_str().expect("a plain path");
    let arguments = ["eval", model, "run.toml", "--plugins", PLUGINS, "--tasks", "8", "--samples", "4"];
    let figures = desk.host(&[&arguments[..], &["--json"]].concat()).succeeded();
    let figures: serde_json::Value = serde_json::from_str(&figures).expect("JSON");
    let failed = figures["failed"].as_u64().expect("a number");
    assert!((3..=29).contains(&failed), "{figures}");
    assert_eq!(figures["failures"], serde_json::json!({ "tool `guest-hostile-tool`: trap": failed }));
    let table = desk.host(&arguments).succeeded();
    let line = |name: &str| table.lines().find_map(|line| line.trim_start().strip_prefix(name)).expect("a line");
    assert!(line("failed calls  ").ends_with(" of tool `guest-hostile-tool`: trap"), "{table}");
    let last = line("last failure  ");
    assert!(last.starts_with("episode ") && last.contains("tool `guest-hostile-tool` failed during call-0"), "{table}");
}

/// The progress line, `host show`, `metrics.jsonl` and the page name the same failures by owner and kind.
#[test]
fn failures_are_told_by_owner_and_kind_everywhere() {
    let desk = desk("honest", 1.0);
    let outcome = desk.run(PLUGINS, &[]);
    let (failed, _) = parted(&desk);
    let failed = failed.len();
    let line = format!(", {failed} failed ({failed} of tool `guest-hostile-tool`: trap), ");
    assert!(outcome.talk.contains(&line), "{}", outcome.talk);
    outcome.succeeded();
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    assert!(metrics.contains(&format!("\"tool.guest-hostile-tool.trap/failed_calls\":{failed}.0")), "{metrics}");
    let shown = desk.host(&["show", "out"]).succeeded();
    let line = format!("\nfailed episodes of rl: {failed} (0 dropped); {failed} of tool `guest-hostile-tool`: trap\n");
    assert!(shown.contains(&line), "{shown}");
    let page = Server::start(&desk, &["page", "out", "--listen", "127.0.0.1:0"]);
    let read = |path: &str| page.get(path).replace("&#96;", "`");
    let counted = format!("tool `guest-hostile-tool`: trap: {failed} episodes");
    assert!(read("/runs/0/rewards").contains(&counted), "{}", read("/runs/0/rewards"));
    assert!(read("/").contains("tool.guest-hostile-tool.trap/failed_calls"));
    assert!(read("/runs/0/health").contains(&format!("tool `guest-hostile-tool`: trap {failed}")));
}

#[test]
fn a_run_ends_with_its_failures() {
    let desk = desk("honest", 1.0);
    let results = desk.run(PLUGINS, &["-q"]).succeeded();
    let (failed, _) = parted(&desk);
    let counts = format!(
        "failed episodes: {0}\nfailed calls: {0} of tool `guest-hostile-tool`: trap\nlast failure, in episode ",
        failed.len()
    );
    let (_, last) = results.split_once(&counts).unwrap_or_else(|| panic!("no `{counts}` in {results}"));
    let named = failed.iter().find(|record| last.starts_with(&format!("{}: ", record.id)));
    assert!(named.is_some(), "the episode that is named met no failure: {results}");
    assert!(last.contains(": tool `guest-hostile-tool` failed during call-0: the plugin panicked at "), "{results}");
    // The position of the run keeps them.
    let again = desk.host(&["run", "--resume", "out", "-q"]).succeeded();
    assert!(again.contains(&format!("{counts}{}", last.lines().next().expect("a line"))), "{again}");
}

fn assert_replays(desk: &Desk) {
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert_eq!(replayed, "32 episodes replayed, every byte equal: 32\n");
}

#[test]
fn a_tool_that_always_traps_is_an_observation_and_the_run_goes_on() {
    let desk = desk("honest", 1.0);
    desk.run(PLUGINS, &[]).succeeded();
    let (failed, sound) = parted(&desk);
    for record in &failed {
        let [failure] = &record.failures[..] else { panic!("{:?}", record.failures) };
        assert_eq!(failure.at, Boundary::Tool("guest-hostile-tool".to_owned()));
        assert_eq!((failure.kind, failure.call_site.to_string().as_str()), (FailureKind::Trap, "call-0"));
        // The agent is not paid for a crash, nor does it pay more than for any other wasted turn.
        assert_eq!((record.ending, &record.rewards[..]), (Ending::TurnLimit, &[0.0][..]));
    }
    assert!(sound.iter().any(|record| record.success && record.rewards == [1.0]), "nobody said yes");
    assert_replays(&desk);
    // A failure as shown. Sampling decides which episode has it.
    let taught = failed.iter().find(|record| record.sampled_tokens() == CALL.len() - MARKS_IN_BYTES);
    let id = taught.expect("somebody made the call as it was taught").id.to_string();
    let shown = desk.host(&["show", "out", "--episode", &id]).succeeded();
    insta::with_settings!({
        filters => vec![
            (r"episode \S+  task \S+", "episode [ID]  task [TASK]"),
            (r"lib\.rs:\d+:\d+", "lib.rs:[LINE]"),
        ],
    }, {
        insta::assert_snapshot!("show-failure", shown);
    });
    // The template wrote the functions and the system prompt into the first prompt.
    let prompt = desk.host(&["show", "out", "--episode", &id, "--prompt"]).succeeded();
    let (prompt, rest) = prompt.split_once("\n---\n").expect("the end of the prompt");
    assert!(prompt.starts_with("--- prompt of seat 0, 13 tokens\n"), "{prompt}");
    assert!(prompt.contains("Say yes."), "{prompt}");
    assert_eq!(rest, shown);
}

#[test]
fn logs_of_all_episodes_are_printed_if_asked_for() {
    let desk = desk("honest", 1.0);
    let outcome = desk.run(PLUGINS, &["-v"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let (failed, sound) = parted(&desk);
    for record in &failed {
        let line = format!("{}, guest-hostile-tool, call-0, seat 0, warn: a panic, as asked\n", record.id);
        assert_eq!(outcome.talk.matches(&line).count(), 1, "{line}: {outcome:?}");
    }
    for record in &sound {
        assert_eq!(record.logs, []);
        assert!(!outcome.talk.contains(&format!("{}, ", record.id)), "{outcome:?}");
    }
}

#[test]
fn a_quiet_run_prints_its_summary_only() {
    let desk = desk("honest", 1.0);
    let both = desk.run(PLUGINS, &["-q", "-v"]);
    assert!(both.code == Some(2) && both.talk.contains("cannot be used with"), "{both:?}");
    let outcome = desk.run(PLUGINS, &["-q"]);
    assert_eq!((outcome.code, outcome.talk.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(outcome.results.contains("32 episodes in out, "), "{outcome:?}");
}

#[test]
fn an_environment_that_fails_costs_the_failure_reward_and_the_run_goes_on() {
    let desk = desk("trap-step", 1.0);
    desk.run(PLUGINS, &[]).succeeded();
    // Here the message steps the environment, and the call does not.
    let of_environment = |record: &EpisodeRecord| {
        record
            .failures
            .iter()
            .any(|failure| failure.at == Boundary::Environment("guest-hostile-environment".to_owned()))
    };
    let records = desk.episodes();
    let (failed, others): (Vec<_>, Vec<_>) = records.iter().partition(|record| of_environment(record));
    assert!(failed.len() >= 3 && others.len() >= 3, "{} of 32 failed", failed.len());
    for record in failed {
        assert_eq!((record.ending, &record.rewards[..]), (Ending::EnvironmentFailed, &[-0.25][..]));
        assert_eq!((record.failures[0].kind, record.success), (FailureKind::Trap, false));
    }
    assert!(others.iter().all(|record| record.rewards == [0.0]), "a failure of one is no failure of another");
    assert_replays(&desk);
}

/// Calls that finished when recorded also finish on a machine that is too slow for their budget.
#[test]
fn a_replay_has_all_the_time_that_it_needs() {
    let desk = desk("memory-step", 1.0);
    desk.run(PLUGINS, &[]).succeeded();
    let out_of_memory = |record: &EpisodeRecord| record.failures.iter().any(|each| each.kind == FailureKind::Memory);
    assert!(desk.episodes().iter().any(out_of_memory), "nobody took all the memory");
    let recorded = fs::read_to_string(desk.path("out/run.toml")).expect("the run file");
    let slow = recorded.replace("budget_seconds = 1.0", "budget_seconds = 0.001");
    assert_ne!(slow, recorded);
    desk.write("out/run.toml", crate::common::resealed(&slow));
    assert_replays(&desk);
}

#[test]
fn too_many_failures_stop_the_run_with_their_count_and_the_last_of_them() {
    let desk = desk("honest", 0.05);
    let outcome = desk.run(PLUGINS, &[]);
    assert_eq!((outcome.code, outcome.results.as_str()), (Some(2), ""), "{outcome:?}");
    let (failed, _) = parted(&desk);
    let error = &outcome.talk[outcome.talk.find("error: ").expect("an error")..];
    let (first, last) = error.split_once('\n').expect("two lines");
    let counted = format!(
        "error: too many failures: {} of 32 episodes of this stage failed, above failures.limit = 0.05",
        failed.len()
    );
    assert_eq!(first, counted);
    assert!(last.starts_with("last failure, in episode 0.train.0."), "{last}");
    assert!(last.contains("tool `guest-hostile-tool` failed during call-0: the plugin panicked at "), "{last}");
    let told = failed.iter().any(|record| last.contains(&format!("in episode {}: ", record.id)));
    assert!(told, "the episode that is named met no failure: {last}");
    // The step is not taken.
    assert!(!fs::read_to_string(desk.path("out/metrics.jsonl")).unwrap_or_default().contains("loss"));
    let checkpoints = files_below(&desk.path("out/checkpoints"));
    assert!(checkpoints.iter().all(|(name, _)| name.starts_with("0-000000/")), "{checkpoints:?}");
    // What was played is kept, to be looked at.
    assert!(desk.host(&["show", "out"]).succeeded().contains("stopped; continue it with `host run --resume out`"));
}

#[test]
fn a_flood_of_terminal_escapes_is_shown_written_out() {
    let desk = desk("escape", 1.0);
    desk.run(PLUGINS, &[]).succeeded();
    let records = desk.episodes();
    let flooded = records.iter().find(|record| record.success).expect("somebody said yes");
    let shown = desk.host(&["show", "out", "--episode", &flooded.id.to_string()]).succeeded();
    assert!(shown.contains(r"\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{202e}"), "{shown:.500}");
    let obeyed = |character: &char| (character.is_control() && *character != '\n') || *character == '\u{202e}';
    assert_eq!(shown.chars().find(obeyed), None);
}
