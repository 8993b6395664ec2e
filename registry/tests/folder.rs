//! Registries' folders and index files: whole after every crash, changed by one at a time, and read by older hosts.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use common::{Made, acme, add, add_file, by, key, name, pinned, registry, root, said};
use gymkhana_registry::{
    Accepted, CatalogueRow, Contents, ContentsError, Digest, FolderError, IndexError, Item, MAX_INDEX_BYTES,
    RegistryFolder, Row, check_goes_on, read_catalogue, read_index, write_catalogue, write_index,
};

fn rows(registry: &RegistryFolder) -> Vec<Row> {
    let state = registry.state(Some(&pinned())).expect("a sound registry");
    registry.rows(&state, &name("acme/adder")).expect("rows")
}

fn versions(registry: &RegistryFolder) -> Vec<String> {
    rows(registry).iter().map(|row| row.version.to_string()).collect()
}

#[test]
fn what_is_published_is_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let (old, new) = (Made::version("1.0.0"), Made::version("1.1.0"));
    let added = add(&registry, &old).expect("added");
    add(&registry, &new).expect("added");
    assert_eq!(versions(&registry), ["1.0.0", "1.1.0"]);
    assert_eq!(rows(&registry)[0], added);
    assert_eq!(added.signer, Some(acme().public()));
    assert!(added.tells_of(&old.release(), &old.signed()));
    assert!(!added.tells_of(&new.release(), &new.signed()));
    let component = registry.contents().read(&Item::Component(added.digest)).expect("read").expect("there");
    assert_eq!(component, old.component());
    let release = registry.contents().read(&Item::Release(added.release)).expect("read").expect("there");
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
fn what_is_not_as_it_was_signed_is_not_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let made = Made::version("1.0.0");
    let other = Made { padding: 1, ..made.clone() };
    for (file, component, words) in [
        (made.signed(), other.component(), "the component's sha256 is"),
        (made.release().sign(Some(&key(9))).expect("JSON"), made.component(), "is no key of namespace `acme`"),
        (made.release().sign(None).expect("JSON"), made.component(), "nobody's key"),
        (made.signed().replacen("Adds", "Eats", 1), made.component(), "not the one that its publisher signed"),
        ("a poem\n".to_owned(), made.component(), "is no release"),
    ] {
        let error = add_file(&registry, &file, &component, by(&root())).expect_err(words);
        assert!(said(&error).contains(words), "{}", said(&error));
        assert_eq!(versions(&registry), Vec::<String>::new());
    }
    add(&registry, &made).expect("added");
}

/// A process that dies between any two of its writes leaves the old state, which the next one goes on from.
#[test]
fn a_crash_at_any_moment_leaves_the_registry_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let before = snapshot(registry.path());
    let made = Made::version("1.1.0");
    add(&registry, &made).expect("added");
    let after = snapshot(registry.path());
    // What was written, oldest first: the component, its release, the index, the catalogue, the checkpoint.
    // The list of what was replaced comes behind all that: whoever dies before it is written leaves more, and nothing less.
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
            // The last of them is half written: a crash comes before its file has its name.
            let target = crashed.join(path);
            fs::create_dir_all(target.parent().expect("a folder")).expect("created");
            fs::write(target, bytes).expect("written");
        }
        fs::create_dir_all(crashed.join("incoming")).expect("created");
        fs::write(crashed.join("incoming/1-1"), &written[reached].1[..10]).expect("written");
        let registry = RegistryFolder::open(&crashed).expect("a registry");
        assert_eq!(versions(&registry), ["1.0.0"], "after {reached} writes");
        add(&registry, &made).expect("it goes on");
        assert_eq!(versions(&registry), ["1.0.0", "1.1.0"]);
        registry.sweep(Duration::ZERO, by(&root())).expect("swept");
        assert_eq!(fs::read_dir(crashed.join("incoming")).expect("a folder").count(), 0);
        assert_eq!(versions(&registry), ["1.0.0", "1.1.0"], "a sweep takes nothing that counts");
        let index = fs::read_dir(crashed.join("index/acme/adder")).expect("a folder").count();
        assert_eq!(index, 2, "the one before is kept for whoever reads by it");
    }
}

/// Whether all that a checkpoint names can be read.
fn is_whole(registry: &RegistryFolder, state: &Accepted) -> bool {
    state.checkpoint.index.keys().all(|plugin| registry.rows(state, plugin).is_ok())
        && registry.catalogue(state).is_ok()
}

fn index_files(registry: &RegistryFolder) -> usize {
    fs::read_dir(registry.path().join("index/acme/adder")).expect("a folder").count()
}

/// Who reads by one of the last checkpoints finds what it names; what no such one names is gone with the next change.
#[test]
fn what_the_last_checkpoints_name_is_kept_and_no_more() {
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
        assert_eq!(is_whole(&registry, state), age <= 16, "{age} changes ago");
    }
    assert_eq!(index_files(&registry), 17);
    // How old a file is says nothing: the first of these lies there since long ago, and is still read.
    let old = Item::Index(name("acme/adder"), states[39 - 16].checkpoint.index[&name("acme/adder")]);
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(365 * 24 * 3600);
    let file = File::options().write(true).open(registry.contents().path(&old)).expect("a file");
    file.set_modified(long_ago).expect("set");
    registry.sweep(Duration::from_secs(3600), by(&root())).expect("swept");
    assert!(states[39 - 16..].iter().all(|state| is_whole(&registry, state)));
    // A renewal is a checkpoint too.
    registry.renew(by(&root())).expect("renewed");
    assert!(!is_whole(&registry, &states[39 - 16]) && is_whole(&registry, &states[39 - 15]));
}

/// What was replaced comes back with the same digest, and is what counts then.
#[test]
fn a_file_that_comes_back_is_not_taken_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let version = "1.0.0".parse().expect("a version");
    for round in 0..60 {
        registry.yank(&name("acme/adder"), &version, round % 2 == 0, by(&root())).expect("changed");
        let state = registry.state(Some(&pinned())).expect("a state");
        assert!(is_whole(&registry, &state), "after {round} changes");
    }
    assert_eq!(index_files(&registry), 2);
    // Once nothing brings it back, it goes.
    for _ in 0..17 {
        registry.renew(by(&root())).expect("renewed");
    }
    assert_eq!(index_files(&registry), 1);
}

/// A crash, or an older host, left what is on no list.
#[test]
fn a_sweep_takes_what_no_checkpoint_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    let contents = registry.contents();
    let strays = [name("acme/adder"), name("acme/never")].map(|plugin| Item::Index(plugin, Digest::of(b"x")));
    for stray in strays.iter().chain([&Item::Catalogue(Digest::of(b"x"))]) {
        contents.write(stray, b"x").expect("written");
    }
    let readme = registry.path().join("index/acme/adder/README");
    fs::write(&readme, "ours").expect("written");
    registry.sweep(Duration::from_secs(3600), by(&root())).expect("swept");
    assert!(strays.iter().all(|stray| !contents.has(stray)) && !contents.has(&Item::Catalogue(Digest::of(b"x"))));
    assert!(readme.exists(), "what is nothing of ours stays");
    assert!(is_whole(&registry, &registry.state(Some(&pinned())).expect("a state")));
}

/// A file that readers refuse would end the plugin; it is not written.
#[test]
fn an_index_that_nobody_would_read_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    add(&registry, &Made::version("1.0.0")).expect("added");
    // As full as can be: only somebody with the root key gets there so fast.
    let mut state = registry.state(Some(&pinned())).expect("a state").checkpoint;
    let mut rows = rows(&registry);
    let room = MAX_INDEX_BYTES as usize - write_index(&rows).expect("JSON").len();
    rows[0].description.push_str(&"x".repeat(room - 10));
    let text = write_index(&rows).expect("JSON");
    let digest = Digest::of(text.as_bytes());
    registry.contents().write(&Item::Index(name("acme/adder"), digest), text.as_bytes()).expect("written");
    state.index.insert(name("acme/adder"), digest);
    state.sequence += 1;
    registry.show(&state.sign(Some(&root())).expect("JSON")).expect("shown");
    let before = registry.checkpoint_text().expect("text");
    let error = add(&registry, &Made::version("1.0.1")).expect_err("no room");
    assert!(error.to_string().contains("the index of `acme/adder` would have"), "{error}");
    assert!(matches!(error, FolderError::Full { limit: MAX_INDEX_BYTES, .. }), "{error}");
    assert_eq!(registry.checkpoint_text().expect("text"), before, "nothing is changed");
    add(&registry, &Made::of("acme/other", "1.0.0")).expect("another plugin has room");
    // A release that says it is larger than anything is none.
    let made = Made::of("acme/other", "1.0.1");
    let mut endless = made.release();
    endless.size = u64::MAX;
    let file = endless.sign(Some(&acme())).expect("JSON");
    let error = add_file(&registry, &file, &made.component(), by(&root())).expect_err("not that large");
    assert!(said(&error).contains("the component's sha256 is"), "{}", said(&error));
    add(&registry, &made).expect("what it is");
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
fn of_many_that_publish_one_version_one_wins_and_the_others_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    let outcomes: Vec<Result<Row, FolderError>> = std::thread::scope(|scope| {
        let publish = |padding| {
            let registry = &registry;
            scope.spawn(move || add(registry, &Made { padding, ..Made::version("1.0.0") }))
        };
        let running: Vec<_> = (0..8).map(publish).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let won: Vec<&Row> = outcomes.iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(rows(&registry), [won[0].clone()]);
    for lost in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(lost.to_string().contains("is published already"), "{lost}");
    }
}

#[test]
fn a_registry_is_made_where_nothing_is() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("thesis.tex"), "").expect("written");
    let error = RegistryFolder::create(folder.path(), by(&root())).expect_err("something is there");
    assert!(matches!(error, FolderError::Taken(_)), "{error}");
    assert!(RegistryFolder::open(folder.path()).is_err());
}

#[test]
fn a_root_that_has_handed_over_signs_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = registry(&folder.path().join("r"));
    registry.replace_root(&key(5), by(&root())).expect("handed over");
    let error = add(&registry, &Made::version("1.0.0")).expect_err("the old root");
    assert!(error.to_string().contains(&key(5).public().to_string()), "{error}");
    let made = Made::version("1.0.0");
    add_file(&registry, &made.signed(), &made.component(), by(&key(5))).expect("the new root");
}

#[test]
fn an_unsigned_folder_has_no_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let unsigned = gymkhana_registry::Authority { root: None, ..by(&root()) };
    let registry = RegistryFolder::create(&folder.path().join("r"), unsigned).expect("a registry");
    let made = Made::version("1.0.0");
    let file = made.release().sign(None).expect("JSON");
    let row = add_file(&registry, &file, &made.component(), unsigned).expect("added");
    assert_eq!(row.signer, None);
    assert!(registry.state(None).is_ok());
    assert!(registry.state(Some(&pinned())).is_err(), "nobody takes it for a signed one");
}

#[test]
fn older_hosts_step_over_lines_that_they_cannot_know() {
    let made = Made::version("1.0.0");
    let row = Row::new(&made.release(), &made.signed(), Some(acme().public()));
    let text = write_index(std::slice::from_ref(&row)).expect("JSON");
    let newer = "{\"schema\":2,\"version\":\"five\"}\n";
    let adder = name("acme/adder");
    assert_eq!(read_index(&adder, &format!("{newer}{text}{newer}")).expect("rows"), std::slice::from_ref(&row));
    assert!(matches!(read_index(&name("acme/other"), &text), Err(IndexError::Stranger { line: 1, .. })));
    assert!(matches!(read_index(&adder, &format!("{text}{text}")), Err(IndexError::Twice(_))));
    assert!(matches!(read_index(&adder, &format!("{text}{{")), Err(IndexError::Line { line: 2, .. })));
    let line = CatalogueRow::of(std::slice::from_ref(&row)).expect("not yanked");
    let catalogue = write_catalogue(std::slice::from_ref(&line)).expect("JSON");
    assert_eq!(read_catalogue(&format!("{newer}{catalogue}")).expect("lines"), std::slice::from_ref(&line));
    assert!(line.has_all(&["ADDS".to_owned(), "tool".to_owned()]) && !line.has_all(&["reward".to_owned()]));
    // Of what was there nothing but a yank may change.
    let yanked = Row { yanked: true, ..row.clone() };
    assert!(check_goes_on(std::slice::from_ref(&row), &[yanked]).is_ok());
    let changed = Row { size: 1, ..row.clone() };
    assert!(check_goes_on(std::slice::from_ref(&row), &[changed]).is_err());
    assert!(check_goes_on(&[row], &[]).is_err());
}

#[test]
fn files_by_digest_are_checked_whenever_they_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = Contents::new(folder.path().to_owned());
    let item = Item::Component(Digest::of(b"bytes"));
    assert!(contents.read(&item).expect("read").is_none());
    contents.write(&item, b"bytes").expect("written");
    assert_eq!(contents.read(&item).expect("read").expect("there"), b"bytes");
    fs::write(contents.path(&item), b"bites").expect("written");
    let error = contents.read(&item).expect_err("changed");
    assert!(matches!(error, ContentsError::Changed { .. }), "{error}");
    contents.write(&item, b"bytes").expect("what was changed is put right");
    assert!(contents.read(&item).expect("read").is_some());
    assert!(contents.write(&item, b"bites").is_err(), "nothing gets another's name");
    assert_eq!(fs::read_dir(folder.path().join("incoming")).expect("a folder").count(), 0);
}

#[test]
fn paths_are_of_such_files_or_of_none() {
    let digest = Digest::of(b"");
    let index = Item::Index(name("acme/adder"), digest);
    for item in [index, Item::Catalogue(digest), Item::Release(digest), Item::Component(digest)] {
        assert_eq!(Item::of_path(&item.path()), Some(item));
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
        assert_eq!(Item::of_path(&path), None, "{path}");
    }
}
