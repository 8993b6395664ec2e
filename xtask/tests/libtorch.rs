//! `cargo xtask setup` with an unsuitable LIBTORCH of the user.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("libtorch-{name}"));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn setup_with(libtorch: &std::path::Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("setup").env("LIBTORCH", libtorch).output().expect("started")
}

/// A user error: exit code 2, and a message with the object, the cause and a hint.
#[test]
fn a_users_libtorch_that_does_not_fit_ends_with_exit_code_2() {
    let (missing, older) = (folder("parent").join("missing"), folder("older"));
    fs::write(older.join("build-version"), "2.9.1\n").expect("written");
    for (libtorch, wrong) in [(missing, "has neither `build-version` nor `version.py`"), (older, "is version 2.9.1")] {
        let output = setup_with(&libtorch);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{talk}");
        for part in ["error: cannot use", &libtorch.to_string_lossy(), wrong, "needs libtorch 2.11.0", "\nhint: set"] {
            assert!(talk.contains(part), "no `{part}` in {talk}");
        }
    }
}
