//! Folders that were recorded with an earlier contract of plugins: what reads them, and what refuses them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::served::serve_folder;
use crate::common::{Desk, files_below};

/// A successful episode of the folder.
const SOLVED: &str = "0.train.1.0.3.0";

/// Run of the folder of contract 0.2.0: an oracle, a wrapper, a tool and a reward.
const RUN: &str = r#"
seed = 1
success = "guest-hostile-reward.whole"

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }

[environment]
options = { difficulty = 1 }
wrap = [{ plugin = "turn-cost", price = 0.125, budget = 3 }]

[plugins.guest-hostile-reward]
options = { behaviour = "turns" }

[limits]
turns = 3
reply_tokens = 16

[evaluation]
tasks = 2

[[stages]]
kind = "sft"
steps = 2
batch = 4

[[stages]]
kind = "rl"
steps = 2
groups = 2
group_size = 2
"#;

/// Plugins of that run.
const PLUGINS: &str = "plugins/word-problems.wasm,plugins/turn-cost.wasm,plugins/calculator.wasm,\
                       plugins/guest-hostile-reward.wasm";

/// The committed folder of this name.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn copy(from: &Path, to: &Path, is_kept: impl Fn(&str) -> bool) {
    for (file, _) in files_below(from).into_iter().filter(|(file, _)| is_kept(file)) {
        let copy = to.join(&file);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder can be made");
        fs::copy(from.join(&file), copy).expect("a file can be copied");
    }
}

/// A desk with a copy of a committed folder as `out`.
fn recorded(name: &str) -> Desk {
    let desk = Desk::new();
    copy(&fixture(name), &desk.path("out"), |_| true);
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
    let by_fact = "plugins.tool-efficiency.options.correct-by=\"fact\"";
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

/// From contract 0.2.0 on a replay never breaks: if this test fails, the host needs an adapter for that contract.
#[test]
fn a_folder_of_contract_0_2_is_replayed_byte_for_byte() {
    let desk = recorded("folder-0.2");
    let told = desk.host(&["replay", "out", "--forks"]).succeeded();
    assert!(told.contains("28 episodes replayed, every byte equal: 28"), "{told}");
    assert!(told.contains("episodes with equal forks: 28"), "{told}");
    assert!(desk.host(&["show", "out"]).succeeded().contains("plugin gymkhana/turn-cost 0.1.0"));
}

/// Only for a change of the run's files that is no change of the contract.
#[test]
#[ignore = "writes the committed folder of contract 0.2.0"]
fn the_folder_of_contract_0_2_is_recorded() {
    let desk = Desk::with_run_file(RUN);
    desk.run(PLUGINS, &[]).succeeded();
    fs::remove_dir_all(fixture("folder-0.2")).expect("the committed folder");
    let left_out = ["checkpoints/", "tensorboard/", ".lock"];
    let is_kept = |file: &str| !left_out.iter().any(|start| file.starts_with(start));
    copy(&desk.path("out"), &fixture("folder-0.2"), is_kept);
}
