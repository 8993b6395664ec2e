//! Correction of tokens that older weights sampled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Off-policy correction of tokens that older weights sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OffPolicy {
    /// Cap on the importance weight of the proximal over the behaviour policy.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cap: f64,
    /// Importance weights above the cap.
    #[serde(default, skip_serializing_if = "AboveCap::truncates")]
    #[schemars(!skip_serializing_if)]
    pub mode: AboveCap,
    /// Granularity of the importance weight.
    pub level: CapLevel,
    /// Minimum token ratio; episodes with a smaller one are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub veto: Option<f64>,
    /// Maximum staleness in training steps; older tokens are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_steps: Option<u32>,
}

/// Granularity of the importance weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapLevel {
    /// Each token.
    Token,
    /// Product over a seat's part of an episode.
    Sequence,
    /// Geometric mean over a seat's part of an episode.
    Geometric,
}

/// Importance weights above the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AboveCap {
    /// They become the cap (truncated importance sampling).
    #[default]
    Truncate,
    /// They become 0, so that the surrogate has no gradient there (masked importance sampling).
    Mask,
}

impl AboveCap {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn truncates(&self) -> bool {
        *self == Self::Truncate
    }
}
