//! Ownership of a run's folder, and what readers find in it.

use std::collections::BTreeMap;
use std::fs;

use gymkhana_registry::{Digest, Lock};
use gymkhana_store::{RunFolder, RunReader, RunSummary, STATE_SCHEMA, SUMMARY_SCHEMA, StageSummary, StoreError};

const RUN: &str = "seed = 1\n";

#[test]
fn a_run_gets_its_own_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep").join("run");
    let run = RunFolder::create(&path, RUN).expect("made");
    assert_eq!(run.reader().run_text().expect("read"), RUN);
    assert!(matches!(RunFolder::open_for_resume(&path), Err(StoreError::InUse(_))));
    drop(run);
    let error = RunFolder::create(&path, RUN).expect_err("taken");
    assert!(matches!(error, StoreError::HoldsRun(_)));
    let hint = format!("hint: choose another --out, or resume it with `host run --resume {}`", path.display());
    assert!(error.to_string().ends_with(&format!("holds another run\n{hint}")), "{error}");
    assert_eq!(RunFolder::open_for_resume(&path).expect("resumed").reader().run_text().expect("read"), RUN);
}

#[test]
fn a_folder_of_runs_names_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("another")).expect("a folder");
    for name in ["one", "two"] {
        drop(RunFolder::create(&folder.path().join(name), RUN).expect("created"));
    }
    let told = RunReader::open(folder.path()).expect_err("no run").to_string();
    assert!(told.ends_with("/one` does\nhint: give that folder"), "{told}");
}

#[test]
fn folders_with_other_files_are_refused_and_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("thesis.tex");
    fs::write(&file, "years of work").expect("written");
    assert!(matches!(RunFolder::create(folder.path(), RUN), Err(StoreError::Foreign(_))));
    assert!(matches!(RunFolder::create(&file, RUN), Err(StoreError::NotAFolder(_))));
    assert!(matches!(RunFolder::open_for_resume(folder.path()), Err(StoreError::NoRun(_))));
    assert!(matches!(RunReader::open(&folder.path().join("nothing")), Err(StoreError::NoRun(_))));
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
}

#[test]
fn a_run_file_alone_is_not_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("run.toml"), RUN).expect("written");
    let error = RunReader::open(folder.path()).expect_err("no run");
    assert!(error.to_string().contains("does not hold a run: it has a run.toml, but no folder `episodes`"), "{error}");
    assert!(matches!(RunFolder::create(folder.path(), "seed = 2\n"), Err(StoreError::Foreign(_))));
    assert_eq!(fs::read_to_string(folder.path().join("run.toml")).expect("unchanged"), RUN);
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
}

#[test]
fn a_folder_left_without_a_run_by_a_crash_can_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(".lock"), "").expect("written");
    fs::write(folder.path().join(".run.toml.1-0.tmp"), "see").expect("written");
    RunFolder::create(folder.path(), RUN).expect("made");
    assert!(!folder.path().join(".run.toml.1-0.tmp").exists());
}

/// Everything that a run writes goes, by its name; files of another origin stay, also in the run's own folders.
#[test]
fn a_cleared_folder_holds_a_new_run_and_the_files_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let run = RunFolder::create(&path, RUN).expect("made");
    let digest = run.add_plugin(b"plugin").expect("added");
    run.add_asset(&Digest::of(b"asset"), &mut &b"asset"[..]).expect("added");
    run.write_lock(&Lock::new(Vec::new()).expect("an empty lock")).expect("written");
    run.write_state(&BTreeMap::from([("stage", 0)])).expect("written");
    for name in ["checkpoints/0-000000/model", "tensorboard/stage-0/events"] {
        fs::create_dir_all(path.join(name).parent().expect("a folder")).expect("made");
        fs::write(path.join(name), "see").expect("written");
    }
    fs::write(path.join("metrics.jsonl"), "").expect("written");
    fs::write(path.join("episodes/journal-000001.log"), "").expect("written");
    let others = ["notes.txt", "plugins/mine.wasm", "checkpoints/best"].map(|name| path.join(name));
    others.iter().for_each(|path| fs::write(path, "mine").expect("written"));
    let run = run.clear("seed = 2\n").expect("cleared");
    assert_eq!(run.reader().run_text().expect("read"), "seed = 2\n");
    assert!(matches!(run.reader().plugin(&digest), Err(StoreError::NoPlugin(_))));
    assert_eq!(run.reader().state::<BTreeMap<String, u32>>().expect("none"), None);
    for folder in ["assets", "episodes", "tensorboard"] {
        assert_eq!(fs::read_dir(path.join(folder)).expect("listed").count(), 0, "{folder}");
    }
    for name in ["metrics.jsonl", "gymkhana.lock", "checkpoints/0-000000"] {
        assert!(!path.join(name).exists(), "{name}");
    }
    assert!(others.iter().all(|path| path.exists()), "{others:?}");
    // The folder stays locked meanwhile.
    assert!(matches!(RunFolder::open_for_resume(&path), Err(StoreError::InUse(_))));
}

#[test]
fn a_rewritten_run_file_keeps_the_time_of_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), RUN).expect("made");
    let started = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = fs::File::options().write(true).open(run.reader().path().join("run.toml")).expect("opened");
    file.set_modified(started).expect("set");
    run.rewrite_run_text("seed = 2\n").expect("written");
    assert_eq!(run.reader().run_text().expect("read"), "seed = 2\n");
    assert_eq!(run.reader().started(), Some(started));
}

#[test]
fn plugins_are_verified_against_their_digests() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), RUN).expect("made");
    let digest = run.add_plugin(b"plugin").expect("added");
    assert_eq!(digest, Digest::of(b"plugin"));
    assert_eq!(run.add_plugin(b"plugin").expect("added again"), digest);
    assert_eq!(run.reader().plugin(&digest).expect("read"), b"plugin");
    let path = run.reader().path().join("plugins").join(format!("{digest}.wasm"));
    fs::write(&path, b"plugim").expect("damaged");
    assert!(matches!(run.reader().plugin(&digest), Err(StoreError::WrongDigest { .. })));
    assert!(matches!(run.reader().plugin(&Digest::of(b"other")), Err(StoreError::NoPlugin(_))));
    let lock = Lock::new(Vec::new()).expect("an empty lock");
    run.write_lock(&lock).expect("written");
    assert_eq!(run.reader().lock().expect("read"), lock);
}

/// The text with the digest of itself, as a person would write it after an edit.
fn resealed(text: &str) -> String {
    const MARK: &str = "sha256 of this file with zeros here: ";
    let start = text.rfind(MARK).expect("a mark") + MARK.len();
    let (zeros, end) = ("0".repeat(64), start + 64);
    let digest = Digest::of([&text[..start], zeros.as_str(), &text[end..]].concat().as_bytes());
    format!("{}{digest}{}", &text[..start], &text[end..])
}

/// Every flipped bit of a file that holds its own digest is refused by the file's name. An edit with a new digest is
/// read.
#[test]
fn files_with_a_digest_are_whole_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), RUN).expect("made");
    let summary =
        RunSummary { schema: SUMMARY_SCHEMA, stages: vec![], success: None, success_sampled: None, seconds: 1.5 };
    run.write_state(&BTreeMap::from([("stage", 3)])).expect("written");
    run.write_summary(&summary).expect("written");
    run.write_lock(&Lock::new(Vec::new()).expect("an empty lock")).expect("written");
    type Read = fn(&RunReader) -> Result<String, StoreError>;
    let files: [(&str, &str, &str, Read); 4] = [
        ("run.toml", "seed = 1", "seed = 2", RunReader::run_text),
        ("state.json", "\"stage\": 3", "\"stage\": 4", |run| {
            run.state::<BTreeMap<String, u32>>().map(|state| format!("{state:?}"))
        }),
        ("summary.json", "1.5", "2.5", |run| run.summary().map(|summary| format!("{summary:?}"))),
        ("gymkhana.lock", "do not edit", "do edit", |run| run.lock().map(|lock| format!("{lock:?}"))),
    ];
    for (name, from, to, read) in files {
        let path = run.reader().path().join(name);
        let whole = fs::read(&path).expect("read");
        let before = read(run.reader()).expect(name);
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[place] ^= 1 << bit;
                fs::write(&path, damaged).expect("written");
                let error = read(run.reader()).expect_err(name);
                assert!(error.to_string().contains(name), "{name}, bit {bit} of byte {place}: {error}");
            }
        }
        let text = String::from_utf8(whole).expect("text");
        let edited = text.replace(from, to);
        assert_ne!(edited, text, "{name}");
        fs::write(&path, &edited).expect("written");
        let error = read(run.reader()).expect_err(name);
        assert!(error.to_string().contains("its digest does not match its content"), "{error}");
        fs::write(&path, resealed(&edited)).expect("written");
        read(run.reader()).expect(name);
        fs::write(&path, text).expect("written");
        assert_eq!(read(run.reader()).expect(name), before);
    }
    let path = run.reader().path().join("state.json");
    fs::write(&path, "{\"schema\": 1, \"stage\": 3}").expect("written");
    let error = run.reader().state::<BTreeMap<String, u32>>().expect_err("without a digest");
    assert!(error.to_string().contains("an older version wrote it"), "{error}");
}

#[test]
fn state_and_summary_survive_a_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("run"), RUN).expect("made");
    let state = BTreeMap::from([("stage".to_owned(), 3)]);
    assert_eq!(run.reader().state::<BTreeMap<String, u32>>().expect("none"), None);
    run.write_state(&state).expect("written");
    assert_eq!(run.reader().state().expect("read"), Some(state));
    let path = run.reader().path().join("state.json");
    let written = fs::read_to_string(&path).expect("read");
    assert_eq!(resealed(&written), written, "the digest is that of the text with zeros in its place");
    assert!(written.contains(&format!("\"schema\": {STATE_SCHEMA},")), "{written}");
    let newer = written.replace(&format!("\"schema\": {STATE_SCHEMA},"), "\"schema\": 9,");
    fs::write(&path, resealed(&newer)).expect("written");
    let error = run.reader().state::<BTreeMap<String, u32>>().expect_err("newer");
    assert!(matches!(error, StoreError::Schema { found: 9, .. }), "{error}");
    let summary = RunSummary {
        schema: SUMMARY_SCHEMA,
        stages: vec![StageSummary {
            name: "rl".to_owned(),
            success_before: None,
            success_after: Some(0.75),
            success_before_sampled: None,
            success_after_sampled: Some(0.625),
            environments: BTreeMap::new(),
            evaluations: vec![],
            stopped_after: None,
            idle_steps: 0,
            episodes: 512,
            tokens: 100_000,
            seconds: 61.5,
        }],
        success: Some(0.75),
        success_sampled: Some(0.625),
        seconds: 70.25,
    };
    assert_eq!(run.reader().summary().expect("none"), None);
    run.write_summary(&summary).expect("written");
    assert_eq!(run.reader().summary().expect("read"), Some(summary.clone()));
    let text = fs::read_to_string(run.reader().path().join("summary.json")).expect("read");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["stages"][0]["success_after"], 0.75);
    assert_eq!(json["stages"][0].get("success_before"), Some(&serde_json::Value::Null));
    assert!(json["stages"][0].get("success_before_sampled").is_none());
    run.write_summary(&RunSummary { schema: 9, ..summary }).expect("written");
    assert!(matches!(run.reader().summary(), Err(StoreError::Schema { found: 9, .. })));
}

/// An open of a pipe would wait for a writer, and a device may have no end.
#[test]
fn pipes_and_devices_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(&folder.path().join("out"), "seed = 1\n").expect("a run");
    let (reader, file) = (run.reader(), folder.path().join("out/run.toml"));
    assert!(reader.run_text().is_ok());
    fs::remove_file(&file).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo").success());
    let refused = reader.run_text().expect_err("a pipe");
    assert!(format!("{refused:?}").contains("it is not a regular file"), "{refused:?}");
    fs::remove_file(&file).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &file).expect("a link");
    let refused = reader.run_text().expect_err("a device");
    assert!(format!("{refused:?}").contains("it is not a regular file"), "{refused:?}");
}
