//! Weights of rewards and penalties, and their schedules over training steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Factor of a reward or a penalty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weight {
    /// Weight in the first step.
    pub start: f64,
    /// Schedule; `None` for a constant weight.
    pub schedule: Option<WeightSchedule>,
}

/// Schedule that changes a weight from its first value to `to`: `weight` of a reward or of `demonstrations`, `kl.beta`,
/// `entropy_bonus` or `critic.learning_rate`. Steps are counted from 0 within the stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightSchedule {
    /// Course of the change.
    pub shape: WeightShape,
    /// Final weight.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub to: f64,
    /// Training step at which the change begins.
    #[serde(default)]
    pub begin: u64,
    /// Training steps that the change takes.
    #[schemars(range(min = 1))]
    pub over: u64,
    /// Training steps of one stair; required by `shape = "steps"`, rejected by other shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub every: Option<u64>,
}

/// Course of a change of weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WeightShape {
    /// A straight line.
    Linear,
    /// Half a cosine period.
    Cosine,
    /// A staircase along a straight line: the weight changes once in `every` training steps.
    Steps,
}

/// A schedule with an invalid key. The key is relative to the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{key} {problem}\nhint: {fix}")]
pub struct ScheduleError {
    /// Invalid key.
    pub key: &'static str,
    /// Problem, as a predicate of the key.
    pub problem: &'static str,
    /// Correction, in the imperative.
    pub fix: &'static str,
}

impl From<f64> for Weight {
    fn from(start: f64) -> Self {
        Self { start, schedule: None }
    }
}

impl Weight {
    /// Weight in a training step.
    #[must_use]
    pub fn at(self, step: u64) -> f64 {
        let Some(schedule) = self.schedule else { return self.start };
        self.start + (schedule.to - self.start) * schedule.done(step)
    }
}

impl WeightSchedule {
    /// Refuses values out of range and keys without effect.
    ///
    /// # Errors
    /// Names the first such key.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let require = |holds, key, problem, fix| if holds { Ok(()) } else { Err(ScheduleError { key, problem, fix }) };
        require(self.to.abs() <= 1e6, "to", "is out of range", "use a number from -1000000 to 1000000")?;
        require(self.over >= 1, "over", "is out of range: 0", "use 1 or more")?;
        match (self.shape, self.every) {
            (WeightShape::Steps, None) => {
                require(false, "every", "is missing, but `shape` is \"steps\"", "set it to 1 or more")
            }
            (WeightShape::Steps, Some(every)) => require(every >= 1, "every", "is out of range: 0", "use 1 or more"),
            (_, every) => require(every.is_none(), "every", "has no effect: `shape` is not \"steps\"", "remove it"),
        }
    }

    /// Completed share of the change, from 0 to 1.
    fn done(self, step: u64) -> f64 {
        let passed = step.saturating_sub(self.begin).min(self.over);
        let share = |passed: u64| passed as f64 / self.over as f64;
        match self.shape {
            WeightShape::Linear => share(passed),
            WeightShape::Cosine => (1.0 - (std::f64::consts::PI * share(passed)).cos()) / 2.0,
            WeightShape::Steps if passed == self.over => 1.0,
            WeightShape::Steps => share(passed - passed % self.every.unwrap_or(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(shape: WeightShape, begin: u64, every: Option<u64>) -> Weight {
        Weight { start: 2.0, schedule: Some(WeightSchedule { shape, to: 0.0, begin, over: 8, every }) }
    }

    fn near(weight: Weight, expected: &[(u64, f64)]) {
        for (step, expected) in expected {
            let found = weight.at(*step);
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected} in step {step}");
        }
    }

    /// A change over 8 steps from 2 to 0. A quarter of half a period is 45 degrees: cos(45°) + 1 = 1.7071.
    #[test]
    fn by_hand() {
        near(Weight::from(0.5), &[(0, 0.5), (1000, 0.5)]);
        near(weight(WeightShape::Linear, 0, None), &[(0, 2.0), (2, 1.5), (4, 1.0), (8, 0.0), (100, 0.0)]);
        near(weight(WeightShape::Linear, 10, None), &[(0, 2.0), (10, 2.0), (12, 1.5), (18, 0.0)]);
        let eighth = 1.0 + std::f64::consts::FRAC_1_SQRT_2;
        near(weight(WeightShape::Cosine, 0, None), &[(0, 2.0), (2, eighth), (4, 1.0), (6, 2.0 - eighth), (9, 0.0)]);
        near(weight(WeightShape::Steps, 0, Some(4)), &[(0, 2.0), (3, 2.0), (4, 1.0), (7, 1.0), (8, 0.0)]);
        // The last stair can be shorter.
        near(weight(WeightShape::Steps, 0, Some(3)), &[(2, 2.0), (3, 1.25), (6, 0.5), (7, 0.5), (8, 0.0)]);
    }

    #[test]
    fn schedules_without_effect_are_refused() {
        let schedule = |shape, every| WeightSchedule { shape, to: 0.0, begin: 0, over: 8, every };
        for (wrong, key) in [
            (WeightSchedule { over: 0, ..schedule(WeightShape::Linear, None) }, "over"),
            (WeightSchedule { to: f64::NAN, ..schedule(WeightShape::Linear, None) }, "to"),
            (schedule(WeightShape::Steps, None), "every"),
            (schedule(WeightShape::Steps, Some(0)), "every"),
            (schedule(WeightShape::Cosine, Some(2)), "every"),
        ] {
            assert_eq!(wrong.check().expect_err(key).key, key);
        }
        for sound in [
            schedule(WeightShape::Linear, None),
            schedule(WeightShape::Cosine, None),
            schedule(WeightShape::Steps, Some(3)),
        ] {
            sound.check().expect("a sound schedule");
        }
    }
}
