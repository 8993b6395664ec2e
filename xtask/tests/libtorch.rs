//! `cargo xtask setup` from outside, with a libtorch of the user's that does not fit.

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

/// A mistake of the user's: exit code 2, and one message with the object, what is wrong with it and the fix.
#[test]
fn a_users_libtorch_that_does_not_fit_ends_with_exit_code_2() {
    let (missing, older) = (folder("parent").join("missing"), folder("older"));
    fs::write(older.join("build-version"), "2.9.1\n").expect("written");
    for (libtorch, wrong) in [(missing, "holds none"), (older, "is version 2.9.1")] {
        let output = setup_with(&libtorch);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{talk}");
        let error = talk.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        for part in [libtorch.to_string_lossy().as_ref(), wrong, "needs libtorch 2.11.0", "unset it"] {
            assert!(error.contains(part), "no `{part}` in {talk}");
        }
    }
}
