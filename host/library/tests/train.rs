//! The program in `examples/train.rs`, and a run by events.

use std::process::Command;
use std::sync::{Arc, Mutex};

use gymkhana::{Event, Run, RunFile, RunOutcome, StageBuilder, TinyModel};
use gymkhana_store::RunReader;
use gymkhana_tests::{component, root};

/// The example beside this test program: `cargo test` builds both.
#[test]
fn the_example_trains() {
    let example = std::env::current_exe().expect("a path").ancestors().nth(2).expect("a folder").join("examples/train");
    let out = tempfile::tempdir().expect("a folder");
    let output = Command::new(example).arg(out.path().join("run")).current_dir(root()).output().expect("started");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    assert!(talk.contains("stage sft: success ") && talk.contains("stage rl: success "), "{talk}");
    let run = RunReader::open(&out.path().join("run")).expect("a run");
    assert_eq!(run.lock().expect("a lock").entries().len(), 1);
}

fn file() -> gymkhana::RunFileBuilder {
    let lake = component("frozen-lake");
    RunFile::builder()
        .plugin("frozen-lake", lake.to_str().expect("UTF-8"))
        .tiny(&TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, ..TinyModel::default() })
        .set("evaluation.tasks", 0)
        .set("limits.turns", 16)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_what_happens() {
    let out = tempfile::tempdir().expect("a folder");
    let events = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&events);
    let file = file().stage(StageBuilder::sft().steps(2).batch(2)).build().expect("a run file");
    let run = Run::new(file).on_event(move |event| seen.lock().expect("not poisoned").push(event.clone()));
    let outcome = run.train(out.path().join("run")).await.expect("it trains");
    assert!(matches!(outcome, RunOutcome::Finished(_)));
    let events = events.lock().expect("not poisoned");
    let finished: Vec<_> = events.iter().filter(|event| matches!(event, Event::StageFinished(_))).collect();
    assert_eq!(finished.len(), 1, "{events:?}");
    assert!(finished[0].to_string().starts_with("stage sft: success not measured"), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Progress { done: 2, .. })), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_found_before_anything_is_written() {
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join("run");
    let refused = |file: RunFile| {
        let path = path.clone();
        async move { Run::new(file).train(path).await.map(drop).expect_err("refused").to_string() }
    };
    let none = refused(file().build().expect("a run file")).await;
    assert!(none.contains("the run file has no stage"), "{none}");
    let rule = file().success("environment.crossed").stage(StageBuilder::sft()).build().expect("a run file");
    let rule = refused(rule).await;
    assert!(rule.contains("crossed"), "{rule}");
    let missing = RunFile::builder().plugin("lake", "./lake.wasm").stage(StageBuilder::sft()).build();
    let missing = refused(missing.expect("a run file")).await;
    assert!(missing.contains("lake.wasm") && missing.contains("hint: "), "{missing}");
    let nothing = refused(RunFile::builder().stage(StageBuilder::sft()).build().expect("a run file")).await;
    assert!(nothing.contains("the run file names no plugins\nhint: name them in [plugins]"), "{nothing}");
    assert!(!path.exists());
}
