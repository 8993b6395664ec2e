//! `[seats.NAME]`: the policy of a seat of the environment.

use serde::{Deserialize, Serialize};

use super::{Checkpoint, PolicySection};
use crate::error::RunFileError;

/// Policy of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeatBinding {
    /// The run's policy, shared with all other seats of this kind.
    #[default]
    Shared,
    /// A model whose weights never change.
    Frozen,
    /// A separate model, trained beside the run's policy.
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

/// A seat of the environment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SeatSection {
    /// Policy of the seat: `shared`, `frozen`, `separate` or `oracle`.
    pub policy: SeatBinding,
    /// Initial weights of a frozen or separate seat. Default: the initial weights of the run's policy; a separate seat
    /// without `policy.checkpoint` starts from random weights of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
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
