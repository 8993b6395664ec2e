//! `[trainer]`: what trains the run's policy instead of this program.

mod tinker;
mod torch;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use tinker::{LossReduction, TinkerSection};
pub use torch::{TorchOptimizer, TorchSection};

/// Engine that trains the run's policy instead of this program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TrainerSection {
    /// A Tinker-compatible server.
    Tinker(TinkerSection),
    /// PyTorch in processes of its own.
    Torch(TorchSection),
}

impl JsonSchema for TrainerSection {
    fn schema_name() -> Cow<'static, str> {
        "TrainerSection".into()
    }

    /// `kind` selects the keys, as in a stage.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (tinker, torch) = (generator.subschema_for::<TinkerSection>(), generator.subschema_for::<TorchSection>());
        json_schema!({
            "description": "Engine that trains the run's policy instead of this program; `kind` selects its keys. \
                            Requires `policy.checkpoint`.",
            "type": "object",
            "if": { "properties": { "kind": { "const": "torch" } } },
            "then": torch,
            "else": tinker,
            "anyOf": [tinker, torch, {}],
        })
    }
}
