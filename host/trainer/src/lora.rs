//! Low-rank adapters: a frozen matrix W gets a trained term `alpha / rank · B A`.
//!
//! Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models". Tensors have the names of PEFT's files without
//! the prefix `base_model.model.`, so that PEFT loads the written files. Suffixes of names are axes: R rank, I inputs,
//! O outputs.
#![allow(non_snake_case)]

use std::collections::BTreeSet;

use gymkhana_algorithm::{Lora, Module};
use gymkhana_record::Seed;
use tch::{Device, TchError, Tensor, no_grad_guard};

use crate::parameters::Parameters;

/// Whether a matrix is adapted: it is one of the modules, or the families that have it under another name or joined with
/// others call it so.
fn adapts(lora: &Lora, name: &str) -> bool {
    let Some(matrix) = name.strip_suffix(".weight").map(last_part) else { return false };
    let modules: &[Module] = match matrix {
        "qkv_proj" => &[Module::QProj, Module::KProj, Module::VProj],
        "gate_up_proj" => &[Module::GateProj, Module::UpProj],
        "w1" => &[Module::GateProj],
        "w2" => &[Module::DownProj],
        "w3" => &[Module::UpProj],
        _ => return lora.modules.iter().any(|module| module.name() == matrix),
    };
    modules.iter().any(|module| lora.modules.contains(module))
}

/// What stands behind the last point of a name.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Configuration file of PEFT for adapters with these parameters.
pub(crate) fn config(lora: &Lora, parameters: &Parameters) -> serde_json::Value {
    let matrices = parameters.named().filter_map(|(name, _)| name.strip_suffix(".lora_A.weight"));
    let targets: BTreeSet<&str> = matrices.map(last_part).collect();
    serde_json::json!({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": null, "bias": "none",
        "fan_in_fan_out": false, "inference_mode": true, "lora_dropout": 0.0, "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": targets,
    })
}

/// Adapters of a model.
#[derive(Debug)]
pub(crate) struct Adapters {
    pub lora: Lora,
    pub parameters: Parameters,
}

/// Names of an adapter's two factors, A and B.
fn halves(matrix: &str) -> [String; 2] {
    let stem = matrix.strip_suffix(".weight").unwrap_or(matrix);
    ["A", "B"].map(|half| format!("{stem}.lora_{half}.weight"))
}

impl Adapters {
    /// Adapters of these matrices. A is drawn from a uniform distribution within ±1/√I and B is 0, so that they change
    /// nothing at first.
    pub fn new(lora: Lora, base: &Parameters, device: Device, seed: Seed) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        let rank = i64::from(lora.rank);
        let mut shapes = Vec::new();
        for (name, matrix) in base.named().filter(|(name, _)| adapts(&lora, name)) {
            let [down, up] = halves(name);
            shapes.extend([(down, vec![rank, matrix.size()[1]]), (up, vec![matrix.size()[0], rank])]);
        }
        let parameters = Parameters::zeros(&shapes, device)?;
        for (name, shape) in shapes.iter().filter(|(name, _)| name.ends_with("lora_A.weight")) {
            let (mut stream, bound) = (seed.child(name).stream(), (shape[1] as f64).sqrt().recip());
            let count = shape[0] * shape[1];
            let values: Vec<f32> = (0..count).map(|_| ((2.0 * stream.unit() - 1.0) * bound) as f32).collect();
            parameters.set(name, &Tensor::f_from_slice(&values)?.f_view(&shape[..])?)?;
        }
        Ok(Self { lora, parameters })
    }
}

/// Factors A `[R, I]` and B `[O, R]` of a matrix's adapter, if it has one.
pub(crate) fn low_rank<'a>(parameters: &'a Parameters, matrix: &str) -> Option<[&'a Tensor; 2]> {
    let [down, up] = halves(matrix);
    Some([parameters.get(&down)?, parameters.get(&up)?])
}

/// The matrix with its adapter added, `[O, I]`.
pub(crate) fn merged(matrix_OI: &Tensor, [down_RI, up_OR]: [&Tensor; 2], scale: f64) -> Tensor {
    let _guard = no_grad_guard();
    matrix_OI + up_OR.matmul(down_RI) * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_and_renamed_matrices_are_adapted() {
        let lora = Lora { rank: 2, alpha: 4.0, modules: vec![Module::VProj, Module::GateProj] };
        for (name, adapted) in [
            ("model.layers.0.self_attn.v_proj.weight", true),
            ("model.layers.0.self_attn.q_proj.weight", false),
            ("model.layers.0.self_attn.qkv_proj.weight", true),
            ("model.layers.0.mlp.gate_up_proj.weight", true),
            ("model.layers.0.mlp.experts.3.gate_proj.weight", true),
            ("model.layers.0.block_sparse_moe.experts.3.w1.weight", true),
            ("model.layers.0.block_sparse_moe.experts.3.w3.weight", false),
            ("model.layers.0.mlp.gate.weight", false),
            ("model.layers.0.mlp.shared_expert_gate.weight", false),
            ("model.layers.0.self_attn.v_proj.bias", false),
        ] {
            assert_eq!(adapts(&lora, name), adapted, "{name}");
        }
    }
}
