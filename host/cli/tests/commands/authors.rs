//! Commands of plugin authors: create, build, test, play and measure a plugin.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::terminal::in_terminal;
use crate::common::{Desk, Outcome, finish};
use gymkhana_registry::{Digest, Report};

/// Runs `host` with a build folder that all new plugins share, with downloaded dependencies.
fn author(desk: &Desk, arguments: &[&str]) -> Outcome {
    let mut command = desk.command(arguments);
    finish(command.env("CARGO_TARGET_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/authors")))
}

/// Copies this repository's lock file, so that no registry is needed.
fn lock(desk: &Desk, folder: &str) {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    fs::copy(lock, desk.path(folder).join("Cargo.lock")).expect("a lock file");
}

/// Runs `host` with these input lines.
fn typed(desk: &Desk, arguments: &[&str], lines: &str) -> Outcome {
    desk.write("typed", lines);
    let mut command: Command = desk.command(arguments);
    finish(command.stdin(Stdio::from(fs::File::open(desk.path("typed")).expect("a file"))))
}

#[test]
fn a_new_wrapper_builds_and_passes_around_an_environment() {
    let desk = Desk::new();
    let said = desk.host(&["plugin", "new", "counted", "--kind", "wrapper", "--namespace", "me"]);
    let next = "next: host plugin test counted --with ENVIRONMENT.wasm";
    assert!(said.talk.contains(next), "{said:?}");
    lock(&desk, "counted");
    let with = ["plugin", "test", "counted", "--steps", "200", "--with", "plugins/frozen-lake.wasm"];
    assert!(author(&desk, &with).succeeded().contains("me/counted 0.1.0 conforms"));
    // The observation is the environment's, with the wrapper's words.
    let play = ["plugin", "play", "plugins/frozen-lake.wasm", "--wrap", "counted/counted.wasm"];
    let played = typed(&desk, &play, "up\n");
    assert!(
        played.results.contains("[20 of 20 turns left]") && played.results.contains("[19 of 20 turns left]"),
        "{played:?}"
    );
    let python = desk.host(&["plugin", "new", "other", "--kind", "wrapper", "--lang", "python"]);
    assert!(python.mistake("python").contains("wrappers are written in Rust\nhint: leave out --lang"));
}

#[test]
fn a_new_plugin_of_each_kind_builds_and_passes() {
    let desk = Desk::new();
    for kind in ["environment", "tool", "reward"] {
        let name = format!("my-{kind}");
        let said = desk.host(&["plugin", "new", &name, "--kind", kind, "--namespace", "me"]).succeeded();
        assert_eq!(said, format!("created me/{name} in {name}\n"));
        let for_agents = fs::read_to_string(desk.path(&name).join("AGENTS.md")).expect("a page for coding agents");
        assert!(for_agents.contains("run `host plugin test .`"), "{for_agents}");
        lock(&desk, &name);
        let report = format!("{name}.json");
        let outcome = author(&desk, &["plugin", "test", &name, "--steps", "200", "--json", &report]);
        assert!(
            outcome.talk.contains("running the tests of") && outcome.talk.contains("test result: ok"),
            "{outcome:?}"
        );
        let said = outcome.succeeded();
        assert!(said.contains(&format!("me/{name} 0.1.0 conforms")), "{said}");
        let report: Report = serde_json::from_slice(&fs::read(desk.path(&report)).expect("a report")).expect("JSON");
        let component = fs::read(desk.path(&name).join(format!("{name}.wasm"))).expect("a component");
        assert_eq!(report.digest, Digest::of(&component));
        assert_eq!(report.failures().count(), 0);
        // An existing folder is not touched.
        let again = desk.host(&["plugin", "new", &name, "--kind", kind]);
        assert!(again.mistake("again").contains("already exists"), "{again:?}");
    }
    let built = author(&desk, &["plugin", "build", "my-tool", "--out", "notes.wasm"]).succeeded();
    assert!(built.starts_with("notes.wasm: me/my-tool 0.1.0, tool, "), "{built}");

    // A failing test of the author's and code that does not compile end before the suite starts.
    let source = desk.path("my-tool/src/lib.rs");
    let code = fs::read_to_string(&source).expect("a template");
    fs::write(&source, code.replace("assert!(failed &&", "assert!(!failed &&")).expect("a file");
    let failing = author(&desk, &["plugin", "test", "my-tool"]);
    assert_eq!((failing.code, failing.results.as_str()), (Some(2), ""), "{failing:?}");
    assert!(failing.talk.contains("cargo test --release` failed in `my-tool`"), "{failing:?}");
    fs::write(&source, code.replace("impl Tool for Notes", "impl Fool for Notes")).expect("a file");
    let broken = author(&desk, &["plugin", "build", "my-tool"]);
    assert_eq!(broken.code, Some(2));
    assert!(broken.talk.contains("cargo failed to build `my-tool`"), "{broken:?}");
}

#[test]
fn mistakes_of_authors() {
    let desk = Desk::new();
    fs::create_dir(desk.path("empty")).expect("a folder");
    let mut told = String::new();
    let mut tell = |arguments: &[&str]| {
        let arguments = [&["plugin"], arguments].concat();
        told.push_str(&desk.host(&arguments).mistake(&arguments.join(" ")));
    };
    tell(&["new", "Bad_Name", "--kind", "tool"]);
    tell(&["new", "good", "--kind", "tool", "--sdk", "nowhere"]);
    tell(&["new", "good", "--kind", "tool", "--lang", "js", "--sdk", "https://git.example.org/gymkhana.git"]);
    tell(&["build", "empty"]);
    tell(&["build", "nowhere"]);
    tell(&["test", "nothing.wasm"]);
    tell(&["test", "plugins/frozen-lake.wasm", "--option", "size"]);
    tell(&["test", "plugins/frozen-lake.wasm", "--option", "siz=5"]);
    tell(&["bench", "plugins/frozen-lake.wasm", "--option", "size=five"]);
    tell(&["play", "plugins/frozen-lake.wasm", "--option", "size=1"]);
    tell(&["test", "plugins/frozen-lake.wasm", "--asset", "words.txt"]);
    tell(&["test", "plugins/calculator.wasm", "--setup", "nothing"]);
    tell(&["play", "plugins/answer-match.wasm"]);
    tell(&["play", "plugins/frozen-lake.wasm", "--split", "trian"]);
    tell(&["play", "plugins/frozen-lake.wasm", "--with", "plugins/tic-tac-toe.wasm"]);
    tell(&["play", "plugins/calculator.wasm", "--privileged"]);
    tell(&["play", "plugins/tic-tac-toe.wasm", "--seat", "2"]);
    tell(&["play", "plugins/guest-two-seats.wasm", "--seat", "1"]);
    insta::assert_snapshot!("mistakes-of-authors", told);
}

#[test]
fn a_plugin_whose_source_is_shared_names_no_path_of_this_machine() {
    let desk = Desk::new();
    let new = |folder: &str, arguments: &[&str]| {
        let mut command = desk.command(&[&["plugin", "new"], arguments].concat());
        finish(command.current_dir(desk.path(folder))).succeeded()
    };
    let read = |file: &str| fs::read_to_string(desk.path(file)).expect("a file");
    let url = "https://git.example.org/gymkhana.git";
    new("", &["far", "--kind", "tool", "--sdk", url]);
    assert!(read("far/Cargo.toml").contains(&format!("gymkhana-sdk = {{ git = \"{url}\" }}\n")));
    new("", &["far-py", "--kind", "tool", "--lang", "python", "--sdk", url]);
    let line = format!("\ngymkhana-sdk[build] @ git+{url}#subdirectory=sdk/python\n");
    assert!(read("far-py/requirements.txt").contains(&line));

    // One repository with the SDKs and the plugins.
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (language, marker) in [("rust", "Cargo.toml"), ("python", "pyproject.toml"), ("js", "package.json")] {
        let sdk = format!("work/gymkhana/sdk/{language}");
        fs::create_dir_all(desk.path(&sdk)).expect("a folder");
        let from = repository.join("sdk").join(language).join(marker);
        fs::copy(from, desk.path(&sdk).join(marker)).expect("copied");
    }
    fs::create_dir_all(desk.path("work/.git")).expect("a folder");
    fs::create_dir_all(desk.path("work/plugins")).expect("a folder");
    for (language, file, dependency) in [
        ("rust", "Cargo.toml", "gymkhana-sdk = { path = \"../../gymkhana/sdk/rust\" }\n"),
        ("python", "requirements.txt", "\n../../gymkhana/sdk/python[build]\n"),
        ("js", "package.json", "\"@gymkhana/sdk\": \"file:../../gymkhana/sdk/js\""),
    ] {
        let name = format!("near-{language}");
        let sdk = format!("../gymkhana/sdk/{language}");
        new("work/plugins", &[&name, "--kind", "tool", "--lang", language, "--sdk", &sdk]);
        let text = read(&format!("work/plugins/{name}/{file}"));
        assert!(text.contains(dependency), "{text}");
        let found = desk.path("work/plugins").join(&name).join(format!("../../gymkhana/sdk/{language}"));
        assert!(found.is_dir(), "the path leads to the SDK");
    }
}

#[test]
fn a_failing_check_says_what_was_seen_and_what_to_change() {
    let desk = Desk::new();
    let file = "plugins/guest-crooked-tool.wasm";
    let outcome =
        desk.host(&["plugin", "test", file, "--steps", "50", "--option", "crook=polite", "--json", "report.json"]);
    assert_eq!(outcome.code, Some(2));
    let line = outcome.results.lines().find(|line| line.contains("FAILED")).expect("a failed check");
    assert_eq!(
        line,
        "FAILED  invalid-actions            the call no-such-function({}) was answered as if it had worked: \"done\"; answer \
         what an agent did wrong with `failed`, and say what to write instead"
    );
    assert!(outcome.talk.contains("fails 1 of 19 checks: invalid-actions"), "{outcome:?}");
    let report: Report = serde_json::from_slice(&fs::read(desk.path("report.json")).expect("a report")).expect("JSON");
    assert_eq!(report.failures().map(|(name, _)| name).collect::<Vec<_>>(), ["invalid-actions"]);
}

#[test]
fn a_reward_is_checked_on_the_episodes_of_a_run() {
    let desk = Desk::with_run_file(crate::common::SMALL_RUN);
    desk.run(crate::common::WORD_PROBLEMS, &[]).succeeded();
    let groups = |more: &[&str]| {
        let arguments = [&["plugin", "test", "plugins/answer-match.wasm"], more].concat();
        let said = desk.host(&arguments).succeeded();
        let line =
            said.lines().find(|line| line.contains("groups were scored")).expect("a line about scores").to_owned();
        let count = line.split_whitespace().nth(2).and_then(|count| count.parse::<usize>().ok());
        count.unwrap_or_else(|| panic!("no number of groups: {line}"))
    };
    // Each group is scored at two training steps.
    let recorded: std::collections::BTreeSet<_> = desk
        .episodes()
        .iter()
        .map(|record| (record.id.stage, record.id.phase, record.id.step, record.id.group))
        .collect();
    assert!(recorded.len() > 8, "{recorded:?}");
    assert_eq!(groups(&["--on", "out"]), groups(&[]) + 2 * recorded.len());
}

#[test]
fn a_folder_of_another_language_says_what_to_install() {
    let desk = Desk::new();
    fs::create_dir(desk.path("snake")).expect("a folder");
    desk.write("snake/pyproject.toml", "[project]\nname = \"snake\"\n");
    fs::create_dir(desk.path("script")).expect("a folder");
    desk.write("script/package.json", "{}");
    // A Python without the SDK.
    let mut python = desk.command(&["plugin", "build", "snake"]);
    let told = finish(python.env_remove("PYTHONPATH").env("PYTHONNOUSERSITE", "1")).mistake("snake");
    assert!(told.contains("python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"), "{told}");
    for command in ["build", "test"] {
        let told = desk.host(&["plugin", command, "script"]).mistake("script");
        assert!(told.contains("run `npm install` in it") && !told.contains("TAP"), "{command}: {told}");
    }
    let mut nothing = desk.command(&["plugin", "build", "snake"]);
    let told = finish(nothing.env("PATH", desk.path("snake"))).mistake("no Python");
    assert!(told.contains("apt-get install python3"), "{told}");
}

#[test]
fn a_javascript_folder_is_tested_readably_and_its_component_has_the_plugins_name() {
    let desk = Desk::new();
    for folder in ["programs", "copied/node_modules/@gymkhana/sdk"] {
        fs::create_dir_all(desk.path(folder)).expect("a folder");
    }
    desk.write("copied/package.json", "{\"name\": \"chess\"}");
    desk.write("copied/node_modules/@gymkhana/sdk/build.mjs", "");
    // A component of an earlier build, when the plugin had the folder's name.
    fs::copy(desk.path("plugins/calculator.wasm"), desk.path("copied/copied.wasm")).expect("copied");
    // Prints its arguments instead of running them.
    desk.write("programs/node", "#!/bin/sh\necho node \"$@\"\n");
    fs::set_permissions(desk.path("programs/node"), fs::Permissions::from_mode(0o755)).expect("a program");
    let mut command = desk.command(&["plugin", "test", "copied"]);
    let told = finish(command.env("PATH", desk.path("programs"))).mistake("nothing was built");
    assert!(told.contains("node --test --test-reporter=spec\n"), "{told}");
    assert!(told.contains("copied/chess.quick.wasm`: the file does not exist"), "{told}");
}

#[test]
fn an_environment_is_played_by_hand() {
    let desk = Desk::new();
    let game = ["plugin", "play", "plugins/tic-tac-toe.wasm", "--seat", "0"];
    let lines = "oracle\nfollow\nundo\nfunctions\ncall move\nthe middle\nrender it\nhelp\n5\nundo\nfollow\nfollow\nfollow\nfollow\n";
    insta::assert_snapshot!("play-environment", typed(&desk, &game, lines).succeeded());
    let alone = ["plugin", "play", "plugins/frozen-lake.wasm", "--option", "map=4x4", "--option", "turns=2"];
    let lines = "render\nrender lake.svg\ndown\nguide me\n";
    insta::assert_snapshot!("play-alone", typed(&desk, &alone, lines).succeeded());
    assert!(fs::read_to_string(desk.path("lake.svg")).expect("a picture").starts_with("<svg "));
}

#[test]
fn an_environment_is_played_with_its_tool_and_scored() {
    let desk = Desk::new();
    let with = "plugins/calculator.wasm,plugins/answer-match.wasm";
    let game = ["plugin", "play", "plugins/word-problems.wasm", "--with", with];
    let said = typed(&desk, &[&game[..], &["--privileged"]].concat(), "functions\nfollow\nfollow\n").succeeded();
    let answer = said.lines().find_map(|line| line.strip_prefix("answer = ")).expect("a privileged answer");
    assert!(said.contains("\ncalculate: Exact arithmetic"), "{said}");
    // The oracle calls the calculator, and sends its answer.
    assert!(said.contains("\nsolver: call calculate {\"expression\": "), "{said}");
    assert!(said.contains(&format!("\nsolver: {answer}\n")), "{said}");
    let scores = "reward answer-match: 1\n  correct = 1\n  calls = 1\n  cost = 0\n";
    assert!(said.contains("the episode is over\n") && said.ends_with(scores), "{said}");

    let wrong = typed(&desk, &game, "call calculate {\"expression\": \"6*7\"}\nprivileged\nnothing\n").succeeded();
    assert!(wrong.contains("\n42\n") && wrong.contains("\nprivileged view:\nanswer = "), "{wrong}");
    assert!(wrong.ends_with("reward answer-match: 0\n  correct = 0\n  calls = 1\n  cost = 0\n"), "{wrong}");
    let left = typed(&desk, &game, "quit\n").succeeded();
    assert!(left.ends_with("not scored: the episode has not ended\n"), "{left}");
}

#[test]
fn lines_are_edited_on_a_terminal_and_kept() {
    let desk = Desk::new();
    let command = desk.command(&["plugin", "play", "plugins/tic-tac-toe.wasm", "--seat", "0"]);
    // Ctrl-A moves to the start of the line.
    let written = in_terminal(command, 80, &["ndo\u{1}u\n", "quit\n"]);
    assert!(written.contains("there is nothing to take back"), "{written:?}");
    let history = fs::read_to_string(desk.path("state/gymkhana/play_history")).expect("a history");
    assert!(history.contains("\nundo\nquit\n"), "{history}");
}

/// Three lines at once: by a terminal that marks a paste, and by one that does not.
#[test]
fn pasted_lines_are_taken_one_after_the_other() {
    for pasted in ["\u{1b}[200~undo\nundo\nundo\u{1b}[201~\n", "undo\nundo\nundo\n"] {
        let desk = Desk::new();
        let command = desk.command(&["plugin", "play", "plugins/tic-tac-toe.wasm", "--seat", "0"]);
        let written = in_terminal(command, 80, &[&format!("{pasted}quit\n")]);
        assert_eq!(written.matches("there is nothing to take back").count(), 3, "{written:?}");
    }
}

#[test]
fn a_tool_is_called_by_hand() {
    let desk = Desk::new();
    let tool = ["plugin", "play", "plugins/guest-crooked-tool.wasm"];
    let lines = "call add {\"number\": 40}\ncall add {\"number\": 2}\nundo\ncall add {\"number\": 3}\ncall add\ncall take\n\
                 hello\nquit\ncall add {\"number\": 1}\n";
    insta::assert_snapshot!("play-tool", typed(&desk, &tool, lines).succeeded());
}

#[test]
fn what_a_plugin_says_cannot_steer_the_terminal() {
    let desk = Desk::new();
    let hostile = ["plugin", "play", "plugins/guest-hostile-environment.wasm", "--option", "behaviour=escape"];
    let said = typed(&desk, &hostile, "yes\n").succeeded();
    assert!(said.contains("\\u{1b}[2J") && !said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said:.300}");
}

#[test]
fn the_log_of_a_plugin_is_printed_while_it_is_played() {
    let desk = Desk::new();
    let tool = ["plugin", "play", "plugins/guest-hostile-tool.wasm"];
    let outcome = typed(&desk, &tool, "call output {\"size\": 1}\ncall forge-log\ncall trap\n");
    let line = "z".repeat(100);
    for printed in [
        format!("guest-hostile-tool, info: {line}\n"),
        format!("guest-hostile-tool, warn: {line}\n"),
        // Escape sequences are harmless, and a second line is not taken for another plugin's.
        "guest-hostile-tool, warn: \\u{1b}[2J\\u{202e}\n    other, info: forged\n".to_owned(),
        "guest-hostile-tool, warn: a panic, as asked\n".to_owned(),
    ] {
        assert!(outcome.talk.contains(&printed), "{printed}: {outcome:?}");
    }
    assert!(!outcome.talk.contains('\u{1b}') && !outcome.talk.contains('\u{202e}'), "{outcome:?}");
    assert!(!outcome.succeeded().contains("info: "), "results are apart from logs");
}

#[test]
fn the_log_of_a_plugin_is_printed_while_it_is_tested_and_cut() {
    let desk = Desk::new();
    let file = "plugins/guest-crooked-tool.wasm";
    let test = |crook: &str| {
        let outcome = desk.host(&["plugin", "test", file, "--steps", "5000", "--option", crook]);
        (outcome.talk.clone(), outcome.succeeded())
    };
    let (log, results) = test("crook=chatty");
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.contains(&"guest-crooked-tool, info: asked to add"), "{log:.500}");
    // Thousands of calls log one of few texts.
    let left_out =
        "guest-crooked-tool: calls that log the same are left out, and those after 40 lines unless they fail";
    assert!(lines.contains(&left_out) && lines.len() < 50, "{log:.5000}");
    assert!(results.contains("conforms"), "{results}");
    let (log, results) = test("crook=none");
    assert_eq!(log, "", "a silent plugin has no log");
    let cost = results.lines().skip_while(|line| !line.contains("  cost  ")).take(3).collect::<Vec<_>>();
    assert!(cost[1].contains(" call  ") && cost[2].contains(" start  "), "{cost:?}");
    assert!(cost.iter().all(|line| line.chars().count() <= 100), "{cost:?}");
}

#[test]
fn an_environment_that_fails_is_the_plugins_end_and_not_the_hosts() {
    let desk = Desk::new();
    let hostile = ["plugin", "play", "plugins/guest-hostile-environment.wasm", "--option", "behaviour=trap-step"];
    let outcome = typed(&desk, &hostile, "hello\nagain\n");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.talk.contains("the environment failed, and the episode is lost"), "{outcome:?}");
}

#[test]
fn calls_are_measured_for_people_and_for_programs() {
    let desk = Desk::new();
    let outcome = desk.host(&["plugin", "bench", "plugins/tic-tac-toe.wasm", "--times", "20"]);
    assert!(outcome.talk.starts_with("loading `plugins/tic-tac-toe.wasm`\nenvironment 1/20 "), "{outcome:?}");
    assert!(outcome.talk.lines().last().is_some_and(|line| line.starts_with("environment 20/20 ")), "{outcome:?}");
    let table = outcome.succeeded();
    let calls: Vec<&str> = table.lines().skip(1).map(|line| line[..22].trim()).collect();
    assert_eq!(calls, ["environment start", "environment step", "environment snapshot", "environment restore"]);
    for (plugin, calls) in [("calculator", 4), ("answer-match", 1)] {
        let file = format!("plugins/{plugin}.wasm");
        let lines = desk.host(&["plugin", "bench", &file, "--times", "20", "--json"]).succeeded();
        let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let lines: Vec<serde_json::Value> = lines.lines().map(read).collect();
        assert_eq!(lines.len(), calls, "{lines:?}");
        for line in lines {
            assert_eq!(line["times"], 20, "{line}");
            assert!(line["median_us"].as_f64().is_some_and(|time| time > 0.0), "{line}");
            assert!(line["median_us"].as_f64() <= line["p95_us"].as_f64(), "{line}");
            assert!(line["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{line}");
        }
    }
}
