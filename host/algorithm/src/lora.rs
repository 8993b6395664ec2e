//! Low-rank adapters: which matrices have one, and of which rank.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::error::require;

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
    /// All modules.
    #[must_use]
    pub fn all() -> Vec<Self> {
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
    pub fn check(&self) -> Result<(), SettingError> {
        require((1..=4096).contains(&self.rank), "lora.rank", self.rank, "from 1 to 4096")?;
        require(self.alpha > 0.0 && self.alpha.is_finite(), "lora.alpha", self.alpha, "above 0")?;
        require(!self.modules.is_empty(), "lora.modules", "empty", "at least one matrix, such as \"q_proj\"")
    }

    /// Factor of an adapter's product.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.alpha / f64::from(self.rank)
    }
}
