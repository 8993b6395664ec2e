//! `[seats.NAME]`: the policy of a seat of the environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gymkhana_rules::SeatRules;

use super::{Checkpoint, PolicySection};
use crate::checks::check_range;
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
    /// First message of the seat's conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`policy.system`"))]
    pub system: Option<String>,
    /// Names of the tools that the seat may call; an empty list for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "all tools"))]
    pub tools: Option<Vec<String>>,
    /// Turns of the seat, at most `limits.turns`. A seat that reaches it ends the episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000), extend("x-default" = "`limits.turns`"))]
    pub turns: Option<u32>,
    /// Tokens of one reply of the seat, at most `limits.reply_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("x-default" = "`limits.reply_tokens`"))]
    pub reply_tokens: Option<usize>,
    /// Sampling temperature of a `frozen` or `separate` seat. Greedy measurements stay greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "0.01 to 100; `frozen` also 0", "x-default" = "that of the stage"))]
    pub temperature: Option<f32>,
}

impl SeatSection {
    pub(crate) fn check(&self, seat: &str, policy: &PolicySection) -> Result<(), RunFileError> {
        let word = self.policy.word();
        self.check_rules(seat)?;
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

    fn check_rules(&self, seat: &str) -> Result<(), RunFileError> {
        let key = |key: &str| format!("seats.{seat}.{key}");
        let Some(temperature) = self.temperature else { return Ok(()) };
        match self.policy {
            SeatBinding::Frozen if temperature == 0.0 => Ok(()),
            SeatBinding::Frozen => {
                check_range(&key("temperature"), temperature, 0.01..=100.0, "0, or a temperature from 0.01 to 100")
            }
            SeatBinding::Separate => {
                check_range(&key("temperature"), temperature, 0.01..=100.0, "a temperature from 0.01 to 100")
            }
            SeatBinding::Shared | SeatBinding::Oracle => Err(RunFileError::Contradiction(format!(
                "seats.{seat}.temperature is set, but only a frozen or separate seat has a temperature of its own\nhint: \
                 remove it, and set the temperature of the stage"
            ))),
        }
    }

    /// Rules of the seat in rollouts.
    #[must_use]
    pub fn rules(&self) -> SeatRules {
        let Self { system, turns, reply_tokens, temperature, .. } = self.clone();
        SeatRules { system, turns, reply_tokens, temperature }
    }
}
