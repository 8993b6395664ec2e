//! Supervised loss on demonstrations in steps of reinforcement learning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::{SettingError, Weight, WeightSchedule};

/// Supervised loss in steps of reinforcement learning. Each step also plays episodes by the environment's oracle, and
/// each optimiser step adds `weight` times the mean negative log-probability of the tokens that the oracle wrote in the
/// episodes that met `success`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Demonstrations {
    /// Demonstrations per step, each of another task: those of the step's groups, then the following ones.
    #[schemars(range(min = 1, max = 65_536))]
    pub batch: u32,
    /// Weight of the supervised loss.
    #[schemars(range(min = 0))]
    pub weight: f64,
    /// Schedule of the weight over training steps. Steps of weight 0 play no demonstrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<WeightSchedule>,
}

impl Demonstrations {
    /// Weight of the supervised loss in a training step, counted from 0 in the stage.
    #[must_use]
    pub fn weight_at(&self, step: u64) -> f64 {
        Weight { start: self.weight, schedule: self.schedule }.at(step)
    }

    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        let (batch, weight) = (self.batch, self.weight);
        require((1..=65_536).contains(&batch), "demonstrations.batch", batch, "from 1 to 65536")?;
        require(weight >= 0.0 && weight.is_finite(), "demonstrations.weight", weight, "at least 0")?;
        let Some(schedule) = self.schedule else { return Ok(()) };
        let key = "demonstrations.schedule";
        schedule.check().map_err(|source| SettingError::Schedule { key, source })?;
        require(schedule.to >= 0.0, key, format!("a schedule to {}", schedule.to), "one whose `to` is at least 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WeightShape;

    /// Halfway from 0.4 to 0 is 0.2.
    #[test]
    fn the_weight_follows_its_schedule() {
        let falls = |to| Some(WeightSchedule { shape: WeightShape::Linear, to, begin: 0, over: 2, every: None });
        let of = |weight, schedule| Demonstrations { batch: 4, weight, schedule };
        assert_eq!([0, 1, 2, 9].map(|step| of(0.4, falls(0.0)).weight_at(step)), [0.4, 0.2, 0.0, 0.0]);
        of(0.0, falls(0.5)).check().expect("a weight that grows");
        for (wrong, key) in [
            (of(-0.1, None), "demonstrations.weight"),
            (of(f64::NAN, None), "demonstrations.weight"),
            (of(0.1, falls(-0.1)), "demonstrations.schedule"),
            (Demonstrations { batch: 0, ..of(0.1, None) }, "demonstrations.batch"),
        ] {
            assert!(wrong.check().expect_err(key).to_string().contains(key), "{key}");
        }
    }
}
