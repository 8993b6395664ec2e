//! Help and version of `host`.

use crate::common::Desk;

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
        "replay",
        "show",
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
        "registry mirror",
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
fn a_command_line_that_says_nothing_gets_the_help_and_exit_code_2() {
    let outcome = Desk::new().host(&[]);
    assert_eq!(outcome.code, Some(2));
    assert_eq!(outcome.results, "");
    assert!(outcome.talk.contains("Usage: host <COMMAND>"), "{}", outcome.talk);
}
