//! Messages about a missing libtorch or a wrong version, which the system loads before any program starts.

use std::fs;
use std::process::Command;

use crate::common::{Desk, Outcome, finish};

/// `host --version` with this `LIBTORCH`.
fn host_with(desk: &Desk, libtorch: &str) -> Outcome {
    finish(desk.command(&["--version"]).env("LIBTORCH", libtorch))
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
    assert_refused(&host_with(&desk, "nowhere"), &["`nowhere`", "is missing"]);
}

#[test]
fn another_version_of_libtorch_is_named_with_the_fix() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("older/lib")).expect("a folder");
    desk.write("older/build-version", "2.9.1+cpu\n");
    assert_refused(&host_with(&desk, "older"), &["`older`", "is version 2.9.1+cpu"]);
}

/// The counterpart: a libtorch of the right version in another folder.
#[test]
fn a_users_own_libtorch_of_the_right_version_is_loaded() {
    let desk = Desk::new();
    std::os::unix::fs::symlink(env!("GYMKHANA_LIBTORCH"), desk.path("own")).expect("a link");
    let own = desk.path("own");
    assert_eq!(host_with(&desk, &own.to_string_lossy()).succeeded(), format!("host {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_launcher_without_its_program_says_what_is_missing() {
    // A link, not a copy: a file open for writing in another test's child could not be started.
    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let launcher = alone.path().join("host");
    fs::hard_link(env!("CARGO_BIN_EXE_host"), &launcher).expect("linked");
    let outcome = finish(Command::new(launcher).arg("--version").env("LIBTORCH", env!("GYMKHANA_LIBTORCH")));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.talk.contains("gymkhana-main` cannot be started"), "{}", outcome.talk);
    assert!(outcome.talk.contains("cargo xtask setup"), "{}", outcome.talk);
}
