//! The journal of episodes in progress: raw bytes, or lines after the start of an episode.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};
use gymkhana_store::{LiveJournal, recover};
use libfuzzer_sys::fuzz_target;

/// A folder in that of temporary files, which `cargo xtask fuzz` empties.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| tempfile::tempdir().expect("a folder").keep());

/// The line of an episode that began.
static BEGUN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let id = EpisodeId { stage: 0, phase: Phase::Served, step: 0, group: 0, member: 0, attempt: 0 };
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    let journal = LiveJournal::create(folder.path()).expect("a journal");
    journal.began("", &EpisodeRecord::new(id, task, Seed(1), Ending::Dropped)).expect("written");
    fs::read(folder.path().join("live-0.jsonl")).expect("a line")
});

fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let journal = if form % 2 == 0 { data.to_vec() } else { [&BEGUN[..], data].concat() };
    fs::write(FOLDER.join("live-0.jsonl"), journal).expect("written");
    let mut stored = 0;
    let recovered = recover(&FOLDER, "server", |_, records| {
        stored += records.len();
        assert!(records.iter().all(|record| record.ending == Ending::Dropped));
        Ok(records.len())
    });
    if let Ok(recovered) = recovered {
        assert_eq!(recovered.episodes, stored);
        assert!(!FOLDER.join("live-0.jsonl").exists());
    }
});
