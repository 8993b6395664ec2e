//! Which commands load libtorch, and messages about a missing libtorch or a wrong version, which the system loads before
//! any program starts.

use std::fs;
use std::process::Command;

use crate::common::{Desk, Outcome, finish};

/// A command that needs a model, and whose model is missing.
const NEEDS_MODEL: [&str; 3] = ["generate", "no-model", "hello"];

/// A command that needs a model, with this `LIBTORCH`.
fn host_with(desk: &Desk, libtorch: &str) -> Outcome {
    finish(desk.command(&NEEDS_MODEL).env("LIBTORCH", libtorch))
}

fn assert_refused(outcome: &Outcome, parts: &[&str]) {
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert_eq!(outcome.results, "", "{outcome:?}");
    assert_eq!(outcome.talk.lines().count(), 2, "{outcome:?}");
    for part in parts.iter().chain(&["error: ", "needs libtorch 2.11.0", "hint: ", "cargo xtask setup"]) {
        assert!(outcome.talk.contains(part), "no `{part}` in {}", outcome.talk);
    }
}

#[test]
fn a_missing_libtorch_is_named_with_the_fix() {
    let desk = Desk::new();
    assert_refused(&host_with(&desk, "nowhere"), &["`nowhere`", "has neither `build-version` nor `version.py`"]);
}

#[test]
fn another_version_of_libtorch_is_named_with_the_fix() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("older/lib")).expect("a folder");
    desk.write("older/build-version", "2.9.1+cpu\n");
    assert_refused(&host_with(&desk, "older"), &["`older`", "is version 2.9.1+cpu"]);
}

/// A torch that pip installed may lack `build-version`; every one has `version.py`.
#[test]
fn the_version_of_a_python_package_is_read_from_its_code() {
    let desk = Desk::new();
    for folder in ["older/lib", "bare"] {
        fs::create_dir_all(desk.path(folder)).expect("a folder");
    }
    desk.write("older/version.py", "from typing import Optional\n__version__ = '2.9.1+cu130'\ndebug = False\n");
    assert_refused(&host_with(&desk, "older"), &["`older`", "is version 2.9.1+cu130"]);
    desk.write("bare/version.py", "__version__ = '2.11.0'\n");
    assert_refused(&host_with(&desk, "bare"), &["`bare`", "has no folder `lib`"]);
    // The counterpart: the required version in `version.py` alone is loaded.
    let own = std::path::Path::new(env!("GYMKHANA_LIBTORCH"));
    fs::create_dir(desk.path("package")).expect("a folder");
    std::os::unix::fs::symlink(own.join("lib"), desk.path("package/lib")).expect("a link");
    desk.write("package/version.py", "__version__ = '2.11.0+cu130'\n");
    let outcome = host_with(&desk, &desk.path("package").to_string_lossy());
    assert!(outcome.talk.contains("`no-model` is neither a folder nor a model on a hub"), "{outcome:?}");
}

/// The counterpart: a libtorch of the right version in another folder. The command then fails for its own reason.
#[test]
fn a_users_own_libtorch_of_the_right_version_is_loaded() {
    let desk = Desk::new();
    std::os::unix::fs::symlink(env!("GYMKHANA_LIBTORCH"), desk.path("own")).expect("a link");
    let own = desk.path("own");
    let outcome = host_with(&desk, &own.to_string_lossy());
    assert!(outcome.talk.contains("`no-model` is neither a folder nor a model on a hub"), "{outcome:?}");
}

#[test]
fn commands_without_a_model_do_not_load_libtorch() {
    let links = |program: &str| {
        let bytes = fs::read(program).expect("a program");
        bytes.windows(16).any(|window| window == b"libtorch_cpu.so\0")
    };
    assert!(!links(env!("CARGO_BIN_EXE_host")));
    assert!(links(env!("CARGO_BIN_EXE_gymkhana-train")));
    let desk = Desk::new();
    let outcome = finish(desk.command(&["--version"]).env("LIBTORCH", "nowhere"));
    assert_eq!(outcome.succeeded(), format!("host {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_host_without_its_trainer_says_what_is_missing() {
    // A link, not a copy: a file open for writing in another test's child could not be started.
    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let host = alone.path().join("host");
    fs::hard_link(env!("CARGO_BIN_EXE_host"), &host).expect("linked");
    let outcome = finish(Command::new(host).args(NEEDS_MODEL).env("LIBTORCH", env!("GYMKHANA_LIBTORCH")));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.talk.contains("gymkhana-train` cannot be started"), "{}", outcome.talk);
    assert!(outcome.talk.contains("cargo xtask setup"), "{}", outcome.talk);
}

/// An installation has the program under a second name, as a link, here in a folder of the user's search path.
#[test]
fn the_program_works_through_a_link_of_another_name() {
    let desk = Desk::new();
    let link = desk.path("gymkhana");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_host"), &link).expect("a link");
    let through_link =
        |arguments: &[&str]| finish(desk.command_of(&link, arguments).env("LIBTORCH", env!("GYMKHANA_LIBTORCH")));
    // The program with libtorch is beside the link's target, and reports under the name that was typed.
    let outcome = through_link(&NEEDS_MODEL);
    assert!(outcome.talk.contains("`no-model` is neither a folder nor a model on a hub"), "{outcome:?}");
    assert!(through_link(&["eval", "--help"]).succeeded().contains("Usage: gymkhana eval "));
    // A plugin is compiled by another process of the same program.
    let described = through_link(&["plugin", "inspect", "plugins/calculator.wasm"]).succeeded();
    assert!(described.contains("functions  calculate: "), "{described}");
}
