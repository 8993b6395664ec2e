//! Gradients of every family against those of transformers, `tests/reference/make_model_goldens.py`.
#![allow(non_snake_case)]

use std::path::PathBuf;

use tch::{Device, Tensor};

use super::*;
use crate::TrainerSettings;
use crate::storage::checkpoint;
use gymkhana_engine::Target;
use gymkhana_engine::TokenStats;

const FAMILIES: [&str; 19] = [
    "qwen2-windows",
    "mistral",
    "ministral3",
    "mixtral",
    "qwen2-moe",
    "qwen3-moe",
    "gemma2",
    "gemma3",
    "phi3",
    "phi3-long",
    "smollm3",
    "olmo2",
    "olmo3",
    "granite",
    "seed-oss",
    "exaone4",
    "ernie4.5",
    "hunyuan",
    "glm4",
];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// Every token of the last prompt after its first one.
fn last_prompt(name: &str) -> Sequence {
    let text = std::fs::read_to_string(golden(name).join("golden.json")).expect("a golden file");
    let golden: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let prompt = golden["prompts"].as_array().and_then(|prompts| prompts.last()).expect("a prompt");
    let tokens: Vec<u32> = serde_json::from_value(prompt.clone()).expect("tokens");
    let targets: Vec<Target> = (1..tokens.len()).map(|at| Target { at, turn: 0 }).collect();
    let stats = TokenStats::neutral(targets.len());
    Sequence::new(&tokens, targets, stats).expect("targets")
}

/// Gradients of the sum of the sequences' negative log-probabilities.
fn accumulated(model: &mut Model, sequences: &[Sequence], activation_checkpointing: bool) {
    model.trained_mut().forget_gradients().expect("gradients");
    let pass = Pass {
        temperature: 1.0,
        entropies: false,
        micro_batch_tokens: 1000,
        activation_checkpointing,
        share_beginnings: true,
    };
    for part in parts(sequences, 1000, true) {
        let packed = Packed::new(&part, Device::Cpu);
        let _sums = accumulate(model, &packed, Loss::Supervised, pass, None).expect("gradients");
    }
}

/// One sequence, the same by recomputation of layers, and two equal sequences, which share a prefix.
#[test]
fn gradients_equal_those_of_transformers() {
    for name in FAMILIES {
        let expected = Tensor::read_safetensors(golden(name).join("golden.safetensors")).expect("gradients");
        let mut model =
            checkpoint::open(&golden(name), &TrainerSettings::default(), Device::Cpu).expect("a model").model;
        let sequence = last_prompt(name);
        for (copies, recomputed) in [(1, false), (1, true), (2, false)] {
            let sequences: Vec<Sequence> = (0..copies).map(|_| last_prompt(name)).collect();
            accumulated(&mut model, &sequences, recomputed);
            let mut compared = 0;
            for (parameter, values) in model.parameters().named() {
                let key = format!("grad.{parameter}");
                let (_, expected) = expected.iter().find(|(found, _)| *found == key).expect("a gradient");
                let expected = expected * f64::from(copies);
                let most = expected.abs().max().double_value(&[]).max(1e-6);
                // An expert that no token chose has no gradient.
                let found = Some(values.grad()).filter(Tensor::defined).unwrap_or_else(|| values.zeros_like());
                let apart = (found - expected).abs().max().double_value(&[]) / most;
                assert!(apart <= 1e-4, "{name}: {parameter}, {copies} copies, {recomputed}: {apart}");
                compared += 1;
            }
            assert!(compared > 10, "{name}: {} tokens", sequence.tokens.len());
        }
    }
}
