//! `rl`, `dpo`, `kto` and `distill` stages: the algorithm, the groups of a step, sampling and the optimiser.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gymkhana_algorithm::{
    Algorithm, Demonstrations, GroupBy, KlPlace, Optimizer, Preset, Replay, RlSettings, SharedTurns, Surrogate,
};
use gymkhana_policy::Sampling;
use gymkhana_rules::SamplingPlan;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::{RecordedPreferences, StageSeat, TurnSchedule, add_kind};
use crate::checks::check_schedule;
use crate::error::RunFileError;
use crate::parse::wording;

/// Default of `step_divergence`: studies/holding.md.
const STEP_DIVERGENCE: f64 = 1e-4;

fn rl_kind(schema: &mut Schema) {
    add_kind(schema, &["rl", "dpo", "kto", "distill"], super::KIND);
}

/// Dynamic sampling (DAPO): zero-variance groups are replaced by groups of other tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicSampling {
    /// Rounds per step that replace zero-variance groups by groups of other tasks (DAPO); 0 keeps every group.
    #[schemars(range(max = 100))]
    pub max_rounds: u32,
}

/// Reinforcement learning on the policy's own episodes. `dpo`, `kto` and `distill` are `rl` stages with another
/// default of `algorithm`.
///
/// `top_k`, `top_p` and `min_p` affect sampling but not the distribution in the loss, which biases training: a baseline no
/// longer cancels, and ratios lack the probability of the kept tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = rl_kind)]
pub struct RlStage {
    /// Name of the stage in metrics and in `--set stages.NAME.KEY=VALUE`.
    #[serde(default)]
    #[schemars(
        skip_serializing_if = "String::is_empty",
        extend("x-range" = "unique in the run", "x-default" = "the stage's `kind`")
    )]
    pub name: String,
    /// Algorithm preset.
    #[serde(default)]
    #[schemars(
        skip_serializing_if = "String::is_empty",
        extend(
            "enum" = Preset::names().collect::<Vec<_>>(),
            "x-range" = "a [preset](#presets)",
            "x-default" = "`\"loop\"`, `\"dpo\"`, `\"kto\"` or `\"distill\"`, by `kind`",
        )
    )]
    pub algorithm: String,
    /// Algorithm flags that override the preset's. A table overrides single keys unless its `kind` differs; `"off"`
    /// removes a flag.
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(!skip_serializing_if, with = "Algorithm")]
    pub settings: toml::Table,
    /// Folder of the teacher model; required by algorithms that distil, rejected by others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a folder"))]
    pub teacher: Option<PathBuf>,
    /// Training steps.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub steps: u64,
    /// Groups per step, each of another task.
    #[schemars(range(min = 1, max = 65_536))]
    pub groups: u32,
    /// Episodes per group.
    #[schemars(range(min = 1, max = 65_536))]
    pub group_size: u32,
    /// Sampling plan of a group: how its episodes start, branch and are selected.
    pub plan: SamplingPlan,
    /// Replacement of zero-variance groups (DAPO's dynamic sampling).
    pub dynamic_sampling: DynamicSampling,
    /// Maximum number of training steps between sampling a token and training on it; 0 alternates rollout and training,
    /// larger values overlap them.
    #[schemars(range(max = 64))]
    pub max_staleness: u32,
    /// Extra groups started per step; the last groups to finish are cancelled. Requires
    /// `dynamic_sampling.max_rounds = 0`.
    #[schemars(range(max = 65_536))]
    pub oversample_groups: u32,
    /// Curriculum on turns (ScalingInter-RL).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`limits.turns` in every step"))]
    pub turns: Option<TurnSchedule>,
    /// Number of steps for which one trained model learns before the next does, the run's policy first (MARFT's training
    /// agent by agent); 0 trains all models in every step. A model's learning rate counts the steps in which it learns.
    #[schemars(range(max = 1_000_000))]
    pub alternate_every: u64,
    /// Sampling temperature; the loss uses the same one.
    #[schemars(range(min = 0.01, max = 100))]
    pub temperature: f32,
    /// Sampling among the `top_k` most probable tokens; 0 and -1 disable the cut.
    #[serde(deserialize_with = "gymkhana_policy::deserialize_top_k")]
    #[schemars(range(min = -1))]
    pub top_k: u32,
    /// Nucleus sampling: share of probability of the kept tokens; 1 disables the cut.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub top_p: f32,
    /// Minimum probability of a sampled token relative to the most probable one; 0 disables the cut.
    #[schemars(range(min = 0, max = 1))]
    pub min_p: f32,
    /// Supervised loss on demonstrations in every step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demonstrations: Option<Demonstrations>,
    /// Preferences from recorded episodes or from files; only with `dpo`, `kto` or another loss over preferences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedPreferences>,
    /// Steps between checkpoints; the last step always writes one.
    #[schemars(range(min = 1))]
    pub checkpoint_every: u64,
    /// Control experiment: shuffles rewards within the batch, which removes the learning signal.
    pub shuffle_rewards: bool,
    /// Largest divergence between the policy after an optimiser step and before it, in nats per token; a step beyond it is
    /// shortened to about it. Of a batch in which only a share of the episodes has an advantage, the bound is that share
    /// of it: few groups that differ do not outweigh many that are solved. 0 sets no bound. AdamW's first steps have the length that the learning rate sets, however small the
    /// gradient, and may undo what a policy does well. No effect with a loss over whole episodes or from a teacher, and
    /// with `[trainer]`.
    #[schemars(range(min = 0))]
    pub step_divergence: f64,
    /// Optimiser and learning rate.
    pub optimizer: Optimizer,
    /// Optimiser and flags of `separate` seats' own models, by seat name, where they differ from the stage's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!skip_serializing_if)]
    pub seats: BTreeMap<String, StageSeat>,
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
            alternate_every: 0,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            demonstrations: None,
            recorded: None,
            checkpoint_every: 1,
            shuffle_rewards: false,
            step_divergence: STEP_DIVERGENCE,
            optimizer: RlSettings::default().optimizer,
            seats: BTreeMap::new(),
        }
    }
}

impl RlStage {
    /// Fills in the name and the algorithm that the stage's kind implies.
    pub(super) fn named(mut self, name: &str, algorithm: &str) -> Self {
        for (own, word) in [(&mut self.name, name), (&mut self.algorithm, algorithm)] {
            if own.is_empty() {
                word.clone_into(own);
            }
        }
        self
    }

    /// Writes out all flags of the algorithm, and `"off"` for those of the preset that the stage removes.
    ///
    /// # Errors
    /// As [`RlStage::settings`].
    pub(crate) fn write_out_flags(&mut self) -> Result<(), RunFileError> {
        let algorithm = self.settings()?.algorithm;
        let mut flags = toml::Table::try_from(&algorithm)
            .map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", self.name)))?;
        for key in self.preset()?.flags().keys() {
            flags.entry(key).or_insert_with(|| toml::Value::String(OFF.to_owned()));
        }
        self.settings = flags;
        Ok(())
    }

    /// Sampling of the stage's tokens.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let Self { temperature, top_k, top_p, min_p, .. } = *self;
        Sampling { temperature, top_k, top_p, min_p }
    }

    /// Upper bound on the tasks of one step.
    #[must_use]
    pub fn tasks_of_step(&self) -> u64 {
        u64::from(self.groups) * (u64::from(self.dynamic_sampling.max_rounds) + 1) + u64::from(self.oversample_groups)
    }

    /// Place of the model that learns in a step, among `models` trained ones; `None` if all of them learn.
    #[must_use]
    pub fn learner(&self, step: u64, models: usize) -> Option<usize> {
        let turn = step.checked_div(self.alternate_every)?;
        turn.checked_rem(models as u64).map(|place| place as usize)
    }

    pub(super) fn check(&self, deterministic: bool) -> Result<(), RunFileError> {
        let sampling = self.sampling().check();
        sampling.map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", self.name)))?;
        self.check_order(deterministic)?;
        let plan = self.plan.check(self.group_size);
        plan.map_err(|error| RunFileError::Contradiction(format!("stage `{}`: {error}", self.name)))?;
        let algorithm = self.settings()?.algorithm;
        check_schedule(&self.name, &self.optimizer, algorithm.optimizer_steps(self.steps))?;
        match &self.recorded {
            Some(recorded) => self.check_recorded(recorded, &algorithm)?,
            None => self.check_group(&algorithm)?,
        }
        self.check_reference_point(&self.name, &algorithm)?;
        self.check_seats(&algorithm)
    }

    /// Rejects flags of seats that decide which episodes are played or compared, since all models share the groups, and
    /// a teacher that no model of the stage uses.
    fn check_seats(&self, algorithm: &Algorithm) -> Result<(), RunFileError> {
        let mut wants_teacher = algorithm.wants_teacher();
        for seat in self.seats.keys() {
            let own = self.settings_of_seat(seat)?;
            wants_teacher |= own.algorithm.wants_teacher();
            let who = format!("{}`, seat `{seat}", self.name);
            check_schedule(&who, &own.optimizer, own.algorithm.optimizer_steps(self.steps))?;
            self.check_group(&own.algorithm)?;
            self.check_reference_point(&who, &own.algorithm)?;
            let shared = [
                (own.algorithm.group_by != algorithm.group_by, "group_by"),
                (own.algorithm.shared_turns != algorithm.shared_turns, "shared_turns"),
                (own.algorithm.replay != algorithm.replay, "replay"),
                (own.algorithm.pairs() != algorithm.pairs(), "surrogate"),
            ];
            if let Some((_, flag)) = shared.into_iter().find(|(differs, _)| *differs) {
                return Err(RunFileError::Contradiction(format!(
                    "stage `{who}`: settings.{flag} differs from the stage's, but all seats learn from the same \
                     groups\nhint: set {flag} in the stage's settings, or remove it"
                )));
            }
        }
        if self.teacher.is_some() && !wants_teacher {
            return Err(RunFileError::Contradiction(format!(
                "stage `{}`: algorithm `{}` uses no teacher, but `teacher` is set\nhint: remove `teacher`",
                self.name, self.algorithm
            )));
        }
        Ok(())
    }

    /// Rejects settings that make training data depend on timing, and settings that exclude each other.
    fn check_order(&self, deterministic: bool) -> Result<(), RunFileError> {
        let contradiction = |why: &str| Err(RunFileError::Contradiction(format!("stage `{}`: {why}", self.name)));
        match (self.max_staleness, self.oversample_groups, self.dynamic_sampling.max_rounds) {
            (1.., _, _) if deterministic => contradiction(
                "max_staleness must be 0 under deterministic = true: the moment of a weight update depends on \
                 timing\nhint: set max_staleness = 0, or deterministic = false",
            ),
            (_, 1.., _) if deterministic => contradiction(
                "oversample_groups must be 0 under deterministic = true: the order in which groups finish depends on \
                 timing\nhint: set oversample_groups = 0, or deterministic = false",
            ),
            (_, 1.., 1..) => contradiction(
                "oversample_groups and dynamic_sampling exclude each other: one cancels groups, the other adds \
                 groups\nhint: remove one of them",
            ),
            _ => Ok(()),
        }
    }

    /// Rejects minibatches of one episode under a loss that compares replies with those to other episodes' prompts.
    fn check_reference_point(&self, who: &str, algorithm: &Algorithm) -> Result<(), RunFileError> {
        let each = if self.recorded.is_some() { 1 } else { u64::from(self.group_size) };
        let episodes = u64::from(self.groups) * each;
        let is_unpaired = matches!(algorithm.surrogate, Surrogate::UnpairedPreference { .. });
        if is_unpaired && self.dynamic_sampling.max_rounds > 0 {
            return Err(RunFileError::Contradiction(format!(
                "stage `{who}`: dynamic_sampling replaces groups of equal rewards, which teach with surrogate.kind = \
                 \"unpaired-preference\"\nhint: remove dynamic_sampling"
            )));
        }
        if !is_unpaired || episodes >= 2 * u64::from(algorithm.minibatches) {
            return Ok(());
        }
        Err(RunFileError::Contradiction(format!(
            "stage `{who}`: surrogate.kind = \"unpaired-preference\" compares each episode with replies of others in its \
             minibatch, but a step has minibatches = {} and this number of episodes: {episodes}\nhint: set groups to {} or \
             more",
            algorithm.minibatches,
            (2 * u64::from(algorithm.minibatches)).div_ceil(each.max(1)),
        )))
    }

    /// Rejects groups of one episode under an algorithm that compares the episodes of a group: all of its advantages
    /// would be 0.
    fn check_group(&self, algorithm: &Algorithm) -> Result<(), RunFileError> {
        // A single episode is also compared with its other seats, with its guided attempts or with an earlier success.
        let has_others = algorithm.group_by == GroupBy::All
            || matches!(self.plan, SamplingPlan::Guided(_))
            || matches!(algorithm.replay, Some(Replay::Backfill { .. }));
        if self.group_size > 1 || !algorithm.needs_groups() || has_others {
            return Ok(());
        }
        Err(RunFileError::Contradiction(format!(
            "stage `{}`: group_size is 1, but algorithm `{}` compares the episodes of a group, so nothing would be \
             learned\nhint: set group_size to 2 or more, or choose an algorithm without a group baseline, such as \
             `reinforce++` or `ppo`",
            self.name, self.algorithm
        )))
    }

    /// The preset of the stage's algorithm.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn preset(&self) -> Result<Preset, RunFileError> {
        Preset::named(&self.algorithm).map_err(|error| {
            let near = gymkhana_nearest::did_you_mean(&self.algorithm, Preset::names());
            RunFileError::Contradiction(format!("stage `{}`: {error}{near}", self.name))
        })
    }

    /// Trainer settings of the run's policy: the preset, overlaid with this stage's flags.
    ///
    /// # Errors
    /// If the preset does not exist, or a flag is unknown or out of range.
    pub fn settings(&self) -> Result<RlSettings, RunFileError> {
        self.overlaid(None)
    }

    /// Trainer settings of a `separate` seat's model: those of the stage, overlaid with the seat's.
    ///
    /// # Errors
    /// As [`RlStage::settings`].
    pub fn settings_of_seat(&self, seat: &str) -> Result<RlSettings, RunFileError> {
        self.overlaid(self.seats.get_key_value(seat))
    }

    /// Settings with those of a seat laid over them, if any.
    fn overlaid(&self, seat: Option<(&String, &StageSeat)>) -> Result<RlSettings, RunFileError> {
        let of_seat = seat.map(|(name, _)| format!(", seat `{name}`")).unwrap_or_default();
        let contradiction =
            |message: String| RunFileError::Contradiction(format!("stage `{}`{of_seat}: {message}", self.name));
        let mut flags = self.preset()?.flags().clone();
        lay_over(&mut flags, &self.settings);
        let mut optimizer = self.optimizer.clone();
        if let Some((_, own)) = seat {
            lay_over(&mut flags, &own.settings);
            optimizer = own.optimizer_over(&optimizer).map_err(contradiction)?;
        }
        let algorithm: Algorithm = flags
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| contradiction(wording::explain(error.message(), |_| None)))?;
        let (demonstrations, temperature) = (self.demonstrations, f64::from(self.temperature));
        let is_bounded = self.step_divergence > 0.0 && !algorithm.of_whole_episodes() && !algorithm.distils();
        let step_divergence = is_bounded.then_some(self.step_divergence);
        let others = RlSettings::default();
        let settings = RlSettings { optimizer, algorithm, demonstrations, step_divergence, temperature, ..others };
        settings.check().map_err(|error| contradiction(error.to_string()))?;
        let forks = matches!(self.plan, SamplingPlan::Branch(_) | SamplingPlan::Prefixes(_));
        let whole = settings.algorithm.length_penalty.is_some()
            || settings.algorithm.kl.is_some_and(|kl| kl.place == KlPlace::Reward);
        let once = settings.algorithm.shared_turns == SharedTurns::Once;
        if !forks && !once {
            let message =
                "`shared_turns` has an effect only with a plan that forks (`branch`, `prefixes`)\nhint: remove it";
            return Err(contradiction(message.to_owned()));
        }
        if forks && whole && once {
            let message = "`length_penalty` and `kl.place = \"reward\"` need all tokens of an episode, but forked \
                           episodes train on shared tokens once\nhint: use another plan, remove them, or set \
                           settings.shared_turns = \"per-episode\"";
            return Err(contradiction(message.to_owned()));
        }
        if settings.algorithm.wants_teacher() && self.teacher.is_none() {
            let message = format!(
                "algorithm `{}` needs a teacher\nhint: set `teacher` to the folder of its model",
                self.algorithm
            );
            return Err(contradiction(message));
        }
        Ok(settings)
    }
}

/// Value of a flag that removes it from the preset.
pub(super) const OFF: &str = "off";

/// Overlays the preset with the stage's flags. A table overrides single keys unless its `kind` differs; `"off"` removes
/// a key.
pub(super) fn lay_over(flags: &mut toml::Table, settings: &toml::Table) {
    for (key, value) in settings {
        match (flags.get_mut(key), value) {
            (_, toml::Value::String(off)) if off == OFF => drop(flags.remove(key)),
            (Some(toml::Value::Table(preset)), toml::Value::Table(own))
                if own.get("kind").is_none_or(|kind| preset.get("kind") == Some(kind)) =>
            {
                preset.extend(own.clone());
            }
            _ => drop(flags.insert(key.clone(), value.clone())),
        }
    }
}
