//! The conformance suite: wrappers and templates pass, and each check has a guest that fails it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use gymkhana_conformance::{SuiteSettings, all_checks, check_plugin, limits};
use gymkhana_record::{NamedValue, Value};
use gymkhana_registry::{Capability, Check, CheckOutcome, Report, read_manifest, suite_checks};
use gymkhana_sandbox::{AssetContent, Assets, CompilerEffort, Grants, Plugin, Sandbox, SandboxConfig};
use gymkhana_tests::{compiled, component, root};

/// Settings with limits so low that small defects exceed them.
fn narrow() -> SuiteSettings {
    SuiteSettings { steps: 300, most_fuel: 20_000_000, most_memory: 16 << 20, ..SuiteSettings::default() }
}

fn sandbox(settings: &SuiteSettings) -> Sandbox {
    sandbox_of(settings, CompilerEffort::Optimised)
}

fn sandbox_of(settings: &SuiteSettings, effort: CompilerEffort) -> Sandbox {
    // Guests are compiled once for all runs of these tests, because their fuel is counted.
    let cache = Some(compiled());
    let limits = limits(settings);
    let config = SandboxConfig { cache, max_instances: Some(32), limits, effort, ..SandboxConfig::default() };
    Sandbox::new(&config).expect("a sandbox")
}

fn text(name: &str, value: &str) -> Vec<NamedValue> {
    vec![NamedValue { name: name.to_owned(), value: Value::Text(value.to_owned()) }]
}

async fn check(sandbox: &Sandbox, name: &str, bytes: &[u8], settings: SuiteSettings) -> Report {
    check_plugin(sandbox, name, bytes, settings, |_| ()).await.expect("a plugin that can be checked")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(component(name)).expect("a component")
}

/// Names of the failed checks.
fn failed(report: &Report) -> BTreeSet<&str> {
    report.failures().map(|(name, _)| name).collect()
}

/// The component with one of its texts replaced everywhere by one of the same length.
fn forged(name: &str, text: &str, other: &str) -> Vec<u8> {
    assert_eq!(text.len(), other.len(), "offsets must stay");
    let mut bytes = read(name);
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, found)| *found == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{name} has no text `{text}`");
    places.into_iter().for_each(|at| bytes[at..at + text.len()].copy_from_slice(other.as_bytes()));
    bytes
}

/// The test command publishes every first-party plugin, with the whole suite, and each wrapper around one environment.
/// Here wrappers get a shorter suite, with default options, around environments with one seat and functions, one seat and
/// messages, and two seats.
#[tokio::test(flavor = "multi_thread")]
async fn wrappers_pass_around_environments_of_each_kind() {
    let settings = SuiteSettings { steps: 60, most_settings: 0, ..SuiteSettings::default() };
    let sandbox = sandbox(&settings);
    let inside = ["frozen-lake", "word-problems", "tic-tac-toe"];
    let inside = inside.map(|name| Plugin::load(&sandbox, &component(name), &Grants::default()).expect("a plugin"));
    // The wrapper `library` needs one; the others want no capability for it.
    let skills = AssetContent::open(&root().join("examples/data/skills.jsonl")).expect("skills");
    let assets: Assets = [("library.jsonl".to_owned(), skills)].into_iter().collect();
    let settings =
        SuiteSettings { beside: inside.iter().map(|plugin| (plugin.clone(), vec![])).collect(), assets, ..settings };
    let wrappers = wrappers();
    assert!(wrappers.len() >= 6, "{wrappers:?}");
    for name in wrappers {
        let report = check(&sandbox, &name, &read(&name), settings.clone()).await;
        assert_eq!(report.failures().collect::<Vec<_>>(), [], "{name}");
        assert_eq!(report.checks.len(), all_checks().len(), "{name}");
    }
}

/// Names of the first-party components that want an environment inside.
fn wrappers() -> Vec<String> {
    let folder = component("calculator").parent().expect("components lie in a folder").to_owned();
    let is_wrapper = |name: &String| {
        let manifest = read_manifest(&read(name)).expect("a manifest");
        !name.starts_with("guest-") && manifest.capabilities.contains(&Capability::InnerEnvironment)
    };
    let files = fs::read_dir(folder).expect("a folder of components");
    let names = files.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".wasm")?.to_owned()));
    names.filter(is_wrapper).collect()
}

/// The templates of `host plugin new` in Rust are checked through the command itself.
#[tokio::test(flavor = "multi_thread")]
async fn templates_in_other_languages_pass_as_they_are_written() {
    let settings = SuiteSettings { steps: 100, most_settings: 4, thin_costly: true, ..SuiteSettings::default() };
    // As `host plugin test DIR` compiles them.
    let sandbox = sandbox_of(&settings, CompilerEffort::Quick);
    for language in ["python", "js"] {
        for kind in ["environment", "tool", "reward"] {
            let name = format!("guest-{language}-{kind}");
            let report = check(&sandbox, &name, &read(&name), settings.clone()).await;
            assert_eq!(report.failures().collect::<Vec<_>>(), [], "{name}");
        }
    }
}

/// The environment asks models in steps and in its oracle's advice, so that answers that depended on the number of earlier
/// questions would make it look non-deterministic.
#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_asks_is_judged_by_what_it_does() {
    let settings = narrow();
    let report = check(&sandbox(&settings), "asking", &read("guest-asking-environment"), settings).await;
    let failed = failed(&report);
    for check in ["same-seed-same-bytes", "snapshots", "isolation", "read-only"] {
        assert!(!failed.contains(check), "{:?}", report.failures().collect::<Vec<_>>());
    }
}

/// Guests with one defect at a time: package, option, defect, and the check that must fail.
const CROOKS: [(&str, &str, &str, &str); 51] = [
    ("guest-crooked-environment", "crook", "missing-task", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "extra-task", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "same-splits", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "reversed-splits", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "third-split", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "endless-reversed", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "alike-splits", "splits-and-tasks"),
    ("guest-crooked-environment", "crook", "bad-schema", "parameters"),
    ("guest-crooked-environment", "crook", "idle-schema", "parameters"),
    ("guest-crooked-environment", "crook", "counts-starts", "same-seed-same-bytes"),
    ("guest-crooked-environment", "crook", "talks-across", "isolation"),
    ("guest-crooked-environment", "crook", "forgets", "snapshots"),
    ("guest-crooked-environment", "crook", "trusting", "bad-snapshots"),
    ("guest-crooked-environment", "crook", "refuses-restore", "snapshots"),
    ("guest-crooked-environment", "crook", "one-key", "state-keys"),
    ("guest-crooked-environment", "crook", "counting-key", "state-keys"),
    ("guest-crooked-environment", "crook", "restless", "read-only"),
    ("guest-crooked-environment", "crook", "lost-oracle", "oracle"),
    ("guest-crooked-environment", "crook", "hopeless-oracle", "oracle"),
    ("guest-crooked-environment", "crook", "fragile", "invalid-actions"),
    ("guest-crooked-environment", "crook", "late-trap", "fuzz"),
    ("guest-crooked-environment", "crook", "greedy", "fuzz"),
    ("guest-crooked-environment", "crook", "late-work", "cost"),
    ("guest-crooked-environment", "crook", "breaks-at-most", "option-limits"),
    ("guest-crooked-environment", "crook", "breaks-both", "option-limits"),
    ("guest-crooked-environment", "crook", "refuses-least", "option-limits"),
    ("guest-crooked-tool", "crook", "no-function", "parameters"),
    ("guest-crooked-tool", "crook", "no-description", "describes-itself"),
    ("guest-crooked-tool", "crook", "mute", "parameters"),
    ("guest-crooked-tool", "crook", "polite", "invalid-actions"),
    ("guest-crooked-tool", "crook", "fragile", "invalid-actions"),
    ("guest-crooked-tool", "crook", "refuses", "invalid-actions"),
    ("guest-crooked-tool", "crook", "shared-sum", "isolation"),
    ("guest-crooked-tool", "crook", "forgets", "snapshots"),
    ("guest-crooked-tool", "crook", "forgets-view", "snapshots"),
    ("guest-crooked-tool", "crook", "hoards", "cost"),
    ("guest-hostile-environment", "behaviour", "false-restore", "snapshots"),
    ("guest-hostile-environment", "behaviour", "trap-step", "invalid-actions"),
    ("guest-hostile-environment", "behaviour", "trap-close", "fuzz"),
    ("guest-hostile-environment", "behaviour", "trap-advise", "oracle"),
    ("guest-hostile-reward", "behaviour", "picky", "scores"),
    ("guest-hostile-reward", "behaviour", "nan", "scores"),
    ("guest-hostile-reward", "behaviour", "infinite", "scores"),
    ("guest-hostile-reward", "behaviour", "out-of-range", "scores"),
    ("guest-hostile-reward", "behaviour", "nan-turn", "scores"),
    ("guest-hostile-reward", "behaviour", "too-few", "scores"),
    ("guest-hostile-reward", "behaviour", "too-many", "scores"),
    ("guest-hostile-reward", "behaviour", "wrong-components", "scores"),
    ("guest-hostile-reward", "behaviour", "trap", "scores"),
    ("guest-hostile-reward", "behaviour", "error", "scores"),
    ("guest-hostile-reward", "behaviour", "remembers", "same-episodes-same-scores"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_defect_fails_its_check_and_honest_guests_pass() {
    let noticed: Mutex<BTreeSet<String>> = Mutex::default();
    let note = |report: &Report| {
        noticed.lock().expect("no test panics here").extend(failed(report).into_iter().map(str::to_owned));
    };
    let settings = narrow();
    let sandbox = sandbox(&settings);
    for (name, option, honest) in [
        ("guest-crooked-environment", "crook", "none"),
        ("guest-crooked-environment", "crook", "endless-train"),
        ("guest-crooked-environment", "crook", "alike-openings"),
        ("guest-crooked-tool", "crook", "none"),
        ("guest-hostile-reward", "behaviour", "good"),
    ] {
        let settings = SuiteSettings { options: text(option, honest), ..settings.clone() };
        let report = check(&sandbox, name, &read(name), settings).await;
        assert_eq!(report.failures().collect::<Vec<_>>(), [], "{name} with {honest} is honest");
    }
    for (name, option, misdeed, expected) in CROOKS {
        let settings = SuiteSettings { options: text(option, misdeed), ..settings.clone() };
        let report = check(&sandbox, name, &read(name), settings).await;
        let failures: Vec<_> = report.failures().collect();
        assert!(failed(&report).contains(expected), "{name} with {misdeed}: {failures:?}");
        note(&report);
    }
    for (expected, bytes) in forgeries() {
        let report = check(&sandbox, expected, &bytes, settings.clone()).await;
        let failures: Vec<_> = report.failures().collect();
        assert!(failed(&report).contains(expected), "{expected}: {failures:?}");
        note(&report);
    }
    let noticed = noticed.into_inner().expect("no test panics here");
    assert!(all_checks().iter().map(|check| check.name).eq(suite_checks()), "a registry asks for these checks");
    let unproven: Vec<&str> =
        all_checks().iter().map(|check| check.name).filter(|name| !noticed.contains(*name)).collect();
    assert_eq!(unproven, Vec::<&str>::new(), "no guest fails these checks");
}

/// Defects in the component itself, which an option cannot select.
fn forgeries() -> [(&'static str, Vec<u8>); 5] {
    let (environment, tool, asking) = ("guest-crooked-environment", "guest-crooked-tool", "guest-asking-tool");
    let idle = (r#"selectable defect","capabilities":[]"#, r#"selectable ","capabilities":["http"]"#);
    let hidden = (
        r#"run can grant","capabilities":["assets","model","http"]"#,
        r#"run can grant, too..","capabilities":["assets","model"]"#,
    );
    [
        ("describes-itself", forged(environment, "Unused", "      ")),
        // It knows the option that the check expects to be unknown.
        ("options", forged(environment, "spare-option-x", "no-such-option")),
        ("capabilities", forged(tool, idle.0, idle.1)),
        ("capabilities", forged(asking, hidden.0, hidden.1)),
        ("loads", forged(asking, hidden.0, hidden.1)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_plugins_end_in_a_report() {
    // Other settings are other misdeeds.
    let settings = SuiteSettings { steps: 20, most_settings: 0, ..narrow() };
    let sandbox = sandbox(&settings);
    for name in
        ["guest-hostile-tool", "guest-hostile-environment", "guest-start-loop", "guest-editing-tool", "guest-experts"]
    {
        let report = check(&sandbox, name, &read(name), settings.clone()).await;
        assert_eq!(report.checks.len(), all_checks().len(), "{name}");
    }
    let misdeeds = [
        "trap-start",
        "loop-start",
        "no-observation",
        "malformed-functions",
        "nan-reward",
        "huge-observation",
        "bad-seat",
        "nan-extra",
        "memory-step",
        "loop-privileged",
        "trap-snapshot",
    ];
    for misdeed in misdeeds {
        let name = "guest-hostile-environment";
        let settings = SuiteSettings { options: text("behaviour", misdeed), ..settings.clone() };
        let report = check(&sandbox, name, &read(name), settings).await;
        assert!(!failed(&report).is_empty(), "{misdeed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cause_is_described_once() {
    let settings = SuiteSettings { options: text("behaviour", "trap-step"), ..narrow() };
    let name = "guest-hostile-environment";
    let report = check(&sandbox(&settings), name, &read(name), settings).await;
    let mut failures = report.checks.iter().filter(|check| matches!(check.outcome, CheckOutcome::Failed(_)));
    let describes = |check: &&Check| format!("{:?}", check.outcome).contains("a panic, as asked");
    let first = failures.find(describes).expect("a check that describes the panic");
    assert_eq!(first.same_cause_as, None, "{first:?}");
    let refers = |check: &&Check| check.same_cause_as.as_ref() == Some(&first.name);
    let others: Vec<(&str, String)> =
        failures.filter(refers).map(|check| (check.name.as_str(), format!("{:?}", check.outcome))).collect();
    assert!(others.iter().any(|(name, _)| *name == "fuzz"), "{report:?}");
    assert!(others.iter().any(|(name, _)| *name == "isolation"), "{report:?}");
    let start = format!("Failed(\"same cause as `{}`: ", first.name);
    assert!(
        others.iter().all(|(_, outcome)| outcome.starts_with(&start) && !outcome.contains("as asked")),
        "{others:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_are_shown_as_values() {
    let settings = SuiteSettings { options: text("crook", "counts-starts"), ..narrow() };
    let name = "guest-crooked-environment";
    let report = check(&sandbox(&settings), name, &read(name), settings).await;
    let why = report.failures().find(|(name, _)| *name == "same-seed-same-bytes").map(|(_, why)| why);
    let shown = "observations[0].content: \"The word ends in ";
    assert!(why.is_some_and(|why| why.contains(shown) && why.contains("\", then \"The word")), "{report:?}");
}

/// Messages name tasks, endings and remedies in words, without the forms of this program's own types.
#[tokio::test(flavor = "multi_thread")]
async fn findings_are_written_for_authors() {
    let settings = narrow();
    let sandbox = sandbox(&settings);
    for (crook, check_name, words) in [
        (
            "third-split",
            "splits-and-tasks",
            &["the first 6 tasks of `dev` are tasks of `train` too, such as \"The word ends in "][..],
        ),
        ("endless-reversed", "splits-and-tasks", &["the first 6 tasks of `test` are tasks of `train` too, such as"]),
        (
            "alike-splits",
            "splits-and-tasks",
            &["the first 12 tasks of `test` are tasks of `train` too, by privileged facts and snapshots"],
        ),
        ("lost-oracle", "oracle", &["the oracle's episode of task train/0 with seed ", " ended as truncated; "]),
        (
            "refuses-restore",
            "snapshots",
            &[
                "its own snapshot before step 0 of ",
                " could not be restored: ",
                "no state can be restored",
                "`restore` refuses what `snapshot` wrote: correct one of them",
            ],
        ),
    ] {
        let settings = SuiteSettings { options: text("crook", crook), ..settings.clone() };
        let name = "guest-crooked-environment";
        let report = check(&sandbox, name, &read(name), settings).await;
        let why = report.failures().find(|(name, _)| *name == check_name).map(|(_, why)| why);
        let is_told = |why: &str| words.iter().all(|word| why.contains(word)) && !why.contains(" { ");
        assert!(why.is_some_and(is_told), "{crook}: {why:?}");
        if crook == "refuses-restore" {
            // The check of the keys restores states too.
            let keys = report.checks.iter().find(|check| check.name == "state-keys");
            assert_eq!(keys.and_then(|check| check.same_cause_as.as_deref()), Some("snapshots"), "{report:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_tried_at_their_limits() {
    let settings = narrow();
    let sandbox = sandbox(&settings);
    let outcome = async |options: Vec<NamedValue>, most_settings: usize| {
        let name = "guest-crooked-environment";
        let report =
            check(&sandbox, name, &read(name), SuiteSettings { options, most_settings, ..settings.clone() }).await;
        report.checks.into_iter().find(|check| check.name == "option-limits").expect("every report has it").outcome
    };
    let passed = |seen: &str| CheckOutcome::Passed(seen.to_owned());
    // At size=1 and size=5, with doubled=true, and with both size=5 and doubled=true.
    let all = "4 settings of 2 options were tried; without limits: spare-option-x";
    assert_eq!(outcome(text("crook", "none"), 32).await, passed(all));
    let few = "2 of 4 settings of 2 options were tried; without limits: spare-option-x";
    assert_eq!(outcome(text("crook", "none"), 2).await, passed(few));
    let combination = "4 settings of 2 options were tried; refused together: size=5 doubled=true; without limits: \
                       spare-option-x";
    assert_eq!(outcome(text("crook", "refuses-both"), 32).await, passed(combination));

    let why = async |crook: &str| match outcome(text("crook", crook), 32).await {
        CheckOutcome::Failed(why) => why,
        other => panic!("{crook}: {other:?}"),
    };
    let alone = why("breaks-at-most").await;
    assert!(alone.starts_with("at size=5: ") && alone.contains("the size is too large"), "{alone}");
    assert!(alone.ends_with("; it also fails at size=5 doubled=true"), "{alone}");
    let both = why("breaks-both").await;
    assert!(both.starts_with("at size=5 doubled=true: "), "{both}");
    let refused = why("refuses-least").await;
    assert!(refused.starts_with("at size=1: `start` refuses it: "), "{refused}");
    assert!(refused.ends_with("; correct the limits in the option's description, or accept the value"), "{refused}");

    // What the user sets is not varied.
    let size = NamedValue { name: "size".to_owned(), value: Value::Integer(4) };
    let given = [text("crook", "breaks-at-most"), vec![size]].concat();
    assert_eq!(outcome(given, 32).await, passed("1 setting of 1 option was tried; without limits: spare-option-x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_without_their_input_are_skipped() {
    let settings = narrow();
    let sandbox = sandbox(&settings);
    let skipped = |report: &Report, name: &str| {
        let found = report.checks.iter().find(|check| check.name == name).expect("every report has every check");
        matches!(found.outcome, CheckOutcome::Skipped(_))
    };
    let wants = SuiteSettings { options: text("crook", "wants-setup"), ..settings.clone() };
    let tool = "guest-crooked-tool";
    let without = check(&sandbox, tool, &read(tool), wants.clone()).await;
    assert_eq!(failed(&without), BTreeSet::new());
    assert!(skipped(&without, "fuzz") && skipped(&without, "invalid-actions"), "{without:?}");
    let with = check(&sandbox, tool, &read(tool), SuiteSettings { setup: Some(b"prepared".to_vec()), ..wants }).await;
    assert_eq!(failed(&with), BTreeSet::new());
    assert!(!skipped(&with, "fuzz") && !skipped(&with, "invalid-actions"), "{with:?}");
}

/// A reward may refuse synthetic episodes. Its totals and components are known only if it scores others.
#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_scored_nothing_fails() {
    let settings = SuiteSettings { options: text("behaviour", "picky"), ..narrow() };
    let reward = "guest-hostile-reward";
    let report = check(&sandbox(&settings), reward, &read(reward), settings).await;
    let why = report.failures().find(|(name, _)| *name == "scores").map(|(_, why)| why).expect("a failure");
    assert!(why.starts_with("it gave no episode a total: ") && why.contains("refused as invalid, such as "), "{why}");
    assert!(
        why.ends_with("; give it episodes that it can score, with `--with ENVIRONMENT.wasm` or `--on RUN`"),
        "{why}"
    );
    assert!(!why.contains("inf"), "{why}");
}

/// The starts of this environment are costly, so that its suite is thinned where it may be.
#[tokio::test(flavor = "multi_thread")]
async fn a_thinned_suite_compares_splits_and_says_that_it_is_thinned() {
    let settings = SuiteSettings { thin_costly: true, options: text("crook", "costly-same-splits"), ..narrow() };
    let name = "guest-crooked-environment";
    let report = check(&sandbox(&settings), name, &read(name), settings).await;
    let why = report.failures().find(|(name, _)| *name == "splits-and-tasks").map(|(_, why)| why);
    let words = "the first 12 tasks of `train` are tasks of `test` too";
    let other = "the first 12 tasks of `test` are tasks of `train` too";
    assert!(why.is_some_and(|why| why.starts_with(words) || why.starts_with(other)), "{report:?}");
    assert!(report.thinned, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_decides_whether_an_environments_oracle_succeeds() {
    let settings = SuiteSettings { steps: 10, ..SuiteSettings::default() };
    let sandbox = sandbox(&settings);
    let load = |name: &str| {
        (
            Plugin::load(&sandbox, &component(name), &Grants::default()).expect("a sound plugin"),
            Vec::<NamedValue>::new(),
        )
    };
    let oracle =
        |report: &Report| report.checks.iter().find(|check| check.name == "oracle").map(|check| check.outcome.clone());
    let alone = check(&sandbox, "word-problems", &read("word-problems"), settings.clone()).await;
    let words = "train: 8 of 8 ended, success unknown";
    assert!(matches!(oracle(&alone), Some(CheckOutcome::Passed(seen)) if seen.contains(words)), "{alone:?}");
    let beside = SuiteSettings { beside: vec![load("answer-match"), load("calculator")], ..settings.clone() };
    let judged = check(&sandbox, "word-problems", &read("word-problems"), beside).await;
    let words = "train: success at 8 of 8, test: success at 8 of 8";
    assert!(matches!(oracle(&judged), Some(CheckOutcome::Passed(seen)) if seen == words), "{judged:?}");
    // Conversely, the environment produces the reward's episodes.
    let beside = SuiteSettings { beside: vec![load("word-problems"), load("calculator")], ..settings };
    let scored = check(&sandbox, "answer-match", &read("answer-match"), beside).await;
    assert_eq!(failed(&scored), BTreeSet::new());
    let scores = scored.checks.iter().find(|check| check.name == "scores").map(|check| format!("{:?}", check.outcome));
    assert!(scores.as_deref().is_some_and(|seen| seen.contains("114 groups were scored")), "{scores:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_with_equal_seeds_differ_only_in_times() {
    let settings = SuiteSettings { steps: 200, ..narrow() };
    let run = async |seed: u64| {
        let sandbox = sandbox(&settings);
        let mut report =
            check(&sandbox, "guest", &read("guest-crooked-tool"), SuiteSettings { seed, ..settings.clone() }).await;
        // The text of this check contains wall-clock times.
        report.checks.retain(|check| check.name != "cost");
        report
    };
    let (first, second, mut other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(first, second);
    // Another seed plays other episodes, which the findings show.
    other.seed = first.seed;
    assert_ne!(first, other);
    let json = serde_json::to_string(&first).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("a report"), first);
}

#[test]
fn the_documentation_explains_every_check() {
    let page = fs::read_to_string(root().join("docs/reference/conformance.md")).expect("the page for authors");
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let checks: Vec<&str> = all_checks().iter().map(|check| check.name).collect();
    assert_eq!(sections, checks);
}
