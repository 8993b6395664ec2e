//! Text files of a run's folder: an altered file is refused, and one with a fitting digest is read without a panic.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use gymkhana_registry::Digest;
use gymkhana_store::{RunFolder, RunReader};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Announces a digest in a file of a run's folder.
const MARK: &str = "sha256 of this file with zeros here: ";

/// Files of a run's folder that are read back.
const FILES: [&str; 5] = ["state.json", "summary.json", "run.toml", "gymkhana.lock", "metrics.jsonl"];

/// A run's folder in the folder of temporary files, which `cargo xtask fuzz` empties.
static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = tempfile::tempdir().expect("a folder").keep().join("run");
    drop(RunFolder::create(&path, "").expect("a run's folder"));
    path
});

// The first byte selects the file, and whether the text gets a digest that fits.
fuzz_target!(|data: &[u8]| {
    let Some((form, text)) = data.split_first() else { return };
    let name = FILES[usize::from(form % 5)];
    let fits = form & 0x80 != 0;
    for other in FILES {
        let _ = fs::remove_file(RUN.join(other));
    }
    fs::write(RUN.join("run.toml"), with_digest(b"")).expect("written");
    fs::write(RUN.join(name), if fits { with_digest(text) } else { text.to_vec() }).expect("written");
    let reader = RunReader::open(&RUN).expect("opened");
    match name {
        "state.json" => assert!(fits || reader.state::<Value>().is_err() || text.is_empty()),
        "summary.json" => assert!(fits || reader.summary().is_err()),
        "run.toml" => assert!(fits || reader.run_text().is_err()),
        "gymkhana.lock" => assert!(fits || reader.lock().is_err()),
        _ => drop(reader.metrics()),
    }
    for read in [reader.state::<Value>().map(drop), reader.summary().map(drop), reader.run_text().map(drop)] {
        drop(read);
    }
    drop(reader.lock());
});

/// The text, in which the digest of the whole follows.
fn with_digest(text: &[u8]) -> Vec<u8> {
    let comment = format!("# {MARK}");
    // A JSON object keeps its form: the digest becomes its last field.
    let (front, back) = match text.strip_suffix(b"}") {
        Some(front) => ([front, br#","digest":""#, MARK.as_bytes()].concat(), &b"\"}"[..]),
        None => ([text, comment.as_bytes()].concat(), &b"\n"[..]),
    };
    let file = |digits: &str| [&front, digits.as_bytes(), back].concat();
    file(&Digest::of(&file(&"0".repeat(64))).to_string())
}
