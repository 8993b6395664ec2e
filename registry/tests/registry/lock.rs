//! Lock files: round trip, order, and rejection of invalid files.

use crate::common::{manifest_json, tool};
use gymkhana_registry::{Digest, Lock, LockEntry, LockError, read_manifest};

fn entry(name: &str, bytes: &[u8]) -> LockEntry {
    let json = manifest_json().replace("calculator", name);
    LockEntry::new(&read_manifest(&tool(&json)).expect("a good plugin"), Digest::of(bytes))
}

#[test]
fn lock_round_trips_and_is_sorted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gymkhana.lock");
    let lock = Lock::new(vec![entry("zebra", b"z"), entry("ape", b"a")]).expect("two names");
    lock.write(&path).expect("written");
    let read = Lock::read(&path).expect("read");
    assert_eq!(read, lock);
    let names: Vec<_> = read.entries().iter().map(|entry| entry.name.name()).collect();
    assert_eq!(names, ["ape", "zebra"]);
    assert!(read.get(&"gymkhana/ape".parse().expect("a name")).is_some());
    assert!(read.get(&"gymkhana/cat".parse().expect("a name")).is_none());
}

#[test]
fn duplicate_names_are_rejected() {
    let error = Lock::new(vec![entry("ape", b"1"), entry("ape", b"2")]).expect_err("one name twice");
    assert!(matches!(&error, LockError::Twice { name, .. } if name.to_string() == "gymkhana/ape"), "{error}");
}

#[test]
fn invalid_files_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gymkhana.lock");
    assert!(matches!(Lock::read(&path), Err(LockError::Read { .. })));
    std::fs::write(&path, "schema = 9\nfuture = true\n").expect("written");
    assert!(matches!(Lock::read(&path), Err(LockError::Schema { found: 9, .. })));
    Lock::new(vec![entry("ape", b"1")]).expect("one").write(&path).expect("written");
    let text = std::fs::read_to_string(&path).expect("read");
    for damaged in [text.replace("version = \"0.1.0\"", ""), text.replace("digest = \"", "digest = \"x"), String::new()]
    {
        std::fs::write(&path, &damaged).expect("written");
        assert!(matches!(Lock::read(&path), Err(LockError::Damaged { .. })), "{damaged}");
    }
}
