//! Folders that were recorded with an earlier contract of plugins: what reads them, and what refuses them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::served::serve_folder;
use crate::common::{Desk, files_below};

/// A successful episode of the folder.
const SOLVED: &str = "0.train.1.0.3.0";

/// The committed folder of this name.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// A desk with a copy of a committed folder as `out`.
fn recorded(name: &str) -> Desk {
    let desk = Desk::new();
    for (file, _) in files_below(&fixture(name)) {
        let copy = desk.path("out").join(&file);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder can be made");
        fs::copy(fixture(name).join(&file), copy).expect("a file can be copied");
    }
    desk
}

#[test]
fn a_folder_of_an_earlier_contract_is_read() {
    let desk = recorded("folder-0.1");
    let shown = desk.host(&["show", "out"]).succeeded();
    assert!(shown.contains("32 episodes") && shown.contains("plugin guest/guest-recall 0.1.0 77aee232"), "{shown}");
    let episode = desk.host(&["show", "out", "--episode", SOLVED]).succeeded();
    assert!(episode.contains("You will need this letter at the end of the episode: A"), "{episode}");
    let lines = desk.host(&["data", "export", "out", "--format", "openai"]).succeeded();
    assert_eq!(lines.lines().count(), 32, "{lines}");
    let page = serve_folder(&desk, &[]).get(&format!("/runs/0/episodes/{SOLVED}"));
    assert!(page.contains("You will need this letter at the end of the episode: A"), "{page}");
}

#[test]
fn a_folder_of_an_earlier_contract_is_scored_with_plugins_of_this_one() {
    let desk = recorded("folder-0.1");
    let by_fact = "rewards.tool-efficiency.options.correct-by=\"fact\"";
    let rescore = |plugins: &str| desk.host(&["rescore", "out", "--plugins", plugins, "--set", by_fact, "--json"]);
    let refused = rescore("plugins/tool-efficiency.wasm").mistake("an environment of an earlier contract");
    assert!(refused.contains("plugin `guest/guest-recall` was built for contract 0.1.0"), "{refused}");
    assert!(refused.contains("hint: `host rescore --plugins` takes the plugin"), "{refused}");
    let scored = rescore("plugins/guest-recall.wasm,plugins/tool-efficiency.wasm").succeeded();
    let scored: serde_json::Value = serde_json::from_str(&scored).expect("JSON");
    assert_eq!((&scored["episodes"], &scored["failed"]), (&32.into(), &0.into()), "{scored}");
    // One episode of 32 met the rule.
    assert_eq!(scored["figures"]["tool-efficiency.correct"]["now"], 1.0 / 32.0, "{scored}");
    let other = rescore("plugins/word-problems.wasm").mistake("an environment that replaces none");
    assert!(other.contains("`gymkhana/word-problems` is not a reward"), "{other}");
}

#[test]
fn a_folder_of_an_earlier_contract_is_not_replayed() {
    let desk = recorded("folder-0.1");
    let refused = desk.host(&["replay", "out"]).mistake("an earlier contract");
    for words in [
        "plugin `guest/guest-recall` was built for contract 0.1.0, but this host implements 0.2.0",
        "hint: replay it with the host that recorded it; here `host show`, `host data export` and `host rescore` read it",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    let page = serve_folder(&desk, &["--allow-replay"]).post(&format!("/runs/0/episodes/{SOLVED}/replay?turn=0"));
    assert!(page.contains("was built for contract 0.1.0"), "{page}");
}
