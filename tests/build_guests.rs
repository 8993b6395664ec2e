//! Refuses a guest without a test.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of tests that load guests.
const TESTS: [&str; 4] = ["tests", "../host/sandbox/tests", "../host/serve/tests", "../host/cli/tests"];

/// Fails if a guest has no test. A test of a guest contains the name of the guest's package.
pub fn every_guest_has_a_test() {
    let mut tests = Vec::new();
    TESTS.iter().for_each(|folder| read_tests(Path::new(folder), &mut tests));
    println!("cargo::rerun-if-changed=guests");
    for guest in entries(Path::new("guests")).into_iter().filter(|guest| guest.is_dir()) {
        let folder = guest.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let package = format!("guest-{folder}");
        assert!(
            tests.iter().any(|text| text.contains(&package)),
            "tests/guests/{folder} has no test\nhint: add one that loads `{package}` to host/sandbox/tests or tests/tests"
        );
    }
}

fn read_tests(folder: &Path, texts: &mut Vec<String>) {
    // cargo would run a program that names an absent folder at each build, and compile all tests again.
    assert!(folder.is_dir(), "the folder of tests `{}` is missing\nhint: correct `TESTS`", folder.display());
    println!("cargo::rerun-if-changed={}", folder.display());
    for path in entries(folder) {
        if path.is_dir() {
            read_tests(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
