//! Advantages of one environment among the several of a run: a factor, and flags that replace those of the stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::require;
use crate::{Algorithm, Bounds, Scale, SettingError};

/// Advantages of one environment among several. Baselines, scales, whitening and moving averages are those of the
/// environment alone, whatever this section says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentAdvantage {
    /// Factor of the advantages, after all flags of the algorithm.
    #[schemars(range(min = 0, max = 1e6))]
    pub factor: f64,
    /// Divisor of the advantage, instead of the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "that of the stage"))]
    pub scale: Option<Scale>,
    /// Lowest and highest total reward of a seat, instead of the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "that of the stage"))]
    pub reward_clip: Option<Bounds>,
}

impl Default for EnvironmentAdvantage {
    fn default() -> Self {
        Self { factor: 1.0, scale: None, reward_clip: None }
    }
}

impl EnvironmentAdvantage {
    /// The flags of a stage with those of the environment.
    #[must_use]
    pub fn over(&self, stage: &Algorithm) -> Algorithm {
        let (scale, reward_clip) = (self.scale.unwrap_or(stage.scale), self.reward_clip.or(stage.reward_clip));
        Algorithm { scale, reward_clip, ..stage.clone() }
    }

    /// Refuses a factor out of range, and flags that the algorithm of a stage excludes.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self, stage: &Algorithm) -> Result<(), SettingError> {
        require((0.0..=1e6).contains(&self.factor), "factor", self.factor, "from 0 to 1000000")?;
        let used = self.factor == 1.0 || !(stage.of_whole_episodes() || stage.distils());
        require(
            used,
            "factor",
            self.factor,
            "1 with a loss over whole episodes or a teacher, which has no advantages",
        )?;
        self.over(stage).check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_an_environment_replace_those_of_the_stage() {
        let stage = Algorithm { scale: Scale::GroupStd, ..Algorithm::default() };
        assert_eq!(EnvironmentAdvantage::default().over(&stage), stage);
        let own = EnvironmentAdvantage {
            scale: Some(Scale::None),
            reward_clip: Some(Bounds { low: -1.0, high: 1.0 }),
            ..EnvironmentAdvantage::default()
        };
        assert_eq!(own.over(&stage), Algorithm { scale: Scale::None, reward_clip: own.reward_clip, ..stage.clone() });
        own.check(&stage).expect("sound flags");
        for (own, key) in [
            (EnvironmentAdvantage { factor: -1.0, ..own.clone() }, "factor"),
            (EnvironmentAdvantage { factor: f64::NAN, ..own.clone() }, "factor"),
            (EnvironmentAdvantage { reward_clip: Some(Bounds { low: 1.0, high: 1.0 }), ..own.clone() }, "reward_clip"),
        ] {
            let message = own.check(&stage).expect_err(key).to_string();
            assert!(message.contains(key), "{message}");
        }
        // A critic decides about the scale.
        let critic: Algorithm = crate::Preset::named("ppo").expect("known").algorithm().expect("flags");
        let scaled = EnvironmentAdvantage { scale: Some(Scale::GroupStd), ..EnvironmentAdvantage::default() };
        assert!(scaled.check(&critic).is_err());
    }
}
