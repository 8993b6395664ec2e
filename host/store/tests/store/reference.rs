//! Other programs read a run's files: `cargo xtask test --reference` runs this with a Python that has pandas.

use std::path::Path;
use std::process::Command;

use crate::common::record;
use gymkhana_store::RunFolder;

#[test]
#[ignore = "needs pandas: `cargo xtask test --reference` runs it"]
fn pandas_reads_the_parts() {
    let python =
        std::env::var_os("GYMKHANA_REFERENCE_PYTHON").expect("GYMKHANA_REFERENCE_PYTHON names a Python with pandas");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let run = RunFolder::create(&path, "").expect("made");
    let mut store = run.episodes().expect("opened");
    let (mut tokens, mut sampled, mut successes) = (0, 0, 0);
    for number in 0..100 {
        let mut record = record(number);
        record.rewards = vec![0.25, 7.0];
        tokens += record.segments.iter().map(|segment| segment.len()).sum::<usize>();
        sampled += record.sampled_tokens();
        successes += u32::from(record.success);
        store.append(&record).expect("appended");
        if number % 40 == 39 {
            store.commit().expect("committed");
        }
    }
    store.commit().expect("committed");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference_read.py");
    let output = Command::new(python).arg(script).arg(&path).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(read["parts"], 3);
    assert_eq!(read["episodes"], 100);
    assert_eq!(read["tokens"], tokens);
    assert_eq!(read["sampled_tokens"], sampled);
    assert_eq!(read["mean_reward"], 0.25);
    assert_eq!(read["success"]["train"], f64::from(successes) / 100.0);
}
