//! `[seats.NAME]`: who plays a seat of the environment.

use serde::{Deserialize, Serialize};

use super::{Checkpoint, PolicySection};
use crate::error::RunFileError;

/// Who plays a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeatBinding {
    /// The run's policy, as every other seat that shares it.
    #[default]
    Shared,
    /// Weights that stay as they are.
    Frozen,
    /// A model of its own, which is trained beside the run's policy.
    Separate,
    /// The environment's oracle.
    Oracle,
}

impl SeatBinding {
    /// As the run file writes it.
    fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Frozen => "frozen",
            Self::Separate => "separate",
            Self::Oracle => "oracle",
        }
    }
}

/// A seat of the environment, by the name that the environment gives it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SeatSection {
    /// Who plays it.
    pub policy: SeatBinding,
    /// The weights with which a frozen or a separate seat begins; by default it begins as the run's policy
    /// does, a separate one from random weights of its own if that does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

impl SeatSection {
    pub(crate) fn check(&self, seat: &str, policy: &PolicySection) -> Result<(), RunFileError> {
        let word = self.policy.word();
        let message = match (self.policy, &self.checkpoint) {
            (SeatBinding::Shared | SeatBinding::Oracle, Some(_)) => format!(
                "seats.{seat}.checkpoint is set, but a seat whose policy is `{word}` has no weights of its own; leave it \
                 out, or set seats.{seat}.policy to \"frozen\" or \"separate\""
            ),
            (SeatBinding::Frozen, None) if policy.checkpoint.is_none() => format!(
                "seats.{seat} is frozen, but there is nothing to freeze: the run begins with random weights; give the \
                 folder of a trained model as seats.{seat}.checkpoint or policy.checkpoint"
            ),
            (_, Some(checkpoint)) => return checkpoint.check(&format!("seats.{seat}.checkpoint")),
            (_, None) => return Ok(()),
        };
        Err(RunFileError::Contradiction(message))
    }
}
