//! `[seats.NAME]`: the policy of a seat of the environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checkpoint, PolicySection};
use crate::error::RunFileError;

/// Policy of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SeatBinding {
    /// The run's policy.
    #[default]
    Shared,
    /// A model whose weights never change.
    Frozen,
    /// A model of its own, which is trained.
    Separate,
    /// The environment's oracle.
    Oracle,
}

impl SeatBinding {
    /// Spelling in the run file.
    fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Frozen => "frozen",
            Self::Separate => "separate",
            Self::Oracle => "oracle",
        }
    }
}

/// Policy of the environment's seat `NAME`. A seat without a section is `shared`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SeatSection {
    /// Policy of the seat.
    pub policy: SeatBinding,
    /// Initial weights of a `frozen` or `separate` seat. If `policy.checkpoint` is unset, a `frozen` seat requires this
    /// key and a `separate` seat starts from random weights of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the run's initial weights"))]
    pub checkpoint: Option<Checkpoint>,
}

impl SeatSection {
    pub(crate) fn check(&self, seat: &str, policy: &PolicySection) -> Result<(), RunFileError> {
        let word = self.policy.word();
        let message = match (self.policy, &self.checkpoint) {
            (SeatBinding::Shared | SeatBinding::Oracle, Some(_)) => format!(
                "seats.{seat}.checkpoint is set, but a seat with policy `{word}` has no weights of its own\nhint: \
                 remove it, or set seats.{seat}.policy to \"frozen\" or \"separate\""
            ),
            (SeatBinding::Frozen, None) if policy.checkpoint.is_none() => format!(
                "seats.{seat} is frozen, but the run starts from random weights\nhint: set seats.{seat}.checkpoint or \
                 policy.checkpoint to the folder of a trained model"
            ),
            (_, Some(checkpoint)) => return checkpoint.check(&format!("seats.{seat}.checkpoint")),
            (_, None) => return Ok(()),
        };
        Err(RunFileError::Contradiction(message))
    }
}
