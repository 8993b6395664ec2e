//! A registry's folder that somebody else wrote: reading it, cleaning it up and changing it touch nothing outside of it.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use gymkhana_registry::{
    Authority, CHECKPOINT_FILE, ContentFile, Digest, PluginName, RegistryCheckpoint, RegistryFolder,
};
use libfuzzer_sys::fuzz_target;

#[path = "../../registry/tests/common/mod.rs"]
mod common;

use common::{Made, add_file, name, registry_by};

/// Nobody signs the folder, so that all of its files can be forged.
const UNSIGNED: Authority<'static> = Authority { root: None, lifetime: common::DAY, now: common::NOW };
/// File beside the registry.
const CANARY: &str = "canary";

/// A folder with the registry and the canary, and the registry's files.
static PLACE: LazyLock<(PathBuf, Vec<(PathBuf, Vec<u8>)>)> = LazyLock::new(|| {
    let place = tempfile::tempdir().expect("a folder").keep();
    let registry = registry_by(&place.join("registry"), UNSIGNED);
    for version in ["1.0.0", "1.1.0"] {
        let made = Made::version(version);
        let file = made.release().sign(None).expect("JSON");
        add_file(&registry, &file, &made.component(), UNSIGNED).expect("added");
    }
    fs::write(place.join(CANARY), CANARY).expect("written");
    let files = files(registry.path());
    (place, files)
});

// Pieces between NUL characters replace files; the first byte of a piece selects the file.
fuzz_target!(|data: &[u8]| {
    let (place, files) = &*PLACE;
    let folder = place.join("registry");
    fs::remove_dir_all(&folder).expect("removed");
    for (path, bytes) in files {
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, bytes).expect("written");
    }
    data.split(|byte| *byte == 0).take(3).for_each(|piece| replace(&folder, piece));
    use_all(&folder);
    assert_eq!(fs::read(place.join(CANARY)).expect("it is there"), CANARY.as_bytes());
    assert_eq!(fs::read_dir(place).expect("a folder").count(), 2, "something lies beside the registry");
});

/// Replaces a file; index and catalogue get their digests into the checkpoint.
fn replace(folder: &Path, piece: &[u8]) {
    let Some((selector, content)) = piece.split_first() else { return };
    let registry = RegistryFolder::at(folder);
    let content_file = match selector % 5 {
        0 => return fs::write(folder.join(CHECKPOINT_FILE), content).expect("written"),
        1 => return fs::write(folder.join(".replaced.json"), content).expect("written"),
        2 => ContentFile::Index(plugin(), Digest::of(content)),
        3 => ContentFile::Catalogue(Digest::of(content)),
        _ => ContentFile::Release(Digest::of(content)),
    };
    let _ = registry.content_store().write(&content_file, content);
    let Ok(mut checkpoint) = fs::read(folder.join(CHECKPOINT_FILE))
        .map_err(drop)
        .and_then(|text| RegistryCheckpoint::parse_unverified(text).map_err(drop))
    else {
        return;
    };
    match content_file {
        ContentFile::Index(name, digest) => drop(checkpoint.index.insert(name, digest)),
        ContentFile::Catalogue(digest) => checkpoint.catalogue = digest,
        ContentFile::Release(_) | ContentFile::Component(_) => {}
    }
    registry.write_checkpoint(&checkpoint.sign(None).expect("JSON")).expect("written");
}

/// Everything that a user or a maintainer does with a folder.
fn use_all(folder: &Path) {
    let Ok(registry) = RegistryFolder::open(folder) else { return };
    if let Ok(state) = registry.state(None) {
        let _ = registry.catalogue(&state);
        state.checkpoint.index.keys().for_each(|plugin| drop(registry.rows(&state, plugin)));
    }
    let _ = registry.yank(&plugin(), &"1.0.0".parse().expect("a version"), true, UNSIGNED);
    let _ = registry.clean_up(Duration::ZERO, UNSIGNED);
    let made = Made::version("1.2.0");
    let _ = add_file(&registry, &made.release().sign(None).expect("JSON"), &made.component(), UNSIGNED);
}

fn plugin() -> PluginName {
    name("acme/adder")
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![(path.clone(), fs::read(&path).expect("read"))],
    };
    entries.flat_map(read).collect()
}
