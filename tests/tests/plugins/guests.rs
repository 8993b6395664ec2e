//! Every guest has a test.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of tests that load guests, relative to the repository.
const TESTS: [&str; 4] = ["tests/tests", "host/sandbox/tests", "host/serve/tests", "host/cli/tests"];

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    listed.map(|entry| entry.expect("an entry").path()).collect()
}

fn read(folder: &Path, texts: &mut Vec<String>) {
    for path in entries(folder) {
        if path.is_dir() {
            read(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// A test of a guest contains the name of the guest's package.
#[test]
fn every_guest_has_a_test() {
    let root = gymkhana_tests::root();
    let mut texts = Vec::new();
    TESTS.iter().for_each(|folder| read(&root.join(folder), &mut texts));
    let guests: Vec<PathBuf> = entries(&root.join("tests/guests")).into_iter().filter(|path| path.is_dir()).collect();
    assert!(guests.len() > 10, "{guests:?}");
    for guest in guests {
        let folder = guest.file_name().expect("a name").to_string_lossy().into_owned();
        let package = format!("guest-{folder}");
        assert!(
            texts.iter().any(|text| text.contains(&package)),
            "tests/guests/{folder} has no test\nhint: add one that loads `{package}` to host/sandbox/tests or tests/tests"
        );
    }
}
