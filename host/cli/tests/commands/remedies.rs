//! Mistakes whose message says where the right thing is.

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};

#[test]
fn commands_without_plugins_say_how_they_take_them() {
    let desk = Desk::new();
    let refused = desk.host(&["serve"]).mistake("no plugins");
    assert!(refused.contains("no plugins are given\nhint: name their files, "), "{refused}");
    assert!(!refused.contains("--plugins"), "{refused}");
    desk.write("run.toml", SMALL_RUN);
    let refused = desk.host(&["run", "run.toml", "--out", "out"]).mistake("no plugins");
    assert!(refused.contains("hint: name them in [plugins] of the run file, give --plugins, "), "{refused}");
}

#[test]
fn a_wrapper_without_an_environment_is_a_wrong_input() {
    let desk = Desk::new();
    let refused = desk.host(&["plugin", "test", "plugins/turn-cost.wasm"]).mistake("a wrapper alone");
    assert!(refused.contains("hint: name some with --with, "), "{refused}");
}

#[test]
fn files_that_were_meant_are_named() {
    let desk = Desk::with_run_file(SMALL_RUN);
    std::fs::copy(desk.path("plugins/word-problems.wasm"), desk.path("word-problems.wasm")).expect("a copy");
    let refused = desk.run("word-problems,plugins/calculator.wasm,plugins/answer-match.wasm", &[]).mistake("a name");
    assert!(refused.contains("hint: did you mean the file `./word-problems.wasm`?"), "{refused}");
    let refused = desk.run("plugins/word-problem.wasm", &[]).mistake("a misspelt path");
    assert!(refused.contains("hint: did you mean `plugins/word-problems.wasm`?"), "{refused}");
    let refused = desk.run("plugins/zzz.wasm", &[]).mistake("another path");
    assert!(refused.contains("hint: check the path"), "{refused}");
}

#[test]
fn keys_of_other_places_are_told_where_they_belong() {
    for (more, words) in [
        ("deterministic = true\n", "hint: `deterministic` is a key of the top level: write it above the first section"),
        ("batch = 4\n", "hint: `batch` is a key of stages of the kind `sft`"),
    ] {
        let desk = Desk::with_run_file(&format!("{SMALL_RUN}{more}"));
        let refused = desk.run(WORD_PROBLEMS, &[]).mistake(more);
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn misspelt_commands_and_large_numbers_are_explained() {
    let desk = Desk::new();
    for (typed, near) in [(&["rn"][..], "'run'"), (&["plugin", "tets"], "'test'"), (&["shwo"], "'show'")] {
        let refused = desk.host(typed).mistake("a command");
        assert!(refused.contains("a similar subcommand exists: ") && refused.contains(near), "{refused}");
    }
    let refused = desk.host(&["man"]).mistake("another command");
    assert!(!refused.contains("similar"), "{refused}");
    let play = ["plugin", "play", "plugins/word-problems.wasm", "--task", "99999999999999999999"];
    let refused = desk.host(&play).mistake("a large number");
    assert!(refused.contains("invalid value '99999999999999999999' for '--task <NUMBER>': the number is too large"));
    assert!(!refused.contains("target type"), "{refused}");
}
