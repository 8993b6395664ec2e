//! `[[stages]]`: training stages with their algorithm, length and sampling.

mod best_of_n;
mod recorded;
mod recorded_check;
mod rl;
mod seat;
mod sft;
mod source;
mod turn_schedule;

use std::borrow::Cow;
use std::path::Path;

use gymkhana_algorithm::Optimizer;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use best_of_n::BestOfNStage;
pub use recorded::RecordedPreferences;
pub use rl::{DynamicSampling, RlStage};
pub use seat::StageSeat;
pub use sft::SftStage;
pub(crate) use source::write_out;
pub use source::{SourceKind, SourceSection};
pub use turn_schedule::TurnSchedule;

use crate::error::RunFileError;

/// A training stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", from = "Written")]
#[allow(clippy::large_enum_variant, reason = "a run has few stages")]
pub enum Stage {
    /// Supervised fine-tuning on demonstrations.
    Sft(SftStage),
    /// Expert iteration on the policy's own episodes.
    #[serde(rename = "best-of-n")]
    BestOfN(BestOfNStage),
    /// Reinforcement learning on the policy's own episodes.
    Rl(RlStage),
}

/// A stage as written. `dpo`, `kto` and `distill` are reinforcement-learning stages with another default algorithm.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Written {
    Sft(SftStage),
    #[serde(rename = "best-of-n")]
    BestOfN(BestOfNStage),
    Rl(RlStage),
    Dpo(RlStage),
    Kto(RlStage),
    Distill(RlStage),
}

impl From<Written> for Stage {
    fn from(written: Written) -> Self {
        match written {
            Written::Sft(stage) => Self::Sft(stage),
            Written::BestOfN(stage) => Self::BestOfN(stage),
            Written::Rl(stage) => Self::Rl(stage.named("rl", "loop")),
            Written::Dpo(stage) => Self::Rl(stage.named("dpo", "dpo")),
            Written::Kto(stage) => Self::Rl(stage.named("kto", "kto")),
            Written::Distill(stage) => Self::Rl(stage.named("distill", "distill")),
        }
    }
}

impl JsonSchema for Stage {
    fn schema_name() -> Cow<'static, str> {
        "Stage".into()
    }

    /// The stage as written: `kind` selects the keys. With `if`, validators name the wrong key instead of the whole
    /// stage. Editors complete keys from `anyOf`, which refuses nothing.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (sft, rl) = (generator.subschema_for::<SftStage>(), generator.subschema_for::<RlStage>());
        let best_of_n = generator.subschema_for::<BestOfNStage>();
        json_schema!({
            "description": "Training stage; `kind` selects its keys.",
            "type": "object",
            "if": { "properties": { "kind": { "const": "sft" } } },
            "then": sft,
            "else": {
                "if": { "properties": { "kind": { "const": "best-of-n" } } },
                "then": best_of_n,
                "else": rl,
            },
            "anyOf": [sft, best_of_n, rl, {}],
        })
    }
}

/// Description of the key `kind` of stages.
const KIND: &str = "Kind of the stage.";

/// Adds the key `kind`, which the parser takes off before it reads the section's own keys.
pub(crate) fn add_kind(schema: &mut Schema, kinds: &[&str], description: &str) {
    let kind = json_schema!({ "type": "string", "enum": kinds, "description": description });
    if let Some(serde_json::Value::Object(properties)) = schema.get_mut("properties") {
        let others = std::mem::take(properties);
        properties.insert("kind".to_owned(), kind.to_value());
        properties.extend(others);
    }
    let required = schema.get("required").and_then(serde_json::Value::as_array).into_iter().flatten().cloned();
    let all: Vec<serde_json::Value> = std::iter::once("kind".into()).chain(required).collect();
    schema.insert("required".to_owned(), all.into());
}

impl Stage {
    /// Name of the stage.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Sft(stage) => &stage.name,
            Self::BestOfN(stage) => &stage.name,
            Self::Rl(stage) => &stage.name,
        }
    }

    /// The stage, if it learns by reinforcement.
    #[must_use]
    pub fn as_rl(&self) -> Option<&RlStage> {
        match self {
            Self::Rl(stage) => Some(stage),
            Self::Sft(_) | Self::BestOfN(_) => None,
        }
    }

    /// Whether the stage learns from demonstrations by the environment's oracle.
    #[must_use]
    pub fn has_demonstrations(&self) -> bool {
        match self {
            Self::Sft(stage) => stage.asks_oracle(),
            Self::BestOfN(_) => false,
            Self::Rl(stage) => stage.demonstrations.is_some(),
        }
    }

    /// Optimiser and learning rate.
    #[must_use]
    pub fn optimizer(&self) -> &Optimizer {
        match self {
            Self::Sft(stage) => &stage.optimizer,
            Self::BestOfN(stage) => &stage.optimizer,
            Self::Rl(stage) => &stage.optimizer,
        }
    }

    /// Settings of the optimiser, to change.
    pub fn optimizer_mut(&mut self) -> &mut Optimizer {
        match self {
            Self::Sft(stage) => &mut stage.optimizer,
            Self::BestOfN(stage) => &mut stage.optimizer,
            Self::Rl(stage) => &mut stage.optimizer,
        }
    }

    /// Makes the paths of recorded data absolute; relative ones are relative to this folder.
    pub fn resolve(&mut self, folder: &Path) {
        match self {
            Self::Sft(stage) => stage.source.iter_mut().for_each(|source| source.resolve(folder)),
            Self::Rl(stage) => stage.recorded.iter_mut().for_each(|recorded| recorded.resolve(folder)),
            Self::BestOfN(_) => {}
        }
    }

    /// Number of training steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        match self {
            Self::Sft(stage) => stage.steps,
            Self::BestOfN(stage) => stage.steps,
            Self::Rl(stage) => stage.steps,
        }
    }

    pub(crate) fn check(&self, deterministic: bool) -> Result<(), RunFileError> {
        match self {
            Self::Sft(stage) => stage.check(),
            Self::BestOfN(stage) => stage.check(),
            Self::Rl(stage) => stage.check(deterministic),
        }
    }
}
