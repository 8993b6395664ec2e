//! Growing turn limit of a stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Curriculum on turns: the limit grows from step to step up to `limits.turns` (ScalingInter-RL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnSchedule {
    /// Turns per seat in the first steps.
    #[schemars(range(min = 1, max = 100_000))]
    pub from: u32,
    /// Turns added at each increase, up to `limits.turns`.
    pub by: u32,
    /// Steps between increases.
    #[schemars(range(min = 1))]
    pub every: u64,
}

impl TurnSchedule {
    /// Turn limit at a step, at most `most`.
    #[must_use]
    pub fn at(self, step: u64, most: u32) -> u32 {
        let added = u64::from(self.by).saturating_mul(step / self.every);
        u32::try_from(u64::from(self.from).saturating_add(added)).unwrap_or(u32::MAX).min(most)
    }
}
