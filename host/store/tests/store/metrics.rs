//! Metrics are appended as complete lines, and a resumed run continues at its checkpoint.

use std::fs;
use std::path::Path;

use gymkhana_record::StepMetrics;
use gymkhana_record::step_metrics::sft::{GRADIENT_NORM, LOSS};
use gymkhana_registry::Digest;
use gymkhana_store::{MetricsExtent, RunFolder, StoreError};

fn places(run: &RunFolder) -> Vec<(u32, u64)> {
    let lines = run.reader().metrics().expect("readable");
    lines.iter().map(|line| (line.stage, line.step)).collect()
}

fn event_files(run: &Path, stage: u32) -> usize {
    fs::read_dir(run.join("tensorboard").join(format!("stage-{stage}"))).map_or(0, Iterator::count)
}

#[test]
fn complete_lines_are_read_and_an_incomplete_one_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), "").expect("made");
    let mut metrics = run.metrics().expect("opened");
    metrics.append(0, 0, &[(LOSS, 2.5), (GRADIENT_NORM, f64::NAN)].into()).expect("written");
    metrics.append(0, 1, &[(LOSS, 0.1)].into()).expect("written");
    let lines = run.reader().metrics().expect("readable");
    assert_eq!(lines[0].values["loss"], 2.5);
    assert!(lines[0].values["gradient_norm"].is_null());
    assert_eq!(lines[0].values.keys().collect::<Vec<_>>(), ["loss", "gradient_norm"]);
    let path = run.reader().path().join("metrics.jsonl");
    let whole = fs::read(&path).expect("read");
    let first = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for length in first..whole.len() {
        fs::write(&path, &whole[..length]).expect("torn");
        assert_eq!(places(&run), [(0, 0)]);
        run.metrics().expect("opened").append(0, 1, &StepMetrics::default()).expect("written");
        assert_eq!(places(&run), [(0, 0), (0, 1)]);
    }
}

#[test]
fn a_rewind_removes_later_steps_and_stages() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), "").expect("made");
    let path = run.reader().path();
    let mut metrics = run.metrics().expect("opened");
    for (stage, step) in [(0, 0), (0, 1)] {
        metrics.append(stage, step, &[(LOSS, 1.0)].into()).expect("written");
    }
    let kept = metrics.extent();
    for (stage, step) in [(0, 2), (1, 0)] {
        metrics.append(stage, step, &[(LOSS, 1.0)].into()).expect("written");
    }
    assert_eq!((event_files(path, 0), event_files(path, 1)), (1, 1));
    metrics.rewind(0, &kept).expect("rewound");
    assert_eq!((places(&run), metrics.extent()), (vec![(0, 0), (0, 1)], kept));
    assert_eq!((event_files(path, 0), event_files(path, 1)), (1, 0));
    // The second file of the stage begins with a session start at step 2.
    metrics.append(0, 2, &[(LOSS, 0.5)].into()).expect("written");
    assert_eq!(places(&run), [(0, 0), (0, 1), (0, 2)]);
    assert_eq!(event_files(path, 0), 2);
}

/// Every flipped bit before the checkpoint is refused. Lines after it, and a file that was moved away, are not read.
#[test]
fn lines_before_a_checkpoint_hold_their_digest() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), "").expect("made");
    let path = run.reader().path().join("metrics.jsonl");
    let mut metrics = run.metrics().expect("opened");
    metrics.append(0, 0, &[(LOSS, 2.5)].into()).expect("written");
    let extent = run.metrics().expect("opened again").extent();
    let first = fs::read(&path).expect("read");
    assert_eq!(extent, MetricsExtent { bytes: first.len() as u64, digest: Digest::of(&first) });
    metrics.append(0, 1, &[(LOSS, 1.5)].into()).expect("written");
    let whole = fs::read(&path).expect("read");
    for place in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, damaged).expect("written");
        let read = run.reader().metrics_before(&extent);
        if place < first.len() {
            let error = read.expect_err("damaged");
            assert!(error.to_string().contains("metrics.jsonl` is damaged: its lines before"), "{error}");
        } else {
            assert_eq!(read.expect("the first line").len(), 1);
        }
    }
    for shorter in [&first[..first.len() - 1], &first[..1]] {
        fs::write(&path, shorter).expect("written");
        assert!(matches!(run.reader().metrics_before(&extent), Err(StoreError::Altered { .. })));
    }
    fs::remove_file(&path).expect("moved away");
    assert!(run.reader().metrics_before(&extent).expect("nothing").is_empty());
}

#[test]
fn other_lines_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), "").expect("made");
    let path = run.reader().path().join("metrics.jsonl");
    fs::write(&path, "{\"schema\":2,\"loss\":1}\n").expect("written");
    assert!(matches!(run.reader().metrics(), Err(StoreError::Schema { found: 2, .. })));
    fs::write(&path, "loss,step\n").expect("written");
    assert!(matches!(run.reader().metrics(), Err(StoreError::Json { .. })));
}
