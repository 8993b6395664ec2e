//! The stages of a run file: what is trained, how long and on what.

use std::path::PathBuf;

use gymkhana_policy::Sampling;
use gymkhana_rollout::SamplingPlan;
use gymkhana_trainer::{Algorithm, KlPlace, Optimizer, RlSettings, SftSettings};
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::range::{check_range, is_default};

/// A stage of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", from = "Written")]
pub enum Stage {
    /// Supervised fine-tuning on what the environment's oracle does.
    Sft(SftStage),
    /// Reinforcement learning on the policy's own episodes.
    Rl(RlStage),
}

/// A stage as it is written: kinds that are names for a stage of reinforcement learning with another algorithm.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Written {
    Sft(SftStage),
    Rl(RlStage),
    Dpo(RlStage),
    Distill(RlStage),
}

impl From<Written> for Stage {
    fn from(written: Written) -> Self {
        match written {
            Written::Sft(stage) => Self::Sft(stage),
            Written::Rl(stage) => Self::Rl(stage.named("rl", "loop")),
            Written::Dpo(stage) => Self::Rl(stage.named("dpo", "dpo")),
            Written::Distill(stage) => Self::Rl(stage.named("distill", "distill")),
        }
    }
}

/// Supervised fine-tuning on the oracle's demonstrations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SftStage {
    /// Names the stage.
    pub name: String,
    /// Training steps.
    pub steps: u64,
    /// Demonstrations in one step; each is of a task of its own.
    pub batch: u32,
    /// A checkpoint is written after so many steps, and at the end.
    pub checkpoint_every: u64,
    /// Adam and the learning rate.
    pub optimizer: Optimizer,
    /// The weight of the loss on tokens that no policy says, against 1 for those it says.
    pub other_tokens: f64,
}

impl Default for SftStage {
    fn default() -> Self {
        let settings = SftSettings::default();
        Self {
            name: "sft".to_owned(),
            steps: 100,
            batch: 48,
            checkpoint_every: 50,
            optimizer: settings.optimizer,
            other_tokens: settings.other_tokens,
        }
    }
}

impl SftStage {
    /// The trainer's settings.
    #[must_use]
    pub fn settings(&self) -> SftSettings {
        SftSettings { optimizer: self.optimizer.clone(), other_tokens: self.other_tokens, ..SftSettings::default() }
    }
}

/// Turns that an episode may take, growing from step to step up to `limits.turns` (ScalingInter-RL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnSchedule {
    /// In the first steps.
    pub from: u32,
    /// How many are added each time.
    pub by: u32,
    /// After how many steps they are added.
    pub every: u64,
}

impl TurnSchedule {
    /// The turns of a step, of which there may be `most`.
    #[must_use]
    pub fn at(self, step: u64, most: u32) -> u32 {
        let added = u64::from(self.by).saturating_mul(step / self.every);
        u32::try_from(u64::from(self.from).saturating_add(added)).unwrap_or(u32::MAX).min(most)
    }
}

/// Dynamic sampling (DAPO): groups whose rewards do not differ are replaced by groups of other tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicSampling {
    /// Rounds of replacement in one step, 0 to 100; 0 keeps every group.
    pub max_rounds: u32,
}

/// Reinforcement learning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RlStage {
    /// Names the stage.
    #[serde(default)]
    pub name: String,
    /// The preset of flags from which `settings` differ, a file of the folder `presets`.
    #[serde(default)]
    pub algorithm: String,
    /// Flags that replace the preset's.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    pub settings: toml::Table,
    /// The folder of the model from which is learnt, for an algorithm with a teacher and only for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<PathBuf>,
    /// Training steps.
    pub steps: u64,
    /// Groups in one step; each is about a task of its own.
    pub groups: u32,
    /// Episodes of one group.
    pub group_size: u32,
    /// How the episodes of a group come about.
    #[serde(skip_serializing_if = "is_default")]
    pub plan: SamplingPlan,
    /// Replacement of groups whose rewards do not differ (DAPO's dynamic sampling).
    #[serde(skip_serializing_if = "is_default")]
    pub dynamic_sampling: DynamicSampling,
    /// How many training steps the weights may have moved between a token's sampling and its training. 0 plays and
    /// trains in turn; 1 plays a step while the one before is trained on, and more overlap further.
    #[serde(skip_serializing_if = "is_default")]
    pub max_staleness: u32,
    /// How many groups more are begun in a step than are needed; the last to finish are given up.
    #[serde(skip_serializing_if = "is_default")]
    pub oversample_groups: u32,
    /// The turns that an episode may take, where they grow from step to step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnSchedule>,
    /// The temperature at which episodes are sampled, and of the distribution that learns.
    pub temperature: f32,
    /// Of how many of the most probable tokens one is sampled; 0 for all. Like the next two it cuts off what is sampled
    /// and not what is learnt from.
    #[serde(skip_serializing_if = "is_default")]
    pub top_k: u32,
    /// Of the most probable tokens with which share of the probability one is sampled.
    #[serde(skip_serializing_if = "is_one")]
    pub top_p: f32,
    /// How probable a token must be to be sampled, as a share of the most probable.
    #[serde(skip_serializing_if = "is_default")]
    pub min_p: f32,
    /// A checkpoint is written after so many steps, and at the end.
    pub checkpoint_every: u64,
    /// A control: rewards are shuffled within the batch, so that nothing can be learnt from them.
    pub shuffle_rewards: bool,
    /// Adam and the learning rate.
    pub optimizer: Optimizer,
}

impl Default for RlStage {
    fn default() -> Self {
        Self {
            name: "rl".to_owned(),
            algorithm: "loop".to_owned(),
            settings: toml::Table::new(),
            teacher: None,
            steps: 50,
            groups: 16,
            group_size: 8,
            plan: SamplingPlan::default(),
            dynamic_sampling: DynamicSampling::default(),
            max_staleness: 0,
            oversample_groups: 0,
            turns: None,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            checkpoint_every: 1,
            shuffle_rewards: false,
            optimizer: RlSettings::default().optimizer,
        }
    }
}

/// Whether a share is the whole.
fn is_one(share: &f32) -> bool {
    *share == 1.0
}

impl RlStage {
    /// The stage with what its kind stands for, where it says nothing itself.
    fn named(mut self, name: &str, algorithm: &str) -> Self {
        for (own, word) in [(&mut self.name, name), (&mut self.algorithm, algorithm)] {
            if own.is_empty() {
                word.clone_into(own);
            }
        }
        self
    }

    /// How its episodes' tokens are chosen.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let Self { temperature, top_k, top_p, min_p, .. } = *self;
        Sampling { temperature, top_k, top_p, min_p }
    }

    /// How many tasks a step may need.
    #[must_use]
    pub fn tasks_of_step(&self) -> u64 {
        u64::from(self.groups) * (u64::from(self.dynamic_sampling.max_rounds) + 1) + u64::from(self.oversample_groups)
    }

    /// Refuses settings under which it would depend on the clock what is trained on.
    fn check_order(&self, deterministic: bool) -> Result<(), RunFileError> {
        let contradiction = |why: &str| Err(RunFileError::Contradiction(format!("stage `{}`: {why}", self.name)));
        match (self.max_staleness, self.oversample_groups, self.dynamic_sampling.max_rounds) {
            (1.., _, _) if deterministic => contradiction(
                "max_staleness must be 0 under deterministic = true: when new weights come in the midst of an episode depends on \
                 the clock",
            ),
            (_, 1.., _) if deterministic => contradiction(
                "oversample_groups must be 0 under deterministic = true: which groups finish first depends on the clock",
            ),
            (_, 1.., 1..) => contradiction(
                "oversample_groups and dynamic_sampling cannot both be set: one gives up groups and the other asks for more; leave one \
                 of them out",
            ),
            _ => Ok(()),
        }
    }

    /// The trainer's settings: the preset with this stage's flags laid over it.
    ///
    /// # Errors
    /// If there is no such preset, or a flag is unknown or out of range.
    pub fn settings(&self) -> Result<RlSettings, RunFileError> {
        let contradiction = |message: String| RunFileError::Contradiction(format!("stage `{}`: {message}", self.name));
        let preset = Algorithm::preset_text(&self.algorithm).map_err(|error| {
            let near = gymkhana_nearest::did_you_mean(&self.algorithm, Algorithm::preset_names());
            contradiction(format!("{error}{near}"))
        })?;
        let mut flags: toml::Table = toml::from_str(preset).map_err(|error| contradiction(error.to_string()))?;
        lay_over(&mut flags, &self.settings);
        let algorithm: Algorithm =
            flags.try_into().map_err(|error: toml::de::Error| contradiction(crate::hint::explain(error.message())))?;
        let (optimizer, temperature) = (self.optimizer.clone(), f64::from(self.temperature));
        let settings = RlSettings { optimizer, algorithm, temperature, ..RlSettings::default() };
        settings.check().map_err(|error| contradiction(error.to_string()))?;
        let forks = matches!(self.plan, SamplingPlan::Branch(_) | SamplingPlan::Prefixes(_));
        let whole = settings.algorithm.length_penalty.is_some()
            || settings.algorithm.kl.is_some_and(|kl| kl.place == KlPlace::Reward);
        if forks && whole {
            let message = "`length_penalty` and `kl.place = \"reward\"` look at all tokens of an episode, and a plan whose \
                           episodes part keeps shared ones once; use another plan, or leave them out";
            return Err(contradiction(message.to_owned()));
        }
        match (&self.teacher, settings.algorithm.wants_teacher()) {
            (Some(_), false) => {
                let message = format!("`teacher` is set, and algorithm `{}` asks none; leave it out", self.algorithm);
                return Err(contradiction(message));
            }
            (None, true) => {
                let message = format!(
                    "algorithm `{}` learns from a teacher; name the folder of its model in `teacher`",
                    self.algorithm
                );
                return Err(contradiction(message));
            }
            _ => {}
        }
        Ok(settings)
    }
}

impl Stage {
    /// The stage's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Sft(stage) => &stage.name,
            Self::Rl(stage) => &stage.name,
        }
    }

    /// How many training steps it takes.
    #[must_use]
    pub fn steps(&self) -> u64 {
        match self {
            Self::Sft(stage) => stage.steps,
            Self::Rl(stage) => stage.steps,
        }
    }

    pub(crate) fn check(&self, deterministic: bool) -> Result<(), RunFileError> {
        let key = |key: &str| format!("stage `{}`: {key}", self.name());
        check_range(&key("steps"), self.steps(), 1..=100_000_000, "a number from 1 to 100000000")?;
        match self {
            Self::Sft(stage) => {
                check_range(&key("batch"), stage.batch, 1..=65_536, "a number from 1 to 65536")?;
                check_range(&key("checkpoint_every"), stage.checkpoint_every, 1..=u64::MAX, "at least 1")?;
                let settings = stage.settings().check();
                settings.map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", self.name())))
            }
            Self::Rl(stage) => {
                check_range(&key("groups"), stage.groups, 1..=65_536, "a number from 1 to 65536")?;
                check_range(&key("group_size"), stage.group_size, 1..=65_536, "a number from 1 to 65536")?;
                check_range(&key("temperature"), stage.temperature, 0.01..=100.0, "from 0.01 to 100")?;
                let sampling = stage.sampling().check();
                sampling.map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", stage.name)))?;
                check_range(&key("checkpoint_every"), stage.checkpoint_every, 1..=u64::MAX, "at least 1")?;
                check_range(
                    &key("dynamic_sampling.max_rounds"),
                    stage.dynamic_sampling.max_rounds,
                    0..=100,
                    "a number from 0 to 100",
                )?;
                check_range(&key("max_staleness"), stage.max_staleness, 0..=64, "a number from 0 to 64")?;
                check_range(
                    &key("oversample_groups"),
                    stage.oversample_groups,
                    0..=65_536,
                    "a number from 0 to 65536",
                )?;
                stage.check_order(deterministic)?;
                let plan = stage.plan.check(stage.group_size);
                plan.map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", stage.name)))?;
                if let Some(schedule) = stage.turns {
                    check_range(&key("turns.from"), schedule.from, 1..=100_000, "a number from 1 to 100000")?;
                    check_range(&key("turns.every"), schedule.every, 1..=u64::MAX, "at least 1")?;
                }
                stage.settings().map(drop)
            }
        }
    }
}

/// Replaces what the preset says. A table replaces single keys, unless it is of another `kind`; `"off"` takes a key away.
fn lay_over(flags: &mut toml::Table, settings: &toml::Table) {
    for (key, value) in settings {
        match (flags.get_mut(key), value) {
            (_, toml::Value::String(off)) if off == "off" => drop(flags.remove(key)),
            (Some(toml::Value::Table(preset)), toml::Value::Table(own))
                if own.get("kind").is_none_or(|kind| preset.get("kind") == Some(kind)) =>
            {
                preset.extend(own.clone());
            }
            _ => drop(flags.insert(key.clone(), value.clone())),
        }
    }
}
