//! An algorithm is a composition of flags; a paper is a file of them.

use serde::{Deserialize, Serialize};

use crate::TrainerError;
use crate::error::require;

/// What an episode's reward is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Nothing: the advantage is the reward.
    None,
    /// The mean of the group.
    GroupMean,
    /// The mean of the group's other members.
    LeaveOneOut,
}

/// What the difference from the baseline is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Nothing.
    None,
    /// The group's sample standard deviation.
    GroupStd,
}

/// How the losses of tokens become the loss of a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// The mean over all sampled tokens: long episodes weigh more.
    Token,
    /// The mean over episodes of the mean over each episode's sampled tokens.
    Sequence,
    /// The sum over all sampled tokens, over the number of episodes times `constant_tokens`.
    Constant,
}

/// The flags. A run file names a preset and overrides what it likes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// What an episode's reward is compared with.
    pub baseline: Baseline,
    /// What the difference is divided by.
    pub scale: Scale,
    /// How far below 1 the ratio of new to old probability counts; in (0, 1).
    pub clip_low: f64,
    /// How far above 1 the ratio counts; above 0.
    pub clip_high: f64,
    /// How the losses of tokens are added up.
    pub aggregation: Aggregation,
    /// The divisor of `aggregation = "constant"`, and only of it: a typical number of sampled tokens in an episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant_tokens: Option<u32>,
    /// Weight of the k3 estimate of the divergence from the weights with which the stage began; at least 0.
    pub kl_beta: f64,
    /// Weight of the entropy of sampled tokens' distributions; at least 0.
    pub entropy_bonus: f64,
    /// How often a batch is gone through; at least 1.
    pub epochs: u32,
    /// Into how many parts, each an optimiser step, a batch is cut; at least 1.
    pub minibatches: u32,
}

const PRESET_TEXTS: [(&str, &str); 2] =
    [("loop", include_str!("../../../presets/loop.toml")), ("grpo", include_str!("../../../presets/grpo.toml"))];

impl Default for Algorithm {
    /// The preset `loop`.
    fn default() -> Self {
        Self {
            baseline: Baseline::LeaveOneOut,
            scale: Scale::None,
            clip_low: 0.2,
            clip_high: 0.2,
            aggregation: Aggregation::Token,
            constant_tokens: None,
            kl_beta: 0.0,
            entropy_bonus: 0.0,
            epochs: 1,
            minibatches: 1,
        }
    }
}

impl Algorithm {
    /// The names of the presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESET_TEXTS.iter().map(|(name, _)| *name)
    }

    /// The TOML of a preset: a table with every key of [`Algorithm`] that it sets.
    ///
    /// # Errors
    /// If there is no preset of this name.
    pub fn preset_text(name: &str) -> Result<&'static str, TrainerError> {
        let found = PRESET_TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        found.ok_or_else(|| TrainerError::Preset {
            name: name.to_owned(),
            known: Self::preset_names().collect::<Vec<_>>().join(" and "),
        })
    }

    /// Refuses values out of range and combinations in which a flag would do nothing.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), TrainerError> {
        require(self.clip_low > 0.0 && self.clip_low < 1.0, "clip_low", self.clip_low, "above 0 and below 1")?;
        require(self.clip_high > 0.0 && self.clip_high.is_finite(), "clip_high", self.clip_high, "above 0")?;
        let weight = |value: f64| value >= 0.0 && value.is_finite();
        require(weight(self.kl_beta), "kl_beta", self.kl_beta, "at least 0")?;
        require(weight(self.entropy_bonus), "entropy_bonus", self.entropy_bonus, "at least 0")?;
        require(self.epochs >= 1, "epochs", self.epochs, "at least 1")?;
        require(self.minibatches >= 1, "minibatches", self.minibatches, "at least 1")?;
        let scaled = self.scale == Scale::GroupStd && self.baseline == Baseline::None;
        require(!scaled, "scale", "group-std", "none when `baseline` is none, as equal rewards would be divided by 0")?;
        match (self.aggregation, self.constant_tokens) {
            (Aggregation::Constant, None) => {
                require(false, "constant_tokens", "missing", "at least 1 when `aggregation` is constant")
            }
            (Aggregation::Constant, Some(tokens)) => {
                require(tokens >= 1, "constant_tokens", tokens, "at least 1 when `aggregation` is constant")
            }
            (_, Some(tokens)) => {
                require(false, "constant_tokens", tokens, "left out unless `aggregation` is constant: nothing uses it")
            }
            (_, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut Algorithm);

    fn preset(name: &str) -> Algorithm {
        toml::from_str(Algorithm::preset_text(name).expect("a known name")).expect("a whole table")
    }

    #[test]
    fn presets_are_valid_and_loop_is_the_default() {
        for name in Algorithm::preset_names() {
            preset(name).check().expect(name);
        }
        assert_eq!(preset("loop"), Algorithm::default());
        assert_eq!(preset("grpo").scale, Scale::GroupStd);
        assert!(Algorithm::preset_text("gpro").expect_err("misspelt").to_string().contains("loop and grpo"));
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        let wrong: [(&str, Spoil); 8] = [
            ("clip_low", |flags| flags.clip_low = 1.0),
            ("clip_high", |flags| flags.clip_high = f64::NAN),
            ("kl_beta", |flags| flags.kl_beta = -0.1),
            ("entropy_bonus", |flags| flags.entropy_bonus = f64::INFINITY),
            ("epochs", |flags| flags.epochs = 0),
            ("minibatches", |flags| flags.minibatches = 0),
            ("constant_tokens", |flags| flags.constant_tokens = Some(5)),
            ("scale", |flags| (flags.baseline, flags.scale) = (Baseline::None, Scale::GroupStd)),
        ];
        for (key, spoil) in wrong {
            let mut flags = Algorithm::default();
            spoil(&mut flags);
            assert!(flags.check().expect_err(key).to_string().contains(key));
        }
        let unknown = format!("{}\nclip = 0.2", Algorithm::preset_text("loop").expect("known"));
        assert!(toml::from_str::<Algorithm>(&unknown).is_err());
    }
}
