//! What the server of `[trainer]` can follow: ranges, sections and stages.

use gymkhana_algorithm::{Algorithm, MomentFormat, Optimizer};

use super::RunFile;
use crate::error::RunFileError;
use crate::sections::{RlStage, SeatBinding, SftStage, Stage, TrainerSection};

impl RunFile {
    /// Rejects ranges, sections and stages that the server cannot follow.
    pub(super) fn check_trainer(&self, trainer: &TrainerSection) -> Result<(), RunFileError> {
        if !matches!(trainer.url.scheme(), "http" | "https") {
            return refused(format!("trainer.url is `{}`\nhint: use a URL with http:// or https://", trainer.url));
        }
        if self.policy.checkpoint.is_none() {
            return refused(
                "trainer.url needs policy.checkpoint for the tokenizer and the chat template\nhint: set \
                 policy.checkpoint to the model that the server trains"
                    .to_owned(),
            );
        }
        let excluded = [
            (self.policy.server.is_some(), "policy.server", "the server of [trainer] samples, too"),
            (self.policy.lora.is_some(), "policy.lora", "set trainer.rank"),
            (self.deterministic, "deterministic", "the server batches requests by timing"),
        ];
        if let Some((_, key, why)) = excluded.into_iter().find(|(is_set, ..)| *is_set) {
            return refused(format!("[trainer] excludes {key}: {why}\nhint: remove {key}, or [trainer]"));
        }
        let own_model = |binding| matches!(binding, SeatBinding::Frozen | SeatBinding::Separate);
        if let Some((name, _)) = self.rules.seats.iter().find(|(_, seat)| own_model(seat.policy)) {
            return refused(format!(
                "seats.{name} has a model of its own, but the server of [trainer] trains one model\nhint: set \
                 seats.{name}.policy to \"shared\" or \"oracle\""
            ));
        }
        self.stages.iter().try_for_each(check_stage)
    }
}

fn refused<T>(message: String) -> Result<T, RunFileError> {
    Err(RunFileError::Contradiction(message))
}

fn check_stage(stage: &Stage) -> Result<(), RunFileError> {
    let set = match stage {
        Stage::Sft(SftStage { optimizer, .. }) => own_optimizer(optimizer),
        Stage::BestOfN(stage) => own_optimizer(&stage.optimizer),
        Stage::Rl(stage) => {
            own_optimizer(&stage.optimizer).or_else(|| of_stage(stage)).or(of_algorithm(&stage.settings()?.algorithm))
        }
    };
    match set {
        None => Ok(()),
        Some(key) => refused(format!(
            "stage `{}`: {key} cannot be followed by the server of [trainer]\nhint: choose another setting, or train \
             without [trainer]",
            stage.name()
        )),
    }
}

/// The first of these keys that is set.
fn first<const N: usize>(keys: [(bool, &'static str); N]) -> Option<&'static str> {
    keys.into_iter().find(|(is_set, _)| *is_set).map(|(_, key)| key)
}

/// Key of the optimiser that the server does not know.
fn own_optimizer(optimizer: &Optimizer) -> Option<&'static str> {
    first([
        (!optimizer.groups.is_empty(), "optimizer.groups"),
        (optimizer.ema.is_some(), "optimizer.ema"),
        (optimizer.moments != MomentFormat::Float32, "optimizer.moments"),
    ])
}

/// Key of the stage that the server does not know.
fn of_stage(stage: &RlStage) -> Option<&'static str> {
    first([
        (stage.recorded.is_some(), "recorded"),
        // A server's training pass is at temperature 1, and its log-probabilities may be those of the cut distribution.
        (stage.temperature != 1.0, "a temperature other than 1"),
        (stage.sampling().cuts(), "a cut by top_k, top_p or min_p"),
    ])
}

/// Flag of the algorithm that no function of log-probabilities follows, or that needs a model which the server lacks.
fn of_algorithm(flags: &Algorithm) -> Option<&'static str> {
    let ema = flags.reference.is_some_and(|reference| reference.ema.is_some());
    first([
        (flags.distils(), "settings.surrogate"),
        (flags.entropy_bonus > 0.0 || flags.entropy_schedule.is_some(), "settings.entropy_bonus"),
        (flags.entropy_band.is_some(), "settings.entropy_band"),
        (flags.critic.is_some(), "settings.critic"),
        (flags.wants_teacher(), "settings.credit"),
        (ema, "settings.reference.ema"),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::LossReduction;

    const FILE: &str = "success = \"environment.success\"\n[policy]\ncheckpoint = \"model\"\n[trainer]\nkind = \"tinker\"\nurl = \
                        \"http://127.0.0.1:1\"\n[[stages]]\nkind = \"rl\"\n";

    fn refusal(sets: &[&str]) -> String {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        RunFile::parse(FILE, "run.toml", &sets).unwrap_err().to_string()
    }

    #[test]
    fn a_run_with_a_server_has_defaults() {
        let trainer = RunFile::parse(FILE, "run.toml", &[]).unwrap().trainer.unwrap();
        assert_eq!(
            (trainer.rank, trainer.reduction, trainer.timeout()),
            (32, LossReduction::Sum, Duration::from_secs(3_600))
        );
    }

    #[test]
    fn what_the_server_cannot_follow_is_refused() {
        for (set, said) in [
            ("policy.lora={ rank = 4, alpha = 8 }", "[trainer] excludes policy.lora: set trainer.rank"),
            ("stages.rl.settings.entropy_bonus=0.01", "settings.entropy_bonus cannot be followed"),
            ("stages.rl.algorithm=\"ppo\"", "settings.critic cannot"),
            ("stages.rl.temperature=0.7", "a temperature other than 1 cannot"),
            ("stages.rl.top_p=0.9", "a cut by top_k, top_p or min_p cannot"),
            ("stages.rl.optimizer.ema=0.99", "optimizer.ema cannot"),
            ("stages.rl.optimizer.moments=int8", "optimizer.moments cannot"),
            ("seats.agent.policy=\"separate\"", "the server of [trainer] trains one model"),
            ("trainer.url=\"ftp://a\"", "use a URL with http:// or https://"),
            ("trainer.rank=0", "trainer.rank"),
            ("deterministic=true", "[trainer] excludes deterministic"),
        ] {
            let refused = refusal(&[set]);
            assert!(refused.contains(said), "{set}: {refused}");
        }
        let follows = refusal(&["stages.rl.algorithm=\"dpo\"", "stages.rl.settings.reference={ ema = 0.9 }"]);
        assert!(follows.contains("settings.reference.ema cannot"), "{follows}");
    }

    /// Presets whose loss is a function of log-probabilities.
    #[test]
    fn losses_of_log_probabilities_are_followed() {
        for preset in ["gspo", "dpo", "kto", "spear"] {
            RunFile::parse(FILE, "run.toml", &[format!("stages.rl.algorithm=\"{preset}\"")]).expect(preset);
        }
        let kl = "stages.rl.settings.kl={ beta = 0.1, estimator = \"k3\", place = \"loss\" }".to_owned();
        RunFile::parse(FILE, "run.toml", &[kl]).expect("a penalty");
    }
}
