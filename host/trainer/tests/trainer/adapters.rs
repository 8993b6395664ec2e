//! Settings of memory and precision: adapters of frozen weights, activation checkpointing, 16 bits.

use std::path::Path;

use crate::common::{figure, near, noise, penalty, score, segment, smallest, written};
use gymkhana_record::{Sampled, Seed, Segment};
use gymkhana_trainer::{
    Algorithm, Lora, Module, Optimizer, Precision, RlSettings, SftSettings, TinyModel, Trainer, TrainerSettings,
};
use serde_json::Value;
use tch::Tensor;

const PROMPT: [u32; 5] = [257, 7, 8, 9, 257];
const REPLY: [u32; 4] = [65, 66, 67, 258];

fn adapted(modules: &[Module]) -> TrainerSettings {
    let lora = Lora { rank: 3, alpha: 12.0, modules: modules.to_vec() };
    TrainerSettings { seed: Seed(1), lora: Some(lora), ..TrainerSettings::default() }
}

fn plain() -> TrainerSettings {
    TrainerSettings { seed: Seed(1), ..TrainerSettings::default() }
}

/// Demonstrations: repeat the given byte twice, then end.
fn demonstrations(step: u64) -> Vec<Segment> {
    let byte = |index: u64| noise(Seed(step).child(index), 1)[0] % 16 + 65;
    (0..16).map(|index| segment(&[257, byte(index), 257], &written(&[byte(index), byte(index), 258]))).collect()
}

async fn learn(trainer: &Trainer, steps: std::ops::Range<u64>, activation_checkpointing: bool) -> Vec<f64> {
    let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
    let settings = SftSettings { optimizer, activation_checkpointing, ..SftSettings::default() };
    let mut losses = Vec::new();
    for step in steps {
        let metrics = trainer.sft_step(&demonstrations(step), &settings).await.expect("a step");
        losses.push(figure(&metrics, "loss_sampled"));
    }
    losses
}

async fn saved(trainer: &Trainer, folder: &Path) -> Vec<(String, Tensor)> {
    trainer.save(folder, &Value::Null).await.expect("saved");
    let mut weights = Tensor::read_safetensors(folder.join("model.safetensors")).expect("weights");
    weights.sort_by(|(one, _), (other, _)| one.cmp(other));
    weights
}

async fn scored(trainer: &Trainer) -> Sampled {
    score(trainer, &PROMPT, &REPLY).await
}

#[tokio::test]
async fn adapters_start_without_effect_and_only_they_are_trained() {
    use Module::{DownProj, GateProj, KProj, OProj, QProj, UpProj, VProj};
    let all = [QProj, KProj, VProj, OProj, GateProj, UpProj, DownProj];
    let root = tempfile::tempdir().expect("a folder");
    for (index, modules) in [&all[..], &[KProj], &[QProj, VProj, UpProj]].into_iter().enumerate() {
        let [base, trainer] =
            [plain(), adapted(modules)].map(|settings| Trainer::create(&smallest(), &settings).expect("a model"));
        assert_eq!(scored(&trainer).await, scored(&base).await);
        let losses = learn(&trainer, 0..60, false).await;
        assert!(losses[59] < 0.95 * losses[0], "{modules:?}: {losses:?}");
        let [before, after] = [root.path().join(format!("{index}-before")), root.path().join(format!("{index}-after"))];
        let (before, now) = (saved(&base, &before).await, saved(&trainer, &after).await);
        for ((name, before), (_, now)) in before.iter().zip(&now) {
            let moves = modules.iter().any(|module| name.ends_with(&format!("{}.weight", module.name())));
            assert_eq!(before != now, moves, "{modules:?}: {name}");
        }
        // The saved merged weights give the same log-probabilities as the weights with adapters.
        let merged = Trainer::open(&after, &plain()).expect("a plain model");
        near(&scored(&merged).await.log_probs, &scored(&trainer).await.log_probs, 1e-5);
    }
}

/// A trainer that has continued from the checkpoint `1` in a folder as the one that wrote it did.
async fn resumed(settings: &TrainerSettings, root: &Path) -> Trainer {
    let first = Trainer::create(&smallest(), settings).expect("a model");
    learn(&first, 0..3, false).await;
    saved(&first, &root.join("1")).await;
    let resumed = Trainer::open(&root.join("1"), settings).expect("a checkpoint");
    assert_eq!(learn(&resumed, 3..6, false).await, learn(&first, 3..6, false).await);
    assert_eq!(saved(&resumed, &root.join("2")).await, saved(&first, &root.join("3")).await);
    resumed
}

#[tokio::test]
async fn adapters_resume_bit_for_bit_and_others_start_from_the_merged_weights() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = |name: &str| root.path().join(name);
    let settings = adapted(&[Module::QProj, Module::DownProj]);
    let resumed = resumed(&settings, root.path()).await;
    let other = Trainer::open(&folder("1"), &adapted(&[Module::OProj])).expect("the merged model");
    let merged = Trainer::open(&folder("1"), &plain()).expect("the merged model");
    assert_eq!(scored(&other).await, scored(&merged).await);
    assert_eq!(resumed.weight_version(), 6);
    // Changes to the adapter's files are detected, as in any other file.
    std::fs::write(folder("1").join("adapter/adapter_config.json"), "{}").expect("written");
    let error = Trainer::open(&folder("1"), &settings).expect_err("changed");
    assert!(error.to_string().contains("adapter/adapter_config.json"), "{error}");
}

/// A checkpoint of adapters above weights of 16 bits continues as the run would have.
#[tokio::test]
async fn adapters_of_weights_in_sixteen_bits_resume_bit_for_bit() {
    let root = tempfile::tempdir().expect("a folder");
    let settings = TrainerSettings { precision: Precision::Bfloat16, ..adapted(&[Module::QProj, Module::DownProj]) };
    resumed(&settings, root.path()).await;
}

/// A model that does not learn keeps half as many bytes, and computes the same as one that does.
#[tokio::test]
async fn weights_that_are_not_trained_are_kept_in_sixteen_bits() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("1");
    saved(&Trainer::create(&smallest(), &plain()).expect("a model"), &folder).await;
    let precise = Some(Precision::Float32);
    for output_precision in [None, precise] {
        let half = TrainerSettings { precision: Precision::Bfloat16, output_precision, ..plain() };
        let [trained, frozen] = [true, false]
            .map(|learns| Trainer::open(&folder, &TrainerSettings { learns, ..half.clone() }).expect("a checkpoint"));
        assert_eq!(scored(&frozen).await, scored(&trained).await, "{output_precision:?}");
        let [trained, frozen] = [trained, frozen].map(|trainer| trainer.footprint());
        assert_eq!(trained.weights, trained.float);
        assert_eq!(frozen.weights, trained.frozen);
        let share = frozen.weights as f64 / trained.weights as f64;
        // The output layer is the embedding, which is then read in float32 and in bfloat16.
        let expected = if output_precision == precise { 0.6..0.9 } else { 0.5..0.55 };
        assert!(expected.contains(&share), "{output_precision:?}: {share}");
    }
}

#[tokio::test]
async fn recomputed_layers_give_the_same_gradients() {
    let root = tempfile::tempdir().expect("a folder");
    for (index, settings) in [plain(), adapted(&[Module::VProj, Module::GateProj])].into_iter().enumerate() {
        let mut found = Vec::new();
        for activation_checkpointing in [false, true] {
            let trainer = Trainer::create(&smallest(), &settings).expect("a model");
            let losses = learn(&trainer, 0..3, activation_checkpointing).await;
            let algorithm = Algorithm { kl: Some(penalty(0.1)), entropy_bonus: 0.01, ..Algorithm::default() };
            trainer.begin_stage(algorithm.stage_models()).await.expect("a stage");
            let reply = scored(&trainer).await;
            let member =
                |member: u32| crate::common::episode(0, member, segment(&PROMPT, &reply), f64::from(member % 2));
            let groups = [(0..4).map(member).collect()];
            let settings = RlSettings { algorithm, activation_checkpointing, ..RlSettings::default() };
            let metrics = trainer.rl_step(&groups, &settings).await.expect("a step");
            found.push((
                losses,
                metrics,
                saved(&trainer, &root.path().join(format!("{index}-{activation_checkpointing}"))).await,
            ));
        }
        let [kept, again] = &found[..] else { unreachable!("two ways") };
        // Both ways run the same operations on the same numbers.
        assert_eq!(kept, again);
    }
}

#[tokio::test]
async fn sixteen_bits_give_nearly_the_same_numbers_and_learn() {
    let tiny = TinyModel { context: 64, ..smallest() };
    let half = TrainerSettings { precision: Precision::Bfloat16, ..plain() };
    let [full, half] = [plain(), half].map(|settings| Trainer::create(&tiny, &settings).expect("a model"));
    let [expected, found] = [scored(&full).await, scored(&half).await];
    assert_ne!(found.log_probs, expected.log_probs, "nothing was computed in 16 bits");
    near(&found.log_probs, &expected.log_probs, 0.05);
    let generated = crate::common::converse(&half, 0).await;
    for (tokens, reply) in generated {
        near(&score(&half, &tokens, &reply.tokens).await.log_probs, &reply.log_probs, 0.05);
    }
    let [expected, found] = [learn(&full, 0..20, false).await, learn(&half, 0..20, true).await];
    assert!(found[19] < 0.5 * found[0] && (found[0] - expected[0]).abs() < 0.02, "{found:?} beside {expected:?}");
}

#[test]
fn impossible_settings_are_refused_by_name() {
    let refusal = |settings: TrainerSettings| Trainer::create(&smallest(), &settings).expect_err("refused").to_string();
    for (name, spoil) in [("lora.rank", (0, 1.0)), ("lora.alpha", (1, f64::NAN))] {
        let lora = Lora { rank: spoil.0, alpha: spoil.1, modules: vec![Module::QProj] };
        assert!(refusal(TrainerSettings { lora: Some(lora), ..plain() }).contains(name));
    }
    let none = Lora { rank: 1, alpha: 1.0, modules: vec![] };
    assert!(refusal(TrainerSettings { lora: Some(none), ..plain() }).contains("lora.modules"));
    let device = gymkhana_trainer::Accelerator::Cuda;
    assert!(refusal(TrainerSettings { deterministic: true, device, ..plain() }).contains("`device`: it is cuda"));
}
