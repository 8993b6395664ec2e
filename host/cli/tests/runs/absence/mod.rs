//! The matrix of failures: real runs of every plan, in which plugins and their models fail in every way, are equal to what is
//! left of them without the episodes that the infrastructure failed.
//!
//! The policy is a checkpoint that was trained on one reply for each cause, so that sampling mixes the causes in each group.

mod twin;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gymkhana_cli::failures::{self, FailureOutcome, FailureRow, TABLE};
use gymkhana_policy_server::Protocol;
use gymkhana_record::{Ending, EpisodeRecord, Failure, Phase};
use serde_json::Value;

use crate::common::model_server::{self, Answer};
use crate::common::taught::teach;
use crate::common::{Desk, json};
use crate::peer::{Mischief, Peer};

const PLUGINS: &str = "plugins/guest-hostile-environment.wasm,plugins/guest-hostile-tool.wasm,\
                       plugins/guest-asking-tool.wasm,plugins/calculator.wasm,plugins/guest-hostile-reward.wasm,\
                       plugins/guest-asking-reward.wasm";

const STEPS: u64 = 3;
const PATIENCE: u64 = 2;

/// A run of a plan.
#[derive(Clone, Copy)]
struct PlanRun {
    plan: &'static str,
    /// Settings of the algorithm: a preset of a family, and keys that change it.
    algorithm: &'static str,
    /// Key of the sandbox that ends endless loops.
    limit: &'static str,
}

/// Fuel for some tens of milliseconds.
const FUEL: &str = "fuel_per_call = 40_000_000";
const TIME: &str = "budget_seconds = 0.1";

/// Each plan, with a running average, a critic, branches, states, and a memory of episodes.
const RUNS: [PlanRun; 5] = [
    PlanRun { plan: r#"{ kind = "groups" }"#, algorithm: r#"algorithm = "spiral-rae""#, limit: FUEL },
    PlanRun {
        plan: r#"{ kind = "oversample", factor = 2 }"#,
        algorithm: "algorithm = \"ppo\"\nsettings.critic = { level = \"token\", warmup_steps = 0 }",
        limit: TIME,
    },
    PlanRun { plan: r#"{ kind = "branch", roots = 4, base = 5.0 }"#, algorithm: r#"algorithm = "arpo""#, limit: FUEL },
    PlanRun { plan: r#"{ kind = "prefixes", roots = 4 }"#, algorithm: r#"algorithm = "gigpo""#, limit: TIME },
    PlanRun { plan: r#"{ kind = "guided", retries = 1 }"#, algorithm: r#"algorithm = "spear""#, limit: FUEL },
];

/// Text on which the judge fails in another way each time.
const FAILS: &str = "fail";
/// Text on which it always fails.
const REFUSES: &str = "no judge";

/// Ways in which a model server fails; the last one is silence beyond the time limit.
const WAYS: [Answer; 5] = [
    Answer::Status("500 Internal Server Error", "oops"),
    Answer::Status("429 Too Many Requests", "slow down"),
    Answer::Status("200 OK", "<html>a proxy</html>"),
    Answer::Close,
    Answer::Late(Duration::from_secs(2)),
];

/// Starts the model server of the plugins; returns its address and the number of failures.
fn judge() -> (String, Arc<AtomicUsize>) {
    let failures = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&failures);
    let address = model_server::start(move |body| match body {
        refused if refused.contains(&format!("\"{REFUSES}\"")) => WAYS[0],
        fails if fails.contains(&format!("\"{FAILS}\"")) => WAYS[counter.fetch_add(1, Ordering::SeqCst) % WAYS.len()],
        _ => Answer::Yes,
    });
    (address, failures)
}

fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// A checkpoint that gives one reply for each cause, and several harmless ones.
fn taught() -> &'static Path {
    static TAUGHT: OnceLock<PathBuf> = OnceLock::new();
    TAUGHT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("taught-causes");
        // Checkpoints are never overwritten; this one is from an earlier run of the tests.
        let _none = std::fs::remove_dir_all(&folder);
        let of_tool = ["trap", "loop", "memory"].map(|name| call(name, "{}"));
        let asks = call("complete", &format!("{{\"words\": \"{FAILS}\"}}"));
        let mut replies = vec!["yes"; 6];
        replies.extend(["no", "trap", "loop", "memory", "error", "trap score", "loop score", "memory score"]);
        replies.push(REFUSES);
        replies.extend(of_tool.iter().map(String::as_str).chain([asks.as_str()]));
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(teach(&replies, &folder));
        folder
    })
}

/// The finished run with these overrides, whose plugins ask the model at `judge`.
fn run(judge: &str, PlanRun { plan, algorithm, limit }: PlanRun, sets: &[&str]) -> Desk {
    let checkpoint = taught().display();
    let desk = Desk::with_run_file(&format!(
        r#"
        seed = 7
        deterministic = true
        success = "environment.success"
        environment.options = {{ behaviour = "as-told" }}
        limits = {{ turns = 2, reply_tokens = 80 }}
        sandbox = {{ memory_mib = 16, {limit} }}
        failures = {{ limit = 1.0, retries = 1 }}
        sampler = {{ kind = "difficulty", tasks = 5, attempts = 1000 }}
        evaluation = {{ tasks = 6, every = 1, patience = {PATIENCE}, metric = "eval_success_sampled" }}

        [policy]
        checkpoint = "{checkpoint}"
        max_concurrent_sequences = 8

        [plugins.guest-hostile-reward]
        options = {{ behaviour = "as-told" }}

        [plugins.guest-asking-reward]
        model = "judge"
        tools = true

        [plugins.guest-asking-tool]
        assets = {{ "words.txt" = "words.txt" }}
        model = "judge"
        http = [{{ allow = "https://example.org" }}]

        [models.judge]
        url = "http://{judge}/v1"
        name = "judge"
        calls = 1000
        retries = 0
        seconds = 0.25

        [[stages]]
        kind = "rl"
        {algorithm}
        steps = {STEPS}
        groups = 4
        group_size = 6
        plan = {plan}
        optimizer = {{ learning_rate = 1e-4 }}
        "#
    ));
    let desk = desk.with_file("words.txt", "one two");
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    desk.run(PLUGINS, &sets).succeeded();
    desk
}

/// Asserts that an episode became what the table says of its failures; returns the rows.
fn check(record: &EpisodeRecord) -> Vec<&'static FailureRow> {
    let what = format!("{}, {}: {:?}", record.id, record.ending, record.failures);
    let row = |failure: &Failure| failures::row_of(record, failure).unwrap_or_else(|| panic!("no row of {what}"));
    let rows: Vec<&FailureRow> = record.failures.iter().map(row).collect();
    let has = |outcomes: &[FailureOutcome]| rows.iter().any(|row| outcomes.contains(&row.outcome));
    // An evaluation counts a start that fails.
    let is_start = has(&[FailureOutcome::Absent]);
    let is_absent =
        has(&[FailureOutcome::Retried, FailureOutcome::GroupRetried]) || is_start && record.id.phase == Phase::Train;
    if is_absent {
        assert_eq!((record.ending, record.rewards.len(), record.success), (Ending::Dropped, 0, false), "{what}");
    } else if is_start || has(&[FailureOutcome::Provoked]) {
        // 0 of the environment, -1 of one reward, 0 of the other.
        assert_eq!((&record.rewards[..], record.success), (&[-1.0][..], false), "{what}");
    } else if has(&[FailureOutcome::Observed]) {
        assert!(record.rewards[0] >= 0.0, "{what}: {:?}", record.rewards);
    }
    rows
}

/// Asserts everything that a run of a plan should be without its absent episodes; returns the rows of its failures.
fn compare(desk: &Desk, what: &str) -> Vec<&'static FailureRow> {
    let records = desk.episodes();
    let found: Vec<&FailureRow> = records.iter().flat_map(check).collect();
    let dropped = records.iter().filter(|record| record.id.phase == Phase::Train && record.ending == Ending::Dropped);
    assert!(dropped.count() >= 6, "{what}: too few absent episodes");

    assert_eq!(twin::remembered(desk), twin::outcomes(&records), "{what}: the sampler's memory");
    let evaluations = twin::evaluations(&records);
    let stage = &json(&desk.path("out/summary.json"))["stages"][0];
    let measured: Vec<(u64, f64)> = stage["evaluations"].as_array().expect("evaluations").iter().map(number).collect();
    assert_eq!(measured, evaluations, "{what}: evaluations");
    let end = twin::end(&evaluations, PATIENCE, STEPS);
    assert_eq!(stage["stopped_after"].as_u64().unwrap_or(STEPS), end, "{what}: early stopping");

    twin::train(desk, taught().to_str().expect("a plain path"), &records);
    let last = desk.path(&format!("out/checkpoints/0-{end:06}"));
    twin::assert_same_weights(what, taught(), &last, &desk.path("twin"));
    found
}

fn number(evaluation: &Value) -> (u64, f64) {
    (evaluation["step"].as_u64().expect("a step"), evaluation["success_sampled"].as_f64().expect("a share"))
}

#[test]
fn failures_leave_no_trace_in_runs_of_every_plan() {
    let (judge, failures) = judge();
    let mut found = BTreeSet::new();
    std::thread::scope(|scope| {
        let judge = &judge;
        let play = move |settings: PlanRun| compare(&run(judge, settings, &[]), settings.plan);
        let runs: Vec<_> = RUNS.map(|settings| scope.spawn(move || play(settings))).into_iter().collect();
        for run in runs {
            found.extend(run.join().expect("no panic").iter().map(|row| (row.cause, row.how)));
        }
    });
    assert!(failures.load(Ordering::SeqCst) >= WAYS.len(), "the judge failed in every way");
    let named = |row: &&FailureRow| {
        row.evidence.iter().any(|evidence| evidence.is_named("failures_leave_no_trace_in_runs_of_every_plan"))
    };
    let expected: BTreeSet<_> = TABLE.iter().filter(named).map(|row| (row.cause, row.how)).collect();
    assert_eq!(found, expected);
}

/// Plugins that do not misbehave.
const SOUND: [&str; 4] = [
    "environment.options.behaviour=honest",
    "plugins.guest-hostile-reward.options.behaviour=good",
    "evaluation={ tasks = 0 }",
    "stages.rl.steps=1",
];

/// Those that nothing failed are equal to those of a run in which the others do not fail either.
#[test]
fn members_beside_failed_ones_are_played_and_scored_as_without_them() {
    let (judge, _) = judge();
    let steps = "stages.rl.steps=1";
    let (failing, sound) = (run(&judge, RUNS[0], &[SOUND[2], steps]), run(&judge, RUNS[0], &SOUND));
    let (failing, sound) = (failing.episodes(), sound.episodes());
    assert_eq!(failing.len(), sound.len());
    let pairs = failing.iter().zip(&sound);
    let both: Vec<_> = pairs.filter(|(one, other)| one.failures.is_empty() && other.failures.is_empty()).collect();
    assert!(both.len() >= 4 && both.len() + 4 <= sound.len(), "{} of {}", both.len(), sound.len());
    for (one, other) in both {
        assert_eq!((one.id, &one.segments, &one.turns), (other.id, &other.segments, &other.turns));
        // Without failures this reward gives 1 instead of 0.
        assert_eq!(one.rewards[0] + 1.0, other.rewards[0], "{}", one.id);
    }
}

/// A run of two steps through a server, without retries.
const SERVED: &str = r#"
seed = 1
success = "environment.success"
limits = { turns = 1, reply_tokens = 16 }
evaluation = { tasks = 0 }
failures = { limit = 1.0, retries = 0 }

[policy]
max_concurrent_sequences = 1
checkpoint = "model"
server = { url = "URL", protocol = "vllm", name = "tiny", retries = 0 }

[[stages]]
kind = "rl"
steps = 2
groups = 3
group_size = 6
optimizer = { learning_rate = 1e-3 }
"#;

#[test]
fn members_that_a_policy_server_lost_leave_no_trace() {
    let desk = Desk::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(teach(&["yes", "no"], &desk.path("model")));
    let peer = Peer::start(Protocol::Vllm, &desk.path("model"));
    desk.write("run.toml", SERVED.replace("URL", &peer.url()));
    // The first requests are checks at the start, and the faults fall into the first step.
    let sound = Mischief::Edits(|_| {});
    let faults = [
        Mischief::Status(500, ""),
        Mischief::Status(429, "0"),
        Mischief::Closes,
        Mischief::Garbage,
        Mischief::BreaksOff,
    ];
    peer.misbehave(&[sound; 6]);
    faults.into_iter().for_each(|fault| peer.misbehave(&[fault, sound]));
    desk.run("plugins/guest-hostile-environment.wasm", &[]).succeeded();
    let records = desk.episodes();
    let lost: Vec<&EpisodeRecord> = records.iter().filter(|record| record.ending == Ending::Dropped).collect();
    assert_eq!(lost.len(), faults.len());
    for record in &records {
        assert!(check(record).iter().all(|row| row.outcome == FailureOutcome::Retried), "{}", record.id);
    }
    twin::train(&desk, "model", &records);
    twin::assert_same_weights(
        "a server",
        &desk.path("model"),
        &desk.path("out/checkpoints/0-000002"),
        &desk.path("twin"),
    );
}
