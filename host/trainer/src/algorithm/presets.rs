//! The presets: one file for each paper, compiled in.

use super::Algorithm;
use crate::TrainerError;

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../presets/", $name, ".toml")))),*]
    };
}

const TEXTS: [(&str, &str); 35] = presets![
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

impl Algorithm {
    /// The names of the presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        TEXTS.iter().map(|(name, _)| *name)
    }

    /// The TOML of a preset: a table with the keys of [`Algorithm`] that it sets.
    ///
    /// # Errors
    /// If there is no preset of this name.
    pub fn preset_text(name: &str) -> Result<&'static str, TrainerError> {
        let found = TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        found.ok_or_else(|| TrainerError::Preset {
            name: name.to_owned(),
            known: Self::preset_names().collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid_and_loop_is_the_default() {
        for (name, text) in TEXTS {
            let preset: Algorithm = toml::from_str(text).expect(name);
            preset.check().expect(name);
            let again: Algorithm = toml::from_str(&toml::to_string(&preset).expect(name)).expect(name);
            assert_eq!(again, preset, "{name}");
            assert!(text.starts_with("# "), "{name} names no paper");
        }
        let preset: Algorithm = toml::from_str(Algorithm::preset_text("loop").expect("known")).expect("flags");
        assert_eq!(preset, Algorithm::default());
        assert!(Algorithm::preset_text("gpro").expect_err("misspelt").to_string().contains("grpo"));
    }

    #[test]
    fn every_file_is_compiled_in() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, Algorithm::preset_names().collect::<Vec<_>>());
    }
}
