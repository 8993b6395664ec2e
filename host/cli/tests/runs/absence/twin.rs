//! A run without the episodes that failed: weights, a sampler's memory, evaluations and the end of a stage, from the records
//! that are left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gymkhana_config::{RlStage, RunFile, Stage};
use gymkhana_record::{Ending, EpisodeRecord, Phase, Seed};
use gymkhana_trainer::{RlSettings, Trainer, TrainerSettings};
use serde_json::Value;

use crate::common::{Desk, json};

/// Groups of a phase by step and number, without absent episodes.
pub fn groups(records: &[EpisodeRecord], phase: Phase) -> BTreeMap<u64, BTreeMap<u32, Vec<EpisodeRecord>>> {
    let mut steps: BTreeMap<u64, BTreeMap<u32, Vec<EpisodeRecord>>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.id.phase == phase && record.ending != Ending::Dropped) {
        steps.entry(record.id.step).or_default().entry(record.id.group).or_default().push(record.clone());
    }
    steps
}

/// Trains the run's first weights on these records, as the run's file says, and saves them in `twin`.
pub fn train(desk: &Desk, checkpoint: &str, records: &[EpisodeRecord]) {
    let text = fs::read_to_string(desk.path("out/run.toml")).expect("a run file");
    let file = RunFile::parse(&text, "run.toml", &[]).expect("a sound run file");
    let [Stage::Rl(stage)] = &file.stages[..] else { panic!("one stage of reinforcement learning") };
    let settings = settings(&file, stage);
    let trainer = TrainerSettings {
        max_concurrent_sequences: file.policy.max_concurrent_sequences,
        context: file.context_tokens(),
        deterministic: file.deterministic,
        seed: Seed(file.seed).child("trainer"),
        ..TrainerSettings::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let trainer = Trainer::open(&desk.path(checkpoint), &trainer).expect("a model");
        trainer.begin_stage(settings.algorithm.stage_models()).await.expect("begun");
        for groups in groups(records, Phase::Train).into_values() {
            let selected = |group: Vec<EpisodeRecord>| group.into_iter().filter(|record| record.selected).collect();
            let groups: Vec<Vec<EpisodeRecord>> = groups.into_values().map(selected).collect();
            trainer.rl_step(&groups, &settings).await.expect("trained");
        }
        trainer.save(&desk.path("twin"), &Value::Null).await.expect("saved");
    });
}

fn settings(file: &RunFile, stage: &RlStage) -> RlSettings {
    RlSettings {
        micro_batch_tokens: file.policy.micro_batch_tokens,
        activation_checkpointing: file.policy.activation_checkpointing,
        environments: file.environments.iter().map(|own| (own.name.clone(), own.advantage.clone())).collect(),
        seats: Some(vec![0]),
        ..file.settings_of_model(stage, None).expect("settings")
    }
}

/// Asserts that the weights and the trainer's memory of both folders are equal bit for bit, but not those of the first.
pub fn assert_same_weights(what: &str, first: &Path, run: &Path, twin: &Path) {
    let model = |folder: &Path| fs::read(folder.join("model.safetensors")).expect("weights");
    assert!(model(run) != model(first), "{what}: the run did not learn");
    let of_trainer = fs::read_dir(run.join("trainer")).expect("a folder").flatten();
    let names: Vec<String> = of_trainer.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.is_empty(), "the trainer has a memory");
    let compared = names.iter().map(|name| format!("trainer/{name}")).chain(["model.safetensors".to_owned()]);
    for name in compared {
        let read = |folder: &Path| fs::read(folder.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read(run) == read(twin), "{what}: {name} differs");
    }
}

/// Outcomes of each task in the order in which a sampler reads them.
pub fn outcomes(records: &[EpisodeRecord]) -> BTreeMap<String, String> {
    let mut tasks: BTreeMap<String, String> = BTreeMap::new();
    for group in groups(records, Phase::Train).values().flat_map(BTreeMap::values) {
        let own = tasks.entry(group[0].task.index.to_string()).or_default();
        own.extend(group.iter().map(|record| if record.success { '1' } else { '0' }));
    }
    tasks
}

/// Outcomes of each task in the memory of the run's sampler.
pub fn remembered(desk: &Desk) -> BTreeMap<String, String> {
    let state = json(&desk.path("out/state.json"));
    let tasks = state["progress"]["sampler"]["memories"][""]["tasks"].as_object().expect("tasks").clone();
    let outcomes = |task: &Value| task["outcomes"].as_str().expect("a text").to_owned();
    tasks.iter().map(|(index, task)| (index.clone(), outcomes(task))).collect()
}

/// Success of the sampled evaluations between steps.
pub fn evaluations(records: &[EpisodeRecord]) -> Vec<(u64, f64)> {
    let success = |groups: BTreeMap<u32, Vec<EpisodeRecord>>| {
        let played: Vec<EpisodeRecord> = groups.into_values().flatten().collect();
        played.iter().filter(|record| record.success).count() as f64 / played.len() as f64
    };
    groups(records, Phase::DuringSampled).into_iter().map(|(step, groups)| (step, success(groups))).collect()
}

/// Number of steps after which a stage ends: at the `patience`-th evaluation in a row that is not above the best before.
pub fn end(evaluations: &[(u64, f64)], patience: u64, steps: u64) -> u64 {
    let (mut best, mut since) = (f64::NEG_INFINITY, 0);
    for (step, success) in evaluations {
        since = if *success > best { 0 } else { since + 1 };
        best = best.max(*success);
        if since == patience {
            return *step;
        }
    }
    steps
}
