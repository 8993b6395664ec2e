//! Plugins that a run file names: files beside it, `--plugins` above them, and what is left out.

use std::fs;

use gymkhana_store::RunReader;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};

/// The small run with its plugins, in a folder beside them.
fn desk(plugins: &str) -> Desk {
    let desk = Desk::new();
    fs::create_dir(desk.path("files")).expect("a folder");
    let sections = SMALL_RUN.replace("[plugins.answer-match]\n", "");
    let (before, after) = sections.split_once("[policy]").expect("a policy");
    let options = "options = { per-call-cost = 0.5 }\n";
    let after = after.replace(options, "");
    desk.write("files/small.toml", format!("{before}{plugins}\n[policy]{after}"));
    desk
}

const FILES: &str = r#"
[plugins]
word-problems = "../plugins/word-problems.wasm"
calculator = "../plugins/calculator.wasm"
[plugins.answer-match]
use = "../plugins/answer-match.wasm"
options = { per-call-cost = 0.5 }
"#;

#[test]
fn a_run_file_alone_is_a_run() {
    let desk = desk(FILES);
    desk.host(&["run", "files/small.toml"]).succeeded();
    // The folder is that of the file's name; its lock says what was used, and its run file what was set.
    let run = RunReader::open(&desk.path("out/small")).expect("a run");
    let names: Vec<String> = run.lock().expect("a lock").entries().iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names, ["gymkhana/answer-match", "gymkhana/calculator", "gymkhana/word-problems"]);
    let text = run.run_text().expect("a run file");
    assert!(text.contains("[plugins.answer-match.options]\nper-call-cost = 0.5"), "{text}");
    assert!(!text.contains("use =") && !text.contains("[plugins.calculator]"), "{text}");
    desk.host(&["replay", "out/small"]).succeeded();
    let more = ["run", "files/small.toml", "--resume", "out/small", "--set", "stages.rl.steps=3"];
    desk.host(&more).succeeded();
    // The same as with the plugins on the command line.
    desk.write("run.toml", SMALL_RUN);
    let given = ["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", "given", "--set", "stages.rl.steps=3"];
    desk.host(&given).succeeded();
    let rewards = |out: &str| -> Vec<Vec<f64>> {
        let run = RunReader::open(&desk.path(out)).expect("a run");
        let mut all: Vec<_> =
            run.episodes().expect("episodes").read_all().map(|record| record.expect("a record")).collect();
        all.sort_by_key(|record| record.id);
        all.into_iter().map(|record| record.rewards).collect()
    };
    assert_eq!(rewards("out/small"), rewards("given"));
}

#[test]
fn the_command_line_wins_and_adds() {
    let desk = desk(&FILES.replace("../plugins/calculator.wasm", "./missing.wasm"));
    let refused = desk.host(&["run", "files/small.toml", "--dry-run"]).mistake("a file that is not there");
    assert!(refused.contains("files/./missing.wasm"), "{refused}");
    let given = "plugins/calculator.wasm,plugins/tool-efficiency.wasm";
    let planned = desk.host(&["run", "files/small.toml", "--plugins", given, "--dry-run"]).succeeded();
    assert!(planned.contains("tool-efficiency"), "{planned}");
}

#[test]
fn a_plugin_is_left_out() {
    let desk = desk(FILES);
    let planned =
        desk.host(&["run", "files/small.toml", "--dry-run", "--set", "plugins.calculator.use=off"]).succeeded();
    assert!(!planned.contains("calculate"), "{planned}");
    let planned = desk.host(&["run", "files/small.toml", "--dry-run"]).succeeded();
    assert!(planned.contains("calculate"), "{planned}");
}

#[test]
fn sections_that_do_not_fit_are_refused() {
    let desk = desk(FILES);
    for (set, message) in [
        ("plugins.calculator.use=../plugins/sql.wasm", "which holds plugin `sql`\nhint: write it below [plugins.sql]"),
        ("plugins.calculator.use=sql@^1", "plugins.calculator.use is `sql@^1`, the name of another plugin"),
        ("plugins.calculator.use=a b", "plugins.calculator.use is `a b`\nhint: write versions such as `^0.1`"),
        ("plugins.calculator.weight=2", "plugins.calculator.weight is set, but plugin `calculator` is not a reward"),
        (
            "plugins.word-problems.options={ difficulty = 1 }",
            "plugin `word-problems` is an environment\nhint: write its options in [environment]",
        ),
        ("plugins.calculater.shared=true", "[plugins.calculater] is unused: no such plugin is given"),
    ] {
        let refused = desk.host(&["run", "files/small.toml", "--dry-run", "--set", set]).mistake(set);
        assert!(refused.contains(message), "{refused}");
    }
    desk.write("none.toml", "[[stages]]\nkind = \"rl\"\n");
    let refused = desk.host(&["run", "none.toml", "--dry-run"]).mistake("no plugins");
    assert!(refused.contains("no plugins are given\nhint: name them in [plugins] of the run file"), "{refused}");
    desk.write("none.toml", "[environment]\n");
    let refused = desk.host(&["run", "none.toml", "--plugins", WORD_PROBLEMS, "--dry-run"]).mistake("no stage");
    assert!(refused.contains("the run file has no stage"), "{refused}");
}
