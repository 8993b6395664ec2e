//! Help and version of `host`.

use std::process::Command;

use crate::common::{Desk, finish};
use gymkhana_registry::contract;

/// Help of every command, one snapshot each, so that reviews show changes of the command line.
#[test]
fn help_of_every_command() {
    let desk = Desk::new();
    for command in [
        "",
        "run",
        "generate",
        "eval",
        "export",
        "model",
        "model import",
        "replay",
        "show",
        "page",
        "rescore",
        "reward",
        "reward diff",
        "plugin",
        "plugin new",
        "plugin build",
        "plugin test",
        "plugin play",
        "plugin bench",
        "plugin inspect",
        "add",
        "remove",
        "update",
        "list",
        "outdated",
        "lock",
        "verify",
        "search",
        "info",
        "keygen",
        "publish",
        "yank",
        "registry",
        "registry init",
        "registry grant",
        "registry rotate",
        "registry revoke",
        "registry sign",
        "registry token",
        "registry serve",
        "registry info",
        "registry mirror",
        "cache",
        "cache list",
        "cache clean",
        "doctor",
        "completions",
        "version",
    ] {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let name = format!("help {command}").trim_end().replace(' ', "-");
        insta::assert_snapshot!(name, desk.host(&arguments).succeeded());
    }
}

#[test]
fn the_version_is_the_packages() {
    let expected = format!("host {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Desk::new().host(&["--version"]).succeeded(), expected);
}

#[test]
fn the_versions_of_all_parts_are_printed() {
    let desk = Desk::new();
    let people = desk.host(&["version"]).succeeded();
    let contract = format!("contract  {} ({:#})\n", contract::VERSION, contract::digest());
    assert!(people.starts_with(&format!("host      {}\n", env!("CARGO_PKG_VERSION"))), "{people}");
    assert!(people.contains(&contract) && people.contains("\nlibtorch  2.11.0"), "{people}");
    let programs = desk.host(&["version", "--json"]).succeeded();
    let parsed: serde_json::Value = serde_json::from_str(&programs).expect("JSON");
    assert_eq!(parsed["contract_digest"], contract::digest().to_string());
    let wasmtime: Vec<&str> = parsed["wasmtime"].as_str().expect("a text").split('.').collect();
    assert!(wasmtime.len() == 3 && wasmtime.iter().all(|number| number.parse::<u32>().is_ok()), "{programs}");
}

/// The script of each shell names the commands, and bash completes with its own.
#[test]
fn completions_name_the_commands() {
    let desk = Desk::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = desk.host(&["completions", shell]).succeeded();
        for word in ["doctor", "rescore", "mirror", "older-than"] {
            assert!(script.contains(word), "`{word}` in the script of {shell}");
        }
    }
    desk.write("host.bash", desk.host(&["completions", "bash"]).succeeded());
    for name in ["host", "gymkhana"] {
        // The function that bash calls for this program.
        let reply = format!(
            "source ./host.bash; COMP_WORDS=({name} do); COMP_CWORD=1; \
             $(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/') {name} do {name}; echo \"${{COMPREPLY[@]}}\""
        );
        let bash = finish(Command::new("bash").args(["-c", &reply]).current_dir(desk.path("")));
        assert_eq!(bash.succeeded(), "doctor\n", "{name}");
    }
    let zsh = desk.host(&["completions", "zsh"]).succeeded();
    assert!(zsh.starts_with("#compdef host gymkhana\n") && zsh.contains("compdef _gymkhana gymkhana"), "{zsh:.200}");
    assert!(desk.host(&["completions", "tcsh"]).mistake("another shell").contains("invalid value 'tcsh'"));
}

#[test]
fn a_similar_command_is_suggested_and_an_unlike_one_is_not() {
    let desk = Desk::new();
    let told = desk.host(&["man"]).mistake("man");
    assert!(told.contains("unrecognized subcommand 'man'") && !told.contains("tip:"), "{told}");
    let told = desk.host(&["doctr"]).mistake("doctr");
    assert!(told.contains("a similar subcommand exists: 'doctor'"), "{told}");
}

#[test]
fn a_command_line_that_says_nothing_gets_the_help_and_exit_code_2() {
    let outcome = Desk::new().host(&[]);
    assert_eq!(outcome.code, Some(2));
    assert_eq!(outcome.results, "");
    assert!(outcome.talk.contains("Usage: host <COMMAND>"), "{}", outcome.talk);
}
