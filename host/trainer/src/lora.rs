//! Low-rank adapters: a frozen matrix W gets a trained term `alpha / rank · B A`.
//!
//! Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models". Tensors have the names of PEFT's files without
//! the prefix `base_model.model.`, so that PEFT loads the written files. Suffixes of names are axes: R rank, I inputs,
//! O outputs.
#![allow(non_snake_case)]

use gymkhana_record::Seed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Device, TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::error::require;
use crate::parameters::Parameters;

/// Low-rank adapters of a frozen model. When set, only they are trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Rank of the adapters.
    #[schemars(range(min = 1, max = 4096))]
    pub rank: u32,
    /// Scale: the adapter's product is multiplied by `alpha / rank`.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub alpha: f64,
    /// Adapted matrices of each layer.
    #[serde(default = "Module::all")]
    #[schemars(length(min = 1), extend("x-default" = "all seven"))]
    pub modules: Vec<Module>,
}

/// Matrix of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LoraModule")]
#[allow(missing_docs, reason = "the names of the checkpoint's tensors say what they are")]
pub enum Module {
    QProj,
    KProj,
    VProj,
    OProj,
    GateProj,
    UpProj,
    DownProj,
}

impl Module {
    fn all() -> Vec<Self> {
        vec![Self::QProj, Self::KProj, Self::VProj, Self::OProj, Self::GateProj, Self::UpProj, Self::DownProj]
    }

    /// Name in checkpoints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QProj => "q_proj",
            Self::KProj => "k_proj",
            Self::VProj => "v_proj",
            Self::OProj => "o_proj",
            Self::GateProj => "gate_proj",
            Self::UpProj => "up_proj",
            Self::DownProj => "down_proj",
        }
    }
}

impl Lora {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), TrainerError> {
        require((1..=4096).contains(&self.rank), "lora.rank", self.rank, "from 1 to 4096")?;
        require(self.alpha > 0.0 && self.alpha.is_finite(), "lora.alpha", self.alpha, "above 0")?;
        require(!self.modules.is_empty(), "lora.modules", "empty", "at least one matrix, such as \"q_proj\"")
    }

    /// Factor of an adapter's product.
    pub(crate) fn scale(&self) -> f64 {
        self.alpha / f64::from(self.rank)
    }

    fn adapts(&self, name: &str) -> bool {
        self.modules.iter().any(|module| name.ends_with(&format!("{}.weight", module.name())))
    }

    /// Configuration file of PEFT.
    pub(crate) fn config(&self) -> serde_json::Value {
        serde_json::json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": null, "bias": "none",
            "fan_in_fan_out": false, "inference_mode": true, "lora_dropout": 0.0, "r": self.rank,
            "lora_alpha": self.alpha,
            "target_modules": self.modules.iter().map(|module| module.name()).collect::<Vec<_>>(),
        })
    }
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
        for (name, matrix) in base.named().filter(|(name, _)| lora.adapts(name)) {
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
