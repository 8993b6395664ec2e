//! Whole training steps, from records to the parameters after the optimiser, against `tests/reference/make_step_goldens.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{episode, segment, written};
use gymkhana_engine::message::{EngineRequest, MessageTensors, OpenModel};
use gymkhana_learner::{Batch, Learner, imitated_sequences};
use gymkhana_record::{Ending, EpisodeRecord, Fork, PolicyTurn, Sampled, Seed, Segment};
use gymkhana_torch::{TorchChild, TorchDevice, TorchEngine, TorchSettings};
use gymkhana_trainer::{
    Algorithm, Demonstrations, Optimizer, Preset, RlData, RlSettings, StageModels, Trainer, TrainerSettings,
};
use serde::Deserialize;
use serde_json::Value;
use tch::{Kind, Tensor};
use tokio::runtime::Handle;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn tokens(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|token| token as u32).collect()
}

/// The tokens of a record.
fn segment_of(value: &Value) -> Segment {
    let mut own = segment(&[], &written(&[]));
    for piece in list(&value["pieces"]) {
        let turn = piece["turn"].as_u64().expect("a number") as u32;
        if piece["sampled"].is_null() {
            own.append_given(&tokens(&piece["given"]), turn);
        } else {
            let log_probs: Vec<f32> = numbers(&piece["log_probs"]).into_iter().map(|number| number as f32).collect();
            let sampled = Sampled { log_probs, ..written(&tokens(&piece["sampled"])) };
            own.append_sampled(&sampled, turn).expect("equal columns");
        }
    }
    own
}

/// A record of the golden file as an episode of one seat.
fn record(value: &Value, group: u32, member: u32) -> EpisodeRecord {
    let own = segment_of(value);
    let turns = list(&value["turns"]);
    let mut record = episode(group, member, own, value["reward"].as_f64().expect("a number"));
    record.ending = Ending::deserialize(&value["ending"]).expect("an ending");
    record.turn_rewards = vec![turns.iter().map(|turn| turn["reward"].as_f64().expect("a number")).collect()];
    record.policy_turns = (0..).zip(turns).map(policy_turn).collect();
    if let Some(shared) = value["shares"]["turns"].as_u64() {
        let parent = episode(group, 0, segment(&[], &written(&[])), 0.0).id;
        record.forks.push(Fork { parent, turns: vec![shared as u32], seed: Seed(0) });
    }
    record
}

fn policy_turn((turn, value): (u32, &Value)) -> PolicyTurn {
    let state = value["state"].as_str().map(str::to_owned);
    PolicyTurn { seat: 0, turn, transcript: 0, steps: turn, state, probe_score: None, thought_tokens: 0, note: None }
}

fn algorithm(case: &Value, epochs: &Value) -> Algorithm {
    let mut flags = Preset::named(case["preset"].as_str().expect("a name")).expect("a preset").flags().clone();
    let overrides: toml::Table = serde_json::from_value(case["overrides"].clone()).expect("a table");
    flags.extend(overrides);
    flags.retain(|_, flag| flag.as_str() != Some("off"));
    flags.insert("epochs".to_owned(), toml::Value::Integer(epochs.as_i64().expect("a number")));
    flags.try_into().expect("flags")
}

type Tensors = BTreeMap<String, Tensor>;

/// The model's tensors and their moving average, if there is one, read from a checkpoint.
async fn weights(trainer: &Trainer) -> (Tensors, Option<Tensors>) {
    let folder = tempfile::tempdir().expect("a folder");
    trainer.save(&folder.path().join("saved"), &Value::Null).await.expect("saved");
    let read = |name: &str| {
        let path = folder.path().join("saved").join(name);
        path.exists().then(|| Tensor::read_safetensors(path).expect("weights").into_iter().collect())
    };
    (read("model.safetensors").expect("a model"), read("average/model.safetensors"))
}

/// The settings of a case, and the models that its stage needs.
fn settings(case: &Value, steps: &Value) -> (RlSettings, StageModels) {
    let of_case = if case["optimizer"].is_null() { &steps["optimizer"] } else { &case["optimizer"] };
    let optimizer: Optimizer = serde_json::from_value(of_case.clone()).expect("settings");
    let shown = case["demonstrations"]["settings"].clone();
    let demonstrations: Option<Demonstrations> = serde_json::from_value(shown).expect("settings");
    let algorithm = algorithm(case, &steps["epochs"]);
    let teacher = case["teacher"].as_str().map(golden);
    let models = StageModels { teacher, ..algorithm.stage_models() };
    let settings = RlSettings { optimizer, algorithm, demonstrations, ..RlSettings::default() };
    settings.check().expect("settings that make sense");
    (settings, models)
}

/// Compares the changes of tensors with the golden ones, relative to the norm of each change: products may be near 0.
#[track_caller]
fn compare(before: &Tensors, after: &Tensors, expected: &Value, what: &str) {
    assert_eq!(after.len(), expected.as_object().expect("an object").len());
    for (name, before) in before {
        let expected = numbers(&expected[name]);
        for (found, number) in numbers_of(&(&after[name] - before)).into_iter().zip(&expected) {
            assert!((found - number).abs() <= 1e-4 * expected[0], "{what}, {name}: {found} is not {number}");
        }
    }
}

/// The norm of a change, and its products with two waves.
fn numbers_of(change: &Tensor) -> [f64; 3] {
    let change = change.to_kind(Kind::Double).flatten(0, -1);
    let places = Tensor::arange(change.numel() as i64, (Kind::Double, change.device()));
    let product = |wave: Tensor| (&change * wave).sum(Kind::Double).double_value(&[]);
    [change.norm().double_value(&[]), product(places.cos()), product((places * 0.7).sin())]
}

fn groups_of(case: &Value) -> Vec<Vec<EpisodeRecord>> {
    let group =
        |(group, records)| (0..).zip(list(records)).map(|(member, value)| record(value, group, member)).collect();
    (0..).zip(list(&case["groups"])).map(group).collect()
}

/// The groups with members that were dropped: first, last, and in a group of their own.
fn with_dropped(groups: &[Vec<EpisodeRecord>]) -> Vec<Vec<EpisodeRecord>> {
    let dropped = |record: &EpisodeRecord| {
        let mut dropped = EpisodeRecord { ending: Ending::Dropped, forks: vec![], ..record.clone() };
        dropped.id.attempt += 1;
        dropped.rewards = vec![-1000.0];
        dropped
    };
    let alone = vec![groups[0].iter().map(dropped).collect()];
    let beside = groups.iter().map(|group| {
        let (first, last) = (dropped(&group[0]), dropped(&group[group.len() - 1]));
        [vec![first], group.clone(), vec![last]].concat()
    });
    alone.into_iter().chain(beside).collect()
}

/// Weights after a step are equal bit for bit, in every case of the golden file.
#[tokio::test]
async fn dropped_members_change_nothing() {
    let steps: Value =
        serde_json::from_str(&std::fs::read_to_string(golden("steps.json")).expect("a file")).expect("JSON");
    let model = golden(steps["model"].as_str().expect("a name"));
    for case in list(&steps["cases"]) {
        let (settings, models) = settings(case, &steps);
        let shown = case["demonstrations"]["records"].as_array();
        let shown: Vec<Segment> = shown.into_iter().flatten().map(segment_of).collect();
        let (groups, mut found) = (groups_of(case), vec![]);
        for groups in [with_dropped(&groups), groups] {
            let deterministic = TrainerSettings { deterministic: true, ..TrainerSettings::default() };
            let trainer = Trainer::open(&model, &deterministic).expect("a model");
            trainer.begin_stage(models.clone()).await.expect("a stage");
            let data = RlData { demonstrations: &shown, ..RlData::from(&groups[..]) };
            trainer.rl_step_on(data, &settings).await.expect("a step");
            found.push(weights(&trainer).await.0);
        }
        for (name, with) in &found[0] {
            let equal = with.equal(&found[1][name]);
            assert!(equal, "{} {}: {name}", case["preset"], case["overrides"]);
        }
    }
}

#[tokio::test]
async fn steps_from_records_to_parameters_equal_those_of_pytorch() {
    let steps: Value =
        serde_json::from_str(&std::fs::read_to_string(golden("steps.json")).expect("a file")).expect("JSON");
    let model = golden(steps["model"].as_str().expect("a name"));
    for case in list(&steps["cases"]) {
        let (settings, models) = settings(case, &steps);
        let groups = groups_of(case);
        let trainer = Trainer::open(&model, &TrainerSettings::default()).expect("a model");
        let (before, _) = weights(&trainer).await;
        trainer.begin_stage(models).await.expect("a stage");
        let shown = case["demonstrations"]["records"].as_array();
        let shown: Vec<Segment> = shown.into_iter().flatten().map(segment_of).collect();
        let data = RlData { demonstrations: &shown, ..RlData::from(&groups[..]) };
        let count = case["steps"].as_u64().or(steps["steps"].as_u64()).expect("a number");
        for _ in 0..count {
            trainer.rl_step_on(data, &settings).await.expect("a step");
        }
        let (after, average) = weights(&trainer).await;
        let what = format!("{} {} {}", case["preset"], case["overrides"], case["optimizer"]);
        compare(&before, &after, &case["updates"], &what);
        assert_eq!(average.is_some(), !case["average"].is_null(), "{what}");
        if let Some(average) = average {
            compare(&before, &average, &case["average"], &format!("{what}, average"));
        }
    }
}

/// Two steps of a case by the processes of PyTorch: the weights before and after them.
async fn steps_of_torch(child: &Arc<TorchChild>, model: &Path, case: &Value, steps: &Value) -> (Tensors, Tensors) {
    let (settings, models) = settings(case, steps);
    let open = OpenModel {
        model: model.display().to_string(),
        state: None,
        reference: false,
        dtype: "float32".to_owned(),
        checkpointing: false,
        lora: None,
        optimizer: "adamw".to_owned(),
        seed: 0,
    };
    child.ask("load the model", EngineRequest::Open(open), &MessageTensors::new()).await.expect("a model");
    let mut engine = TorchEngine::new(Arc::clone(child), 0, false, Handle::current());
    engine.begin_stage(models.reference).await.expect("a stage");
    let shown = case["demonstrations"]["records"].as_array();
    let shown: Vec<Segment> = shown.into_iter().flatten().map(segment_of).collect();
    let shown = if shown.is_empty() { vec![] } else { imitated_sequences(&shown).expect("sequences") };
    let groups = groups_of(case);
    let batch = Batch::of(&RlData::from(&groups[..]), &settings);
    let count = case["steps"].as_u64().or(steps["steps"].as_u64()).expect("a number");
    let moved = tokio::task::spawn_blocking(move || {
        let mut learner = Learner::default();
        let seed = TrainerSettings::default().seed;
        for _ in 0..count {
            learner.rl_step(&mut engine, (batch.clone(), shown.clone()), &settings, seed, 0).expect("a step");
        }
        let folder = tempfile::tempdir().expect("a folder");
        engine.save(folder.path(), &folder.path().join("trainer")).expect("saved");
        read(folder.path())
    });
    (read(model), moved.await.expect("steps"))
}

fn read(folder: &Path) -> Tensors {
    Tensor::read_safetensors(folder.join("model.safetensors")).expect("weights").into_iter().collect()
}

/// The same steps by PyTorch in one process and in two, whose Python an environment variable names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PyTorch: cargo xtask test --reference torch"]
async fn processes_of_pytorch_take_the_same_steps() {
    let steps: Value =
        serde_json::from_str(&std::fs::read_to_string(golden("steps.json")).expect("a file")).expect("JSON");
    let model = golden(steps["model"].as_str().expect("a name"));
    for processes in [1, 2] {
        let settings = TorchSettings {
            python: std::env::var("GYMKHANA_TORCH_PROGRAM").expect("the path of a Python"),
            processes,
            device: TorchDevice::Cpu,
            threads: 1,
            start: Duration::from_secs(300),
            answer: Duration::from_secs(300),
        };
        let child = Arc::new(TorchChild::start(&settings).await.expect("processes"));
        let mut compared = 0;
        for case in list(&steps["cases"]) {
            let flags = algorithm(case, &steps["epochs"]);
            if flags.critic.is_some() || flags.distils() || !case["average"].is_null() {
                continue;
            }
            let (before, after) = steps_of_torch(&child, &model, case, &steps).await;
            compare(&before, &after, &case["updates"], &format!("{} {}", case["preset"], case["overrides"]));
            compared += 1;
        }
        assert_eq!(compared, 9, "presets without a critic, a teacher and an average");
    }
}
