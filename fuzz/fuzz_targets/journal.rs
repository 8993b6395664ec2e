//! The journal of a run: raw bytes, or frames with correct lengths and checksums around the input.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use gymkhana_store::{RunFolder, RunReader};
use libfuzzer_sys::fuzz_target;

/// Header of a journal of schema 2.
const HEADER: [u8; 8] = *b"GYMJ\x02\0\0\0";

/// A run's folder without a writer, in the folder of temporary files, which `cargo xtask fuzz` empties.
static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = tempfile::tempdir().expect("a folder").keep().join("run");
    drop(RunFolder::create(&path, "").expect("a run's folder"));
    fs::create_dir_all(path.join("episodes")).expect("a folder");
    path
});

fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let journal = match form % 3 {
        0 => [&HEADER[..], data].concat(),
        1 => framed(&[data]),
        _ => framed(&data.split(|byte| *byte == b'\n').collect::<Vec<_>>()),
    };
    fs::write(RUN.join("episodes").join("journal-000001.log"), journal).expect("written");
    let reader = RunReader::open(&RUN).expect("opened");
    if let Ok(episodes) = reader.episodes() {
        assert_eq!(episodes.read_all().count(), episodes.len());
    }
});

/// A journal of one frame for each payload.
fn framed(payloads: &[&[u8]]) -> Vec<u8> {
    let mut journal = HEADER.to_vec();
    for payload in payloads {
        journal.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        journal.extend(crc32fast::hash(payload).to_le_bytes());
        journal.extend(*payload);
    }
    journal
}
