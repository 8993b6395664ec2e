//! Damaged and forged files of an interrupted run: each is refused by its name, or changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gymkhana_config::RunFile;
use gymkhana_orchestration::plugins::recorded_files;
use gymkhana_record::{EpisodeId, Seed};
use gymkhana_registry::{Digest, Lock};
use gymkhana_run::{Classify, RunOutcome, RunRequest, RunResult, Silent, prepare};
use gymkhana_store::{RunReader, RunSummary};
use gymkhana_tests::component;
use gymkhana_trainer::{Trainer, TrainerSettings};
use serde_json::{Value, json};

/// Number of flipped bits.
const FLIPS: u64 = 200;
/// Checkpoint at which the run is interrupted, and the one at its end.
const INTERRUPTED: &str = "1-000001";
const LAST: &str = "1-000002";

const RUN: &str = r#"
deterministic = true
seed = 1
success = "answer-match.correct"
evaluation = { tasks = 2 }
limits = { turns = 2, reply_tokens = 16 }

[policy]
max_concurrent_sequences = 4
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 320 }

[plugins.answer-match]
options = { per-call-cost = 0.5 }

[[stages]]
kind = "sft"
steps = 1
batch = 2

[[stages]]
kind = "rl"
steps = 2
groups = 2
group_size = 4
optimizer = { learning_rate = 1e-2 }
"#;

fn request(out: &Path, resume: bool) -> RunRequest {
    let file = RunFile::parse(RUN, "run.toml", &[]).expect("a run file");
    let plugins = ["word-problems", "calculator", "answer-match"].map(component);
    RunRequest { resume, ..RunRequest::new(file, out, &plugins).expect("plugins") }
}

/// Starts a run and drops it after the checkpoint [`INTERRUPTED`], while the journal holds episodes of the next step. On a
/// busy machine the run may go on in between; then it is started again.
async fn interrupted(out: &Path) {
    for _ in 0..20 {
        if try_to_interrupt(out).await {
            return;
        }
        fs::remove_dir_all(out).expect("removed");
    }
    panic!("no run was interrupted in time");
}

/// Returns whether the run was interrupted as [`interrupted`] says.
async fn try_to_interrupt(out: &Path) -> bool {
    let prepared = prepare(request(out, false), Arc::new(Silent)).await.expect("a run");
    let reached = async {
        while !is_interrupted(out) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        finished = prepared.train() => drop(finished.expect("a run")),
        () = reached => {}
    }
    is_interrupted(out) && !out.join("checkpoints").join(LAST).exists()
}

fn is_interrupted(out: &Path) -> bool {
    let journalled = |path: &String| path.starts_with("episodes/journal-");
    fs::read_to_string(out.join("state.json")).is_ok_and(|text| text.contains(&format!("\"{INTERRUPTED}\"")))
        && files_below(out).iter().any(journalled)
}

/// Rewards and tokens of each episode.
type Episodes = BTreeMap<EpisodeId, (Vec<f64>, Vec<Vec<u32>>)>;

/// Everything that the rest of the run determines, without times.
#[derive(Debug, PartialEq)]
struct Finish {
    metrics: Vec<Value>,
    episodes: Episodes,
    weights: Vec<Digest>,
    summary: RunSummary,
}

/// Resumes a run to its end.
async fn resumed(out: &Path) -> RunResult<Finish> {
    let RunOutcome::Finished(finished) = prepare(request(out, true), Arc::new(Silent)).await?.train().await? else {
        panic!("nobody stopped the run")
    };
    let run = RunReader::open(out)?;
    let metrics = run.metrics()?.into_iter().map(|mut line| {
        line.values.retain(|name, _| !name.starts_with("seconds"));
        json!([line.stage, line.step, line.values])
    });
    let weights = ["model.safetensors", "trainer/state.safetensors"].map(|file| {
        let path = run.checkpoints_path().join(LAST).join(file);
        Digest::of(&fs::read(path).expect("weights"))
    });
    Ok(Finish {
        metrics: metrics.collect(),
        episodes: episodes(&run)?,
        weights: weights.to_vec(),
        summary: without_times(finished.summary),
    })
}

fn without_times(mut summary: RunSummary) -> RunSummary {
    summary.seconds = 0.0;
    summary.stages.iter_mut().for_each(|stage| stage.seconds = 0.0);
    summary
}

fn episodes(run: &RunReader) -> RunResult<Episodes> {
    let stored = run.episodes()?;
    let mut read = Episodes::new();
    for record in stored.read_all() {
        let record = record?;
        let tokens = record.segments.iter().map(|segment| segment.tokens().to_vec()).collect();
        read.insert(record.id, (record.rewards, tokens));
    }
    Ok(read)
}

/// Contents that `host show`, `host replay` and `host eval` read from the folder of a run.
#[derive(Debug, PartialEq)]
struct Read {
    run_file: String,
    lock: Lock,
    plugins: Vec<Digest>,
    summary: Option<RunSummary>,
    /// Position of each checkpoint.
    checkpoints: BTreeMap<String, Option<Value>>,
    episodes: Episodes,
}

fn read(out: &Path) -> RunResult<Read> {
    let run = RunReader::open(out)?;
    let settings = TrainerSettings { learns: false, ..TrainerSettings::default() };
    let mut checkpoints = BTreeMap::new();
    for entry in fs::read_dir(run.checkpoints_path()).internal()? {
        let path = entry.internal()?.path();
        let trainer = Trainer::open(&path, &settings).user_error()?;
        checkpoints.insert(path.to_string_lossy().replace(&*out.to_string_lossy(), ""), trainer.position().cloned());
    }
    Ok(Read {
        run_file: run.run_text()?,
        lock: run.lock()?,
        plugins: recorded_files(&run)?.iter().map(|plugin| Digest::of(&plugin.bytes)).collect(),
        summary: run.summary()?,
        checkpoints,
        episodes: episodes(&run)?,
    })
}

/// Paths of the files below a folder that are not empty, sorted.
fn files_below(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(root, &path, found);
            } else if entry.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                found.push(path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// Copies the files of a run to a new folder.
fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let path = to.join(&file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::copy(from.join(&file), path).expect("copied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_refused_by_the_name_of_its_file_or_changes_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let [base, whole, damaged] = ["base", "whole", "damaged"].map(|name| root.path().join(name));
    interrupted(&base).await;
    copy(&base, &whole);
    let before = read(&whole).expect("an undamaged run");
    let expected = resumed(&whole).await.expect("an undamaged run");
    assert!(expected.summary.stages.len() == 2 && expected.metrics.len() == 3, "{:?}", expected.metrics);
    let files = files_below(&base);
    let mut random = Seed(15).child("flipped bits").stream();
    let (mut refused, mut harmless) = (0, 0);
    for round in 0..FLIPS {
        let file = &files[random.below(files.len() as u64) as usize];
        copy(&base, &damaged);
        let mut bytes = fs::read(damaged.join(file)).expect("a file");
        let (place, bit) = (random.below(bytes.len() as u64) as usize, random.below(8));
        bytes[place] ^= 1 << bit;
        fs::write(damaged.join(file), bytes).expect("written");
        let flip = format!("flip {round}: bit {bit} of byte {place} of {file}");
        let name = file.rsplit('/').next().expect("a name");
        match read(&damaged) {
            Err(error) => assert!(error.to_string().contains(name), "{flip}: {error}"),
            // A reader cannot distinguish a damaged end of the journal from an interrupted write.
            Ok(found) if name.starts_with("journal-") => {
                let kept = found.episodes.iter().all(|(id, episode)| before.episodes.get(id) == Some(episode));
                assert!(kept, "{flip}");
                assert_eq!(Read { episodes: before.episodes.clone(), ..found }, before, "{flip}");
            }
            Ok(found) => assert_eq!(found, before, "{flip}"),
        }
        match resumed(&damaged).await {
            Err(error) => {
                assert!(error.to_string().contains(name), "{flip}: {error}");
                refused += 1;
            }
            Ok(finish) => {
                assert_eq!(finish, expected, "{flip}");
                harmless += 1;
            }
        }
        fs::remove_dir_all(&damaged).expect("removed");
    }
    // A resumed run reads about half of the files: not the older checkpoint, the plugins' copies, or TensorBoard's.
    assert!(refused > FLIPS / 4 && harmless > 0, "{refused} refused, {harmless} harmless");
}

/// A forged run: a copy of an interrupted one.
struct Forgery {
    out: PathBuf,
    state: Value,
}

impl Forgery {
    /// Writes `state.json` with a digest that fits.
    fn seal(&self) {
        const MARK: &str = "sha256 of this file with zeros here: ";
        let zeros = "0".repeat(64);
        let mut state = self.state.clone();
        state["digest"] = format!("{MARK}{zeros}").into();
        let text = format!("{state:#}\n");
        let digest = Digest::of(text.as_bytes()).to_string();
        fs::write(self.out.join("state.json"), text.replace(&zeros, &digest)).expect("written");
    }

    fn set(&mut self, place: &str, value: impl Into<Value>) {
        *self.state.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value.into();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Digest of the list of checksums of a checkpoint.
    fn list(&self, checkpoint: &str) -> String {
        Digest::of(&fs::read(self.file(&format!("checkpoints/{checkpoint}/SHA256SUMS"))).expect("a list")).to_string()
    }

    /// Changes the trainer's position in a checkpoint and the digest of the file.
    fn move_trainer(&self, checkpoint: &str, step: u64) {
        let [path, list] =
            ["trainer.json", "SHA256SUMS"].map(|name| self.file(&format!("checkpoints/{checkpoint}/{name}")));
        let text = fs::read_to_string(&path).expect("a file");
        let mut trainer: Value = serde_json::from_str(&text).expect("JSON");
        trainer["position"]["step"] = step.into();
        let [old, new] = [text, trainer.to_string()].map(|text| (Digest::of(text.as_bytes()).to_string(), text));
        fs::write(&path, new.1).expect("written");
        let listed = fs::read_to_string(&list).expect("a list");
        assert!(listed.contains(&old.0), "{listed}");
        fs::write(&list, listed.replace(&old.0, &new.0)).expect("written");
    }

    /// Moves the whole checkpoint and the position to step 2, which was not taken.
    fn advance(&mut self) {
        fs::rename(self.file("checkpoints/1-000001"), self.file("checkpoints/1-000002")).expect("renamed");
        self.set("/progress/current/step", 2);
        self.set("/checkpoint", json!({ "name": "1-000002", "models": { "1-000002": self.list("1-000002") } }));
    }
}

/// An edit of a run and words of the refusal; the first word is the name of the file to blame.
type Case = (&'static str, fn(&mut Forgery), [&'static str; 2]);

const STATE: &str = "state.json";

/// Edits of the position and of the names in `state.json`, each with a new digest.
const FORGERIES: [Case; 15] = [
    ("a later step", |run| run.set("/progress/current/step", 2), [STATE, "its position is `1-000002`"]),
    ("an earlier step", |run| run.set("/progress/current/step", 0), [STATE, "its position is `1-000000`"]),
    ("no checkpoint", |run| run.set("/checkpoint", Value::Null), [STATE, "cannot read"]),
    (
        "the checkpoint of an older stage",
        |run| {
            run.set("/checkpoint", json!({ "name": "0-000001", "models": { "0-000001": run.list("0-000001") } }));
        },
        [STATE, "its checkpoint is `0-000001`, but its position is `1-000001`"],
    ),
    (
        "a checkpoint of another run",
        |run| run.set("/checkpoint/name", "../../other-run/checkpoints/1-000001"),
        [STATE, "is not the name of a checkpoint"],
    ),
    (
        "an absolute path",
        |run| run.set("/checkpoint/name", "/tmp/1-000001"),
        [STATE, "is not the name of a checkpoint"],
    ),
    ("an unknown field", |run| run.state["note"] = 1.into(), [STATE, "unknown field `note`"]),
    (
        "an unknown field of the progress",
        |run| run.state["progress"]["note"] = 1.into(),
        [STATE, "unknown field `note`"],
    ),
    ("another stage", |run| run.set("/progress/stage", 0), [STATE, "its finished stages differ"]),
    (
        "another list of checksums",
        |run| run.set("/checkpoint/models/1-000001", run.list("0-000001")),
        ["SHA256SUMS", "is not the one that state.json names"],
    ),
    (
        "one more model",
        |run| run.state["checkpoint"]["models"]["1-000001-seat1"] = run.list("1-000001").into(),
        [STATE, "it names 2 models, but the run trains 1"],
    ),
    ("a renamed checkpoint", Forgery::advance_renamed, ["trainer.json", "holds another position"]),
    ("a step without metrics", Forgery::advance_trainer, [STATE, "does not fit `metrics.jsonl`"]),
    (
        "fewer metrics",
        |run| {
            let text = fs::read_to_string(run.file("metrics.jsonl")).expect("metrics");
            let first = text.split_inclusive('\n').next().expect("a line");
            run.set("/metrics", json!({ "bytes": first.len(), "digest": Digest::of(first.as_bytes()).to_string() }));
        },
        [STATE, "does not fit `metrics.jsonl`"],
    ),
    ("a position in an older stage", Forgery::retreat, [STATE, "is older than `episodes`"]),
];

impl Forgery {
    /// A later position whose checkpoint was only renamed; the metrics are moved away.
    fn advance_renamed(&mut self) {
        self.advance();
        fs::remove_file(self.file("metrics.jsonl")).expect("removed");
    }

    /// A later position whose checkpoint agrees with it.
    fn advance_trainer(&mut self) {
        self.move_trainer("1-000001", 2);
        self.advance();
    }

    /// The end of the first stage, with its own checkpoint and its own metrics.
    fn retreat(&mut self) {
        let text = fs::read_to_string(self.file("metrics.jsonl")).expect("metrics");
        let first = text.split_inclusive('\n').next().expect("a line");
        let before = self.state["progress"]["current"]["before"].clone();
        self.set("/metrics", json!({ "bytes": first.len(), "digest": Digest::of(first.as_bytes()).to_string() }));
        self.set("/checkpoint", json!({ "name": "0-000001", "models": { "0-000001": self.list("0-000001") } }));
        self.set("/progress/stage", 0);
        self.set("/progress/finished", json!([]));
        self.set(
            "/progress/current",
            json!({ "name": "sft", "step": 1, "before": before, "episodes": 2, "tokens": 2, "begun": 0.0 }),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_state_is_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let [base, out] = ["base", "forged"].map(|name| root.path().join(name));
    interrupted(&base).await;
    let text = fs::read_to_string(base.join("state.json")).expect("a state");
    let state: Value = serde_json::from_str(&text).expect("JSON");
    let forge = || {
        copy(&base, &out);
        Forgery { out: out.clone(), state: state.clone() }
    };
    for (title, edit, words) in FORGERIES {
        let mut forgery = forge();
        edit(&mut forgery);
        forgery.seal();
        let error = resumed(&out).await.expect_err(title).to_string();
        for word in words {
            assert!(error.contains(word), "{title}: {word} is missing in: {error}");
        }
        fs::remove_dir_all(&out).expect("removed");
    }
    // The same state, written again with a digest that fits, continues.
    forge().seal();
    let finish = resumed(&out).await.expect("an undamaged run");
    assert_eq!(finish.metrics.len(), 3);
    fs::remove_dir_all(&out).expect("removed");
    // Without the metrics, which the user may move away, the run continues without the lines before.
    copy(&base, &out);
    fs::remove_file(out.join("metrics.jsonl")).expect("moved away");
    let without = resumed(&out).await.expect("a run without its first metrics");
    assert_eq!(without.metrics[..], finish.metrics[2..]);
    assert_eq!((without.weights, without.episodes), (finish.weights, finish.episodes));
}
