//! Registry folders and index files: crash safety, serialized changes, and forward compatibility.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use crate::common::{Made, acme, add, add_file, by, key, name, pinned, registry, root, said};
use gymkhana_registry::{
    AcceptedCheckpoint, CatalogueRow, CheckpointError, ContentFile, ContentStore, ContentStoreError, Digest,
    FolderError, FolderReadError, IndexError, IndexRow, MAX_INDEX_BYTES, RegistryFolder, ReleaseError, RuleViolation,
    check_append_only, read_catalogue, read_index, write_catalogue, write_index,
};

fn rows(registry: &RegistryFolder) -> Vec<IndexRow> {
    let state = registry.state(Some(&pinned())).expect("a sound registry");
    registry.rows(&state, &name("acme/adder")).expect("rows")
}

fn versions(registry: &RegistryFolder) -> Vec<String> {
    rows(registry).iter().map(|row| row.version.to_string()).collect()
}

#[test]
fn published_release_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let (old, new) = (Made::version("1.0.0"), Made::version("1.1.0"));
    let added = add(&registry, &old).expect("added");
    add(&registry, &new).expect("added");
    assert_eq!(versions(&registry), ["1.0.0", "1.1.0"]);
    assert_eq!(rows(&registry)[0], added);
    assert_eq!(added.signer, Some(acme().public()));
    assert!(added.describes(&old.release(), old.signed()));
    assert!(!added.describes(&new.release(), new.signed()));
    let component = registry.content_store().read(&ContentFile::Component(added.digest)).expect("read").expect("there");
    assert_eq!(component, old.component());
    let release = registry.content_store().read(&ContentFile::Release(added.release)).expect("read").expect("there");
    assert_eq!(release, old.signed().as_bytes());
    let state = registry.state(Some(&pinned())).expect("a state");
    let catalogue = registry.catalogue(&state).expect("a catalogue");
    assert_eq!(catalogue.iter().map(|row| row.version.to_string()).collect::<Vec<_>>(), ["1.1.0"]);
    for version in ["1.0.0", "1.1.0"] {
        let version = version.parse().expect("a version");
        registry.yank(&name("acme/adder"), &version, true, by(&root())).expect("yanked");
    }
    let state = registry.state(Some(&pinned())).expect("a state");
    assert_eq!(registry.catalogue(&state).expect("a catalogue"), []);
    assert!(rows(&registry).iter().all(|row| row.yanked));
}

#[test]
fn mismatched_releases_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let made = Made::version("1.0.0");
    let other = Made { padding: 1, ..made.clone() };
    for (file, component, words) in [
        (made.signed(), other.component(), "the component has sha256"),
        (made.release().sign(Some(&key(9))).expect("JSON"), made.component(), "is not a key of namespace `acme`"),
        (
            made.release().sign(None).expect("JSON"),
            made.component(),
            "an unsigned release is not a key of namespace `acme`",
        ),
        (
            made.signed().replacen("Adds", "Eats", 1),
            made.component(),
            "the manifest of the component differs from the signed manifest",
        ),
        ("a poem\n".to_owned(), made.component(), "invalid release file: the release file is damaged"),
    ] {
        let error = add_file(&registry, &file, &component, by(&root())).expect_err(words);
        assert!(said(&error).contains(words), "{}", said(&error));
        assert_eq!(versions(&registry), Vec::<String>::new());
    }
    add(&registry, &made).expect("added");
}

/// A crash between any two writes leaves the old state, and the next change succeeds.
#[test]
fn crash_between_writes_leaves_the_old_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let before = snapshot(registry.path());
    let made = Made::version("1.1.0");
    add(&registry, &made).expect("added");
    let after = snapshot(registry.path());
    // Files in the order of writing: component, release, index, catalogue, checkpoint. The list of replaced files is
    // written last; a crash before that only leaves additional files.
    let is_list = |(path, _): &(String, Vec<u8>)| path == ".replaced.json";
    let is_written = |file: &&(String, Vec<u8>)| !before.contains(file) && !is_list(file);
    let mut written: Vec<&(String, Vec<u8>)> = after.iter().filter(is_written).collect();
    let order = ["components/", "releases/", "index/", "catalogue/", "checkpoint"];
    written.sort_by_key(|(path, _)| order.iter().position(|start| path.starts_with(start)));
    assert_eq!(written.len(), order.len());
    for reached in 0..written.len() {
        let crashed = folder.path().join(format!("crashed-{reached}"));
        restore(&crashed, &before);
        for (path, bytes) in &written[..reached] {
            // The file being written at the crash still has its temporary name.
            let target = crashed.join(path);
            fs::create_dir_all(target.parent().expect("a folder")).expect("created");
            fs::write(target, bytes).expect("written");
        }
        fs::create_dir_all(crashed.join("incoming")).expect("created");
        fs::write(crashed.join("incoming/1-1"), &written[reached].1[..10]).expect("written");
        let registry = RegistryFolder::open(&crashed).expect("a registry");
        assert_eq!(versions(&registry), ["1.0.0"], "after {reached} writes");
        add(&registry, &made).expect("the change succeeds");
        assert_eq!(versions(&registry), ["1.0.0", "1.1.0"]);
        registry.clean_up(Duration::ZERO, by(&root())).expect("cleaned up");
        assert_eq!(fs::read_dir(crashed.join("incoming")).expect("a folder").count(), 0);
        assert_eq!(versions(&registry), ["1.0.0", "1.1.0"], "the cleanup keeps referenced files");
        let index = fs::read_dir(crashed.join("index/acme/adder")).expect("a folder").count();
        assert_eq!(index, 2, "the previous index is kept for readers");
    }
}

/// Returns true if all files that a checkpoint references are readable.
fn is_complete(registry: &RegistryFolder, state: &AcceptedCheckpoint) -> bool {
    state.checkpoint.index.keys().all(|plugin| registry.rows(state, plugin).is_ok())
        && registry.catalogue(state).is_ok()
}

fn index_files(registry: &RegistryFolder) -> usize {
    fs::read_dir(registry.path().join("index/acme/adder")).expect("a folder").count()
}

/// Files of the last 16 checkpoints stay readable; older unreferenced files are deleted by the next change.
#[test]
fn files_of_recent_checkpoints_are_retained() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let state = || registry.state(Some(&pinned())).expect("a state");
    let mut states = Vec::new();
    for patch in 0..40 {
        let version: &'static str = format!("1.0.{patch}").leak();
        add(&registry, &Made::version(version)).expect("added");
        states.push(state());
    }
    for (age, state) in states.iter().rev().enumerate() {
        assert_eq!(is_complete(&registry, state), age <= 16, "{age} changes ago");
    }
    assert_eq!(index_files(&registry), 17);
    // The modification time of a file is irrelevant.
    let old = ContentFile::Index(name("acme/adder"), states[39 - 16].checkpoint.index[&name("acme/adder")]);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(365 * 24 * 3600);
    let file = File::options().write(true).open(registry.content_store().path(&old)).expect("a file");
    file.set_modified(long_ago).expect("set");
    registry.clean_up(Duration::from_secs(3600), by(&root())).expect("cleaned up");
    assert!(states[39 - 16..].iter().all(|state| is_complete(&registry, state)));
    // A renewal also writes a checkpoint.
    registry.renew(by(&root())).expect("renewed");
    assert!(!is_complete(&registry, &states[39 - 16]) && is_complete(&registry, &states[39 - 15]));
}

/// A replaced file can be referenced again by a later checkpoint.
#[test]
fn file_referenced_again_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let version = "1.0.0".parse().expect("a version");
    for round in 0..60 {
        registry.yank(&name("acme/adder"), &version, round % 2 == 0, by(&root())).expect("changed");
        let state = registry.state(Some(&pinned())).expect("a state");
        assert!(is_complete(&registry, &state), "after {round} changes");
    }
    assert_eq!(index_files(&registry), 2);
    // After 17 checkpoints without it, the file is deleted.
    for _ in 0..17 {
        registry.renew(by(&root())).expect("renewed");
    }
    assert_eq!(index_files(&registry), 1);
}

/// Cleanup removes files that a crash left on no list.
#[test]
fn clean_up_deletes_unreferenced_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let contents = registry.content_store();
    let strays = [name("acme/adder"), name("acme/never")].map(|plugin| ContentFile::Index(plugin, Digest::of(b"x")));
    for stray in strays.iter().chain([&ContentFile::Catalogue(Digest::of(b"x"))]) {
        contents.write(stray, b"x").expect("written");
    }
    let readme = registry.path().join("index/acme/adder/README");
    fs::write(&readme, "text").expect("written");
    registry.clean_up(Duration::from_secs(3600), by(&root())).expect("cleaned up");
    assert!(
        strays.iter().all(|stray| !contents.contains(stray))
            && !contents.contains(&ContentFile::Catalogue(Digest::of(b"x")))
    );
    assert!(readme.exists(), "other files are kept");
    assert!(is_complete(&registry, &registry.state(Some(&pinned())).expect("a state")));
}

/// An index above the readers' size limit would make the plugin unreadable.
#[test]
fn oversized_index_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    // Fill the index up to the limit, which requires the root key.
    let mut state = registry.state(Some(&pinned())).expect("a state").checkpoint;
    let mut rows = rows(&registry);
    let room = MAX_INDEX_BYTES as usize - write_index(&rows).expect("JSON").len();
    rows[0].description.push_str(&"x".repeat(room - 10));
    let text = write_index(&rows).expect("JSON");
    let digest = Digest::of(text.as_bytes());
    registry.content_store().write(&ContentFile::Index(name("acme/adder"), digest), text.as_bytes()).expect("written");
    state.index.insert(name("acme/adder"), digest);
    state.sequence += 1;
    registry.write_checkpoint(&state.sign(Some(&root())).expect("JSON")).expect("shown");
    let before = registry.checkpoint_text().expect("text");
    let error = add(&registry, &Made::version("1.0.1")).expect_err("no room");
    assert!(
        matches!(&error, FolderError::TooLarge { file, limit: MAX_INDEX_BYTES, .. } if file == "index of `acme/adder`"),
        "{error}"
    );
    assert_eq!(registry.checkpoint_text().expect("text"), before, "nothing is changed");
    add(&registry, &Made::of("acme/other", "1.0.0")).expect("another plugin has room");
    // A release that claims the maximum size.
    let made = Made::of("acme/other", "1.0.1");
    let mut endless = made.release();
    endless.size = u64::MAX;
    let file = endless.sign(Some(&acme())).expect("JSON");
    let error = add_file(&registry, &file, &made.component(), by(&root())).expect_err("a wrong size");
    let is_mismatch = matches!(&error, FolderError::Release { source: ReleaseError::DigestMismatch { .. }, .. });
    assert!(is_mismatch, "{}", said(&error));
    add(&registry, &made).expect("the true size");
}

fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                walk(root, &entry, found);
            } else {
                let below = entry.strip_prefix(root).expect("below").to_string_lossy().into_owned();
                found.push((below, fs::read(&entry).expect("read")));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found
}

fn restore(folder: &Path, files: &[(String, Vec<u8>)]) {
    for (path, bytes) in files {
        let target = folder.join(path);
        fs::create_dir_all(target.parent().expect("a folder")).expect("created");
        fs::write(target, bytes).expect("written");
    }
}

#[test]
fn one_of_several_concurrent_publishers_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let outcomes: Vec<Result<IndexRow, FolderError>> = std::thread::scope(|scope| {
        let publish = |padding| {
            let registry = &registry;
            scope.spawn(move || add(registry, &Made { padding, ..Made::version("1.0.0") }))
        };
        let running: Vec<_> = (0..8).map(publish).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let won: Vec<&IndexRow> = outcomes.iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(rows(&registry), [won[0].clone()]);
    for lost in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        let FolderError::Rule(violation) = lost else { panic!("{lost}") };
        assert!(matches!(**violation, RuleViolation::Exists { .. }), "{violation}");
    }
}

#[test]
fn registry_is_created_in_an_empty_folder_only() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("thesis.tex"), "").expect("written");
    let error = RegistryFolder::create(folder.path(), by(&root())).expect_err("something is there");
    assert!(matches!(error, FolderError::NotEmpty(_)), "{error}");
    let error = RegistryFolder::open(folder.path()).expect_err("not a registry");
    assert!(matches!(&error, FolderReadError::NotARegistry(path) if path == folder.path()), "{error}");
}

#[test]
fn replaced_root_key_cannot_sign() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    registry.replace_root(&key(5), by(&root())).expect("replaced");
    let error = add(&registry, &Made::version("1.0.0")).expect_err("the old root");
    assert!(matches!(error, FolderError::OldRoot(new) if new == key(5).public()), "{error}");
    let made = Made::version("1.0.0");
    add_file(&registry, &made.signed(), &made.component(), by(&key(5))).expect("the new root");
}

#[test]
fn unsigned_folder_is_rejected_under_a_root_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let unsigned = gymkhana_registry::Authority { root: None, ..by(&root()) };
    let registry = RegistryFolder::create(&folder.path().join("r"), unsigned).expect("a registry");
    let made = Made::version("1.0.0");
    let file = made.release().sign(None).expect("JSON");
    let row = add_file(&registry, &file, &made.component(), unsigned).expect("added");
    assert_eq!(row.signer, None);
    assert_eq!(registry.state(None).expect("an unsigned registry").root, None);
    let error = registry.state(Some(&pinned())).expect_err("an unsigned checkpoint");
    let FolderReadError::Checkpoint { source, .. } = error else { panic!("{error}") };
    assert!(matches!(source, CheckpointError::UnknownRoot { known } if known == pinned()), "{source}");
}

#[test]
fn rows_with_newer_schemas_are_skipped() {
    let made = Made::version("1.0.0");
    let row = IndexRow::new(&made.release(), made.signed(), Some(acme().public()));
    let text = write_index(std::slice::from_ref(&row)).expect("JSON");
    let newer = "{\"schema\":2,\"version\":\"five\"}\n";
    let adder = name("acme/adder");
    assert_eq!(read_index(&adder, format!("{newer}{text}{newer}")).expect("rows"), std::slice::from_ref(&row));
    assert!(matches!(read_index(&name("acme/other"), &text), Err(IndexError::OtherPlugin { line: 1, .. })));
    assert!(matches!(read_index(&adder, format!("{text}{text}")), Err(IndexError::Duplicate(_))));
    assert!(matches!(read_index(&adder, format!("{text}{{")), Err(IndexError::Line { line: 2, .. })));
    let line = CatalogueRow::of(std::slice::from_ref(&row)).expect("not yanked");
    let catalogue = write_catalogue(std::slice::from_ref(&line)).expect("JSON");
    assert_eq!(read_catalogue(format!("{newer}{catalogue}")).expect("lines"), std::slice::from_ref(&line));
    assert!(line.matches_all(&["ADDS".to_owned(), "tool".to_owned()]) && !line.matches_all(&["reward".to_owned()]));
    assert!(matches!(read_index(&adder, b"\xff\n"), Err(IndexError::NotUtf8(_))));
    assert!(matches!(read_catalogue(b"\xff\n"), Err(IndexError::NotUtf8(_))));
    // Only `yanked` may change.
    let yanked = IndexRow { yanked: true, ..row.clone() };
    check_append_only(std::slice::from_ref(&row), &[yanked]).expect("only a yank");
    let changed = IndexRow { size: 1, ..row.clone() };
    let error = check_append_only(std::slice::from_ref(&row), &[changed]).expect_err("a modified version");
    assert!(
        matches!(&error, IndexError::Rewritten { change: "modified", version } if *version == row.version),
        "{error}"
    );
    let error = check_append_only(&[row], &[]).expect_err("a removed version");
    assert!(matches!(error, IndexError::Rewritten { change: "removed", .. }), "{error}");
}

#[test]
fn content_is_verified_on_every_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = ContentStore::new(folder.path().to_owned());
    let item = ContentFile::Component(Digest::of(b"bytes"));
    assert!(contents.read(&item).expect("read").is_none());
    contents.write(&item, b"bytes").expect("written");
    assert_eq!(contents.read(&item).expect("read").expect("there"), b"bytes");
    fs::write(contents.path(&item), b"bites").expect("written");
    let error = contents.read(&item).expect_err("changed");
    assert!(matches!(error, ContentStoreError::Changed { .. }), "{error}");
    contents.write(&item, b"bytes").expect("a modified file is replaced");
    assert!(contents.read(&item).expect("read").is_some());
    let error = contents.write(&item, b"bites").expect_err("another digest");
    assert!(matches!(error, ContentStoreError::Changed { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path().join("incoming")).expect("a folder").count(), 0);
}

#[test]
fn only_canonical_paths_are_parsed() {
    let digest = Digest::of(b"");
    let index = ContentFile::Index(name("acme/adder"), digest);
    for item in [index, ContentFile::Catalogue(digest), ContentFile::Release(digest), ContentFile::Component(digest)] {
        assert_eq!(ContentFile::from_path(&item.path()), Some(item));
    }
    let upper = digest.to_string().to_uppercase();
    for path in [
        "".to_owned(),
        "checkpoint.json".to_owned(),
        ".lock".to_owned(),
        format!("index/../{digest}.jsonl"),
        format!("index/acme/../{digest}.jsonl"),
        format!("components/{upper}.wasm"),
        format!("components/sha256:{digest}.wasm"),
        format!("components//{digest}.wasm"),
        "components/../.private/tokens.json".to_owned(),
    ] {
        assert_eq!(ContentFile::from_path(&path), None, "{path}");
    }
}

/// Whoever can write in a signed folder, but has no root key, must not choose files that the maintainer deletes.
#[test]
fn list_of_replaced_files_deletes_only_files_of_the_registry() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let (absolute, other) = (folder.path().join("absolute"), folder.path().join("other"));
    fs::write(&absolute, "kept").expect("written");
    fs::write(&other, "kept").expect("written");
    let release = ContentFile::Release(rows(&registry)[0].release);
    let list = registry.path().join(".replaced.json");
    let release_path = release.path();
    let paths = [absolute.to_str().expect("UTF-8"), "../other", "checkpoint.json", release_path.as_str()];
    // The sequence number of the folder exceeds the 16 checkpoints for which a replaced file is kept.
    for _ in 0..20 {
        registry.renew(by(&root())).expect("renewed");
    }
    let before = registry.checkpoint_text().expect("a checkpoint");
    for path in paths {
        fs::write(&list, serde_json::json!([{ "by": 0, "path": path }]).to_string()).expect("written");
        for refused in [registry.renew(by(&root())), registry.clean_up(Duration::ZERO, by(&root()))] {
            let error = refused.expect_err(path);
            assert!(matches!(&error, FolderError::Read(FolderReadError::ForeignPath { file, .. }) if file == path));
            assert!(said(&error).contains(".replaced.json"), "{}", said(&error));
        }
        assert_eq!(registry.checkpoint_text().expect("a checkpoint"), before, "the change was not made");
    }
    assert!(absolute.exists() && other.exists() && registry.content_store().contains(&release));
    // A file that a change replaced is deleted after 16 further checkpoints.
    fs::remove_file(&list).expect("removed");
    let index = ContentFile::Index(
        name("acme/adder"),
        registry.state(Some(&pinned())).expect("a state").checkpoint.index[&name("acme/adder")],
    );
    add(&registry, &Made::version("1.1.0")).expect("added");
    assert!(registry.content_store().contains(&index), "readers may still use it");
    for _ in 0..16 {
        registry.renew(by(&root())).expect("renewed");
    }
    assert!(!registry.content_store().contains(&index), "the replaced index file was deleted");
    assert_eq!(versions(&registry), ["1.0.0", "1.1.0"]);
}

/// Opening a named pipe waits for a writer, so a pipe in the place of a file must be refused before it is read.
#[test]
fn named_pipes_in_a_folder_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let state = registry.state(Some(&pinned())).expect("a state");
    let index = ContentFile::Index(name("acme/adder"), state.checkpoint.index[&name("acme/adder")]);
    let as_pipe = |path: &Path| {
        let aside = path.with_extension("aside");
        fs::rename(path, &aside).expect("moved aside");
        assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
        aside
    };
    let path = registry.content_store().path(&index);
    let aside = as_pipe(&path);
    let error = registry.rows(&state, &name("acme/adder")).expect_err("a pipe");
    assert!(said(&error).contains("it is not a regular file"), "{}", said(&error));
    fs::rename(aside, &path).expect("moved back");
    let path = registry.path().join("checkpoint.json");
    let aside = as_pipe(&path);
    let error = registry.checkpoint_text().expect_err("a pipe");
    assert!(said(&error).contains("it is not a regular file"), "{}", said(&error));
    fs::rename(aside, &path).expect("moved back");
    let lock = registry.path().join(".lock");
    let aside = as_pipe(&lock);
    registry.renew(by(&root())).expect_err("a pipe");
    fs::rename(aside, &lock).expect("moved back");
    registry.renew(by(&root())).expect("files again");
    assert_eq!(versions(&registry), ["1.0.0"]);
}
