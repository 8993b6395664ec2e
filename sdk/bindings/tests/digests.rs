//! The generated modules are those that the generator made from this contract.
//!
//! `cargo xtask bindings` generates them and writes their digests beside those of the contract.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Digests of the files with this ending in a folder of the crate.
fn digests(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|found| found == ending));
    let digest = |path: &Path| Sha256::digest(fs::read(path).expect("a file"));
    let hex = |path: &Path| digest(path).iter().map(|byte| format!("{byte:02x}")).collect();
    files
        .map(|path| (format!("{folder}/{}", path.file_name().expect("a name").to_string_lossy()), hex(&path)))
        .collect()
}

#[test]
fn committed_bindings_are_those_of_the_contract() {
    let written = include_str!("../src/digests.txt").lines();
    let written = written.map(|line| line.split_once("  ").expect("a digest and a path"));
    let written: BTreeMap<String, String> = written.map(|(digest, path)| (path.into(), digest.into())).collect();
    let mut found = digests("wit", "wit");
    assert_eq!(found.len(), 6);
    found.extend(digests("wit/wrapper", "wit"));
    found.extend(digests("src", "rs"));
    // It is written by hand.
    found.remove("src/lib.rs");
    assert!(found == written, "the bindings are outdated or were edited; generate them with `cargo xtask bindings`");
}
