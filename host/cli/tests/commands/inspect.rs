//! Output of `host plugin inspect`.

use crate::common::Desk;
use gymkhana_registry::{Digest, contract};

fn check(name: &str, text: &str) {
    insta::with_settings!({
        filters => vec![
            (r"[0-9a-f]{64}", "[DIGEST]"),
            (r"\d+ bytes", "[SIZE] bytes"),
            (r#""bytes": \d+"#, r#""bytes": [SIZE]"#),
            (r"test: \d+ tasks", "test: [TASKS] tasks"),
            (r#""tasks": \d+"#, r#""tasks": [TASKS]"#),
        ],
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn for_people_and_for_programs() {
    let desk = Desk::new();
    let file = "plugins/frozen-lake.wasm";
    let people = desk.host(&["plugin", "inspect", file]).succeeded();
    let digest = Digest::of(&std::fs::read(desk.path(file)).expect("a plugin")).to_string();
    assert!(people.contains(&digest), "{people}");
    check("inspect", &people);
    let programs = desk.host(&["plugin", "inspect", file, "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&programs).expect("JSON");
    assert_eq!((&parsed["digest"], &parsed["runs_here"]), (&digest.into(), &true.into()));
    check("inspect-json", &programs);
}

/// JSON of a manifest with this description and these kinds.
fn manifest(description: &str, kinds: &str) -> String {
    let (digest, description) = (contract::digest(), serde_json::json!(description));
    format!(
        r#"{{"schema":1,"namespace":"acme","name":"searcher","version":"1.0.0","kinds":[{kinds}],"contract":{{"version":"0.2.0","digest":"{digest}"}},"license":"MIT","description":{description},"capabilities":["http"],"deterministic":true}}"#
    )
}

/// A description is the author's: its line ends must not add lines that look like the host's.
#[test]
fn a_description_forges_no_lines() {
    let desk = Desk::new();
    let forged = "Adds.\n    wants  none\n   digest  0000\u{61c}";
    desk.write("forged.wasm", crate::plugins::tool(&manifest(forged, "\"tool\"")));
    let shown = desk.host(&["plugin", "inspect", "forged.wasm"]).succeeded();
    assert!(shown.contains(r"    about  Adds.\n    wants  none\n   digest  0000\u{61c}"), "{shown}");
    let starts = |row: &str| shown.lines().filter(|line| line.trim_start().starts_with(row)).count();
    assert_eq!((starts("wants"), starts("digest")), (1, 1), "{shown}");
    assert!(shown.contains("    wants  http\n"), "{shown}");
    // It has no code to ask, which is said and hides nothing else.
    assert!(shown.contains("options  not known: "), "{shown}");
    let programs = desk.host(&["plugin", "inspect", "forged.wasm", "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&programs).expect("JSON");
    assert!(parsed["description"].is_null() && parsed["description_error"].is_string(), "{programs}");
}

#[test]
fn tools_and_rewards_describe_functions_and_components() {
    let desk = Desk::new();
    let inspect = |name: &str| desk.host(&["plugin", "inspect", &format!("plugins/{name}.wasm")]).succeeded();
    let tool = inspect("calculator");
    let function = " functions  calculate: Exact arithmetic with + - * / ^ and parentheses. {";
    assert!(tool.contains(function) && tool.contains("such as (12+30)*45 or 7/3"), "{tool}");
    assert!(tool.contains("   options  none\n") && tool.contains("    offers  snapshots\n"), "{tool}");
    let reward = inspect("answer-match");
    assert!(reward.contains("components  correct: 1 if the final message contains the answer, else 0\n"), "{reward}");
    assert!(reward.contains("per-call-cost = 0.0 (number): Points deducted per call (at least 0)\n"), "{reward}");
    let needs = "privileged  an episode without fields is not scored: ";
    assert!(reward.contains(needs) && reward.contains("`answer`"), "{reward}");
    assert!(inspect("guest-echo").contains("     facts  not known with default options: it has no oracle"));
    // Without a calculator, the oracle of word problems answers itself, and that of the experts does not.
    assert!(inspect("word-problems").contains("     facts  none\n"));
    let tooled = inspect("guest-experts");
    assert!(tooled.contains("facts  not known with default options: its oracle calls `calculate`"), "{tooled}");
}

/// Splits, functions and facts that depend on options, assets and tools.
#[test]
fn a_plugin_is_described_with_given_inputs() {
    let desk = Desk::new();
    let inspect = |plugin: &str, more: &[&str]| {
        desk.host(&[&["plugin", "inspect", &format!("plugins/{plugin}.wasm")], more].concat())
    };
    let bare = inspect("dataset", &[]).succeeded();
    assert!(bare.contains("    splits  not known with default options: "), "{bare}");
    let question = |split: &str| format!("{{\"prompt\": \"{split}?\", \"answer\": \"3\", \"split\": \"{split}\"}}\n");
    desk.write("own.jsonl", question("train") + &question("train").replace('?', "!") + &question("test"));
    let asset = ["--asset", "data.rows=own.jsonl"];
    let shown = inspect("dataset", &asset).succeeded();
    assert!(shown.contains("    splits  test: 1 task\n            train: 2 tasks\n"), "{shown}");
    assert!(shown.contains("privileged  answer\n"), "{shown}");
    let programs = inspect("dataset", &[&asset[..], &["--json"]].concat()).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&programs).expect("JSON");
    let splits = serde_json::json!([{ "name": "test", "tasks": 1 }, { "name": "train", "tasks": 2 }]);
    assert_eq!(parsed["description"]["environment"]["splits"], splits, "{programs}");

    // No map of size 2 is held out.
    let small = inspect("frozen-lake", &["--option", "size=2"]).succeeded();
    assert!(
        !small.contains(" test: ") && inspect("frozen-lake", &[]).succeeded().contains(" test: 256 tasks"),
        "{small}"
    );
    let told = inspect("frozen-lake", &["--option", "siz=5"]).succeeded();
    assert!(told.contains("    splits  not known with these options: ") && told.contains("`siz`"), "{told}");

    let tooled = inspect("guest-experts", &["--with", "plugins/calculator.wasm"]).succeeded();
    assert!(tooled.contains("     facts  success\n"), "{tooled}");
    let other = inspect("guest-experts", &["--with", "plugins/answer-match.wasm"]).succeeded();
    assert!(other.contains("facts  not known with these options: its oracle calls `calculate`, which no"), "{other}");
    for (plugin, more, reason) in [
        ("calculator", &["--with", "plugins/answer-match.wasm"][..], "--with needs an environment"),
        ("dataset", &["--asset", "data.rows=absent"], "asset `data.rows` cannot be read"),
        ("frozen-lake", &["--option", "size"], "--option `size` has no `=`"),
    ] {
        let told = inspect(plugin, more).mistake(plugin);
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn a_folder_is_inspected_once_it_is_built() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("mine")).expect("a folder");
    desk.host(&["plugin", "inspect", "mine"]).mistake("no plugin's folder");
    desk.write("mine/Cargo.toml", "[package]\nname = \"calculator\"\n");
    // A file with the folder's name, as of a plugin that was renamed, is not taken for the component.
    std::fs::copy(desk.path("plugins/answer-match.wasm"), desk.path("mine/mine.wasm")).expect("copied");
    let told = desk.host(&["plugin", "inspect", "mine"]).mistake("not built");
    let hint = "`mine` has no `mine/calculator.wasm`\nhint: build it with `host plugin build mine`";
    assert!(told.contains(hint), "{told}");
    std::fs::copy(desk.path("plugins/calculator.wasm"), desk.path("mine/calculator.wasm")).expect("copied");
    let shown = desk.host(&["plugin", "inspect", "mine"]).succeeded();
    assert!(shown.contains("gymkhana/calculator 0.1.0"), "{shown}");
}

/// The reason quotes the manifest, which must not add lines either.
#[test]
fn an_invalid_manifest_is_refused_with_its_reason() {
    let desk = Desk::new();
    desk.write("run.toml", crate::common::SMALL_RUN);
    for (kinds, reason) in
        [("\"tol\"", "unknown variant `tol`"), ("\"x\\nhint: run this\"", "unknown variant `x\\nhint: run this`")]
    {
        desk.write("invalid.wasm", crate::plugins::tool(&manifest("Adds.", kinds)));
        for refused in [
            desk.host(&["plugin", "inspect", "invalid.wasm"]),
            desk.host(&["plugin", "test", "invalid.wasm"]),
            desk.run("plugins/word-problems.wasm,./invalid.wasm", &[]),
        ] {
            let told = refused.mistake("an invalid manifest");
            assert!(told.contains("the manifest is invalid") && told.contains(reason), "{told}");
            assert!(!told.contains("\nhint: run this"), "{told}");
        }
    }
}
