//! Presets: one file per paper, compiled in.

use serde::Deserialize;

use crate::{Algorithm, PresetRequirement, SettingError};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../presets/", $name, ".toml")))),*]
    };
}

const TEXTS: [(&str, &str); 36] = presets![
    "aepo",
    "arpo",
    "cispo",
    "dapo",
    "dart",
    "distill",
    "dpo",
    "dr-grpo",
    "dr-mas",
    "epo",
    "g-ra",
    "gigpo",
    "grpo",
    "grpo-roc",
    "gspo",
    "igpo",
    "kto",
    "lite-ppo",
    "loop",
    "mars",
    "mini-o3",
    "mt-grpo",
    "otc",
    "ppo",
    "reinforce++",
    "rise",
    "rloo",
    "scalinginter",
    "score",
    "score-first",
    "simpletir",
    "spear",
    "spiral-rae",
    "step-ppo",
    "supo",
    "vl-dac",
];

/// A preset: the flags of a paper's algorithm, and the companions that it needs in the run file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Preset {
    #[serde(default)]
    requires: Vec<PresetRequirement>,
    #[serde(flatten)]
    flags: toml::Table,
}

impl Preset {
    /// The preset of a name.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn named(name: &str) -> Result<Self, SettingError> {
        let text = TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let preset = text.and_then(|text| toml::from_str(text).ok());
        preset.ok_or_else(|| SettingError::Preset {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Names of all presets, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TEXTS.iter().map(|(name, _)| *name)
    }

    /// Companions that a run with this preset needs.
    #[must_use]
    pub fn requires(&self) -> &[PresetRequirement] {
        &self.requires
    }

    /// The keys of [`Algorithm`] that the preset sets.
    #[must_use]
    pub fn flags(&self) -> &toml::Table {
        &self.flags
    }

    /// The preset as an algorithm.
    ///
    /// # Errors
    /// If a flag is unknown, out of range or unused.
    pub fn algorithm(&self) -> Result<Algorithm, SettingError> {
        let algorithm: Algorithm = self.flags.clone().try_into().map_err(SettingError::Flags)?;
        algorithm.check()?;
        Ok(algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid_and_loop_is_the_default() {
        for (name, text) in TEXTS {
            let preset: Preset = toml::from_str(text).expect(name);
            let algorithm = preset.algorithm().expect(name);
            let again: Algorithm = toml::from_str(&toml::to_string(&algorithm).expect(name)).expect(name);
            assert_eq!(again, algorithm, "{name}");
            assert!(text.starts_with("# "), "{name} names no paper");
        }
        let preset = Preset::named("loop").expect("known").algorithm().expect("flags");
        assert_eq!(preset, Algorithm::default());
        assert!(Preset::named("gpro").expect_err("misspelt").to_string().contains("grpo"));
    }

    #[test]
    fn presets_name_their_companions() {
        let requires = |name: &str| Preset::named(name).expect("known").requires().to_vec();
        for (name, requirement) in [
            ("igpo", PresetRequirement::AnswerProbe),
            ("arpo", PresetRequirement::BranchPlan),
            ("aepo", PresetRequirement::BranchPlan),
            ("grpo-roc", PresetRequirement::OversamplePlan),
            ("scalinginter", PresetRequirement::TurnSchedule),
            ("g-ra", PresetRequirement::RewardGate),
            ("otc", PresetRequirement::CallEfficiencyReward),
            ("supo", PresetRequirement::SummaryContext),
        ] {
            assert_eq!(requires(name), [requirement], "{name}");
        }
        assert!(requires("grpo").is_empty());
        let unknown = toml::from_str::<Preset>("requires = [\"luck\"]\nbaseline = \"none\"").expect_err("unknown");
        assert!(unknown.to_string().contains("luck"), "{unknown}");
        for requirement in PresetRequirement::ALL {
            assert!(toml::from_str::<toml::Table>(requirement.example()).is_ok(), "{requirement:?}");
        }
    }

    #[test]
    fn every_file_is_compiled_in() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, Preset::names().collect::<Vec<_>>());
    }
}
