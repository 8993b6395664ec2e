//! What the engine of `[trainer]` can follow: ranges, sections and stages.

use gymkhana_algorithm::{Algorithm, Module, MomentFormat, Optimizer};

use super::RunFile;
use crate::error::RunFileError;
use crate::sections::{RlStage, SeatBinding, SftStage, Stage, TinkerSection, TrainerSection};

impl RunFile {
    /// Rejects ranges, sections and stages that the engine cannot follow.
    pub(super) fn check_trainer(&self, trainer: &TrainerSection) -> Result<(), RunFileError> {
        if self.policy.checkpoint.is_none() {
            return refused(
                "[trainer] needs policy.checkpoint for the tokenizer and the chat template\nhint: set \
                 policy.checkpoint to the model that is trained"
                    .to_owned(),
            );
        }
        let excluded = match trainer {
            TrainerSection::Tinker(tinker) => self.excluded_by_tinker(tinker)?,
            TrainerSection::Torch(_) => self.excluded_by_torch(),
        };
        if let Some((key, why)) = excluded {
            return refused(format!("[trainer] excludes {key}: {why}\nhint: remove {key}, or [trainer]"));
        }
        let own_model = |binding| matches!(binding, SeatBinding::Frozen | SeatBinding::Separate);
        if let Some((name, _)) = self.rules.seats.iter().find(|(_, seat)| own_model(seat.policy)) {
            return refused(format!(
                "seats.{name} has a model of its own, but [trainer] trains one model\nhint: set \
                 seats.{name}.policy to \"shared\" or \"oracle\""
            ));
        }
        self.stages.iter().try_for_each(|stage| check_stage(stage, trainer))
    }

    /// The first set key that a Tinker server excludes, and why.
    fn excluded_by_tinker(&self, tinker: &TinkerSection) -> Result<Option<(&'static str, &'static str)>, RunFileError> {
        if !matches!(tinker.url.scheme(), "http" | "https") {
            return refused(format!("trainer.url is `{}`\nhint: use a URL with http:// or https://", tinker.url));
        }
        Ok(first([
            (self.policy.server.is_some(), ("policy.server", "the server of [trainer] samples, too")),
            (self.policy.lora.is_some(), ("policy.lora", "set trainer.rank")),
            (self.deterministic, ("deterministic", "the server batches requests by timing")),
        ]))
    }

    /// The first set key that the processes of PyTorch exclude, and why.
    fn excluded_by_torch(&self) -> Option<(&'static str, &'static str)> {
        let chosen = self.policy.lora.as_ref().is_some_and(|lora| lora.modules != Module::all());
        first([
            (self.deterministic, ("deterministic", "PyTorch batches requests by timing")),
            (chosen, ("policy.lora.modules", "all linear layers get adapters")),
        ])
    }
}

fn refused<T>(message: String) -> Result<T, RunFileError> {
    Err(RunFileError::Contradiction(message))
}

fn check_stage(stage: &Stage, trainer: &TrainerSection) -> Result<(), RunFileError> {
    let of_rl = |stage: &RlStage| {
        let flags = stage.settings()?.algorithm;
        Ok::<_, RunFileError>(match trainer {
            TrainerSection::Tinker(_) => {
                not_on_tinker(stage).or(of_log_probs_only(&flags)).or(of_further_models(&flags))
            }
            TrainerSection::Torch(_) => of_every_engine(stage).or(of_further_models(&flags)),
        })
    };
    let set = match stage {
        Stage::Sft(SftStage { optimizer, .. }) => own_optimizer(optimizer),
        Stage::BestOfN(stage) => own_optimizer(&stage.optimizer),
        Stage::Rl(stage) => own_optimizer(&stage.optimizer).or(of_rl(stage)?),
    };
    match set {
        None => Ok(()),
        Some(key) => refused(format!(
            "stage `{}`: {key} cannot be followed by [trainer]\nhint: choose another setting, or train without [trainer]",
            stage.name()
        )),
    }
}

/// The first of these that is set.
fn first<T, const N: usize>(keys: [(bool, T); N]) -> Option<T> {
    keys.into_iter().find(|(is_set, _)| *is_set).map(|(_, key)| key)
}

/// Key of the optimizer that no engine besides the built-in one knows.
fn own_optimizer(optimizer: &Optimizer) -> Option<&'static str> {
    first([
        (!optimizer.groups.is_empty(), "optimizer.groups"),
        (optimizer.ema.is_some(), "optimizer.ema"),
        (optimizer.moments != MomentFormat::Float32, "optimizer.moments"),
    ])
}

/// Key of the stage that no engine besides the built-in one knows.
fn of_every_engine(stage: &RlStage) -> Option<&'static str> {
    first([
        (stage.recorded.is_some(), "recorded"),
        // Log-probabilities of sampled tokens are those of the cut distribution, and a training pass knows no cuts.
        (stage.sampling().cuts(), "a cut by top_k, top_p or min_p"),
    ])
}

/// Key of the stage that a Tinker server does not know.
fn not_on_tinker(stage: &RlStage) -> Option<&'static str> {
    // A server's training pass is at temperature 1.
    of_every_engine(stage).or(first([(stage.temperature != 1.0, "a temperature other than 1")]))
}

/// Flag of the algorithm that no function of log-probabilities follows.
fn of_log_probs_only(flags: &Algorithm) -> Option<&'static str> {
    let ema = flags.reference.is_some_and(|reference| reference.ema.is_some());
    first([
        (flags.entropy_bonus > 0.0 || flags.entropy_schedule.is_some(), "settings.entropy_bonus"),
        (flags.entropy_band.is_some(), "settings.entropy_band"),
        (ema, "settings.reference.ema"),
    ])
}

/// Flag of the algorithm that needs a model besides the policy and the reference policy.
fn of_further_models(flags: &Algorithm) -> Option<&'static str> {
    first([
        (flags.distils(), "settings.surrogate"),
        (flags.critic.is_some(), "settings.critic"),
        (flags.wants_teacher(), "settings.credit"),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{LossReduction, TorchSection};

    const FILE: &str = "success = \"environment.success\"\n[policy]\ncheckpoint = \"model\"\n[trainer]\nkind = \"tinker\"\nurl = \
                        \"http://127.0.0.1:1\"\n[[stages]]\nkind = \"rl\"\n";

    fn refusal(sets: &[&str]) -> String {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        RunFile::parse(FILE, "run.toml", &sets).unwrap_err().to_string()
    }

    #[test]
    fn a_run_with_a_server_has_defaults() {
        let TrainerSection::Tinker(trainer) = RunFile::parse(FILE, "run.toml", &[]).unwrap().trainer.unwrap() else {
            panic!("another kind");
        };
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
            ("seats.agent.policy=\"separate\"", "[trainer] trains one model"),
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

    const TORCH: &str = "success = \"environment.success\"\n[policy]\ncheckpoint = \"model\"\n[trainer]\nkind = \"torch\"\n\
                         [[stages]]\nkind = \"rl\"\n";

    #[test]
    fn pytorch_follows_more_than_a_server() {
        let parse = |set: &str| RunFile::parse(TORCH, "run.toml", &[set.to_owned()]);
        let Ok(RunFile { trainer: Some(TrainerSection::Torch(TorchSection { python, processes, .. })), .. }) =
            parse("trainer.processes=2")
        else {
            panic!("another kind");
        };
        assert_eq!((python.as_str(), processes), ("python3", 2));
        for set in [
            "stages.rl.settings.entropy_bonus=0.01",
            "stages.rl.temperature=0.7",
            "policy.lora={ rank = 4, alpha = 8 }",
            "policy.server={ protocol = \"vllm\", name = \"m\", url = \"http://127.0.0.1:1\" }",
        ] {
            parse(set).unwrap_or_else(|error| panic!("{set}: {error}"));
        }
        for (set, said) in [
            ("trainer.processes=0", "trainer.processes"),
            ("trainer.url=\"http://127.0.0.1:1\"", "url"),
            ("trainer.optimizer=\"sgd\"", "optimizer"),
            ("stages.rl.algorithm=\"ppo\"", "settings.critic cannot be followed by [trainer]"),
            ("stages.rl.top_p=0.9", "a cut by top_k, top_p or min_p cannot"),
            ("policy.lora={ rank = 4, alpha = 8, modules = [\"q_proj\"] }", "[trainer] excludes policy.lora.modules"),
            ("deterministic=true", "[trainer] excludes deterministic"),
        ] {
            let refused = parse(set).unwrap_err().to_string();
            assert!(refused.contains(said), "{set}: {refused}");
        }
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
