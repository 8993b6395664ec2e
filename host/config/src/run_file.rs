//! The run file as a whole: parsed, overlaid with `--set`, validated.
//!
//! Reading has three stages: text to a TOML table with `--set` laid over it, the table to typed sections that refuse
//! unknown keys, and a check of ranges and of relations between sections.

mod environments;
mod trainer;

use gymkhana_algorithm::RlSettings;
use gymkhana_rules::{ContextStrategy, SamplingPlan, TurnProbe};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::episode_rules::EpisodeRules;
use crate::error::RunFileError;

use crate::checks::is_default;
use crate::recorder::Recorder;
use crate::sections::{
    AgentSection, CheckpointsSection, EnvironmentEntry, EvaluationSection, GatewaySection, PolicySection, RlStage,
    SamplerSection, SeatBinding, Stage, TrainerSection,
};

pub use environments::EnvironmentSettings;
pub(crate) use environments::only_one_form;

/// The message about a run file without stages.
const NO_STAGE: &str = "the run file has no stage\nhint: add `[[stages]]` with `kind = \"sft\"` or `kind = \"rl\"`";

/// A run file of Gymkhana.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunFile {
    /// Rules of the episodes; of several environments, what they have in common.
    #[serde(skip)]
    pub rules: EpisodeRules,
    /// Root seed of all random numbers.
    pub seed: u64,
    /// Same seed, same tokens, at lower speed. Requires `threads = 1`, `policy.device = "cpu"`, `max_staleness = 0` and
    /// `oversample_groups = 0`; excludes `policy.server`.
    pub deterministic: bool,
    /// Threads of libtorch; 1 if `deterministic`.
    #[schemars(range(min = 1, max = 256))]
    pub threads: usize,
    /// Policy of the run: its weights, its size and the device that computes it.
    pub policy: PolicySection,
    /// Server that trains the policy instead of this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainer: Option<TrainerSection>,
    /// Environments of a run with several. Excludes `[environment]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<EnvironmentEntry>,
    /// Sampler of training tasks.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-default" = "`{ kind = \"shuffled\" }`"))]
    pub sampler: SamplerSection,
    /// Agent program that plays the episodes of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSection>,
    /// Sessions of `host gateway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySection>,
    /// Turn probe: a text that the policy scores in each turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<TurnProbe>,
    /// Evaluation on held-out tasks.
    pub evaluation: EvaluationSection,
    /// Checkpoints that the run keeps.
    pub checkpoints: CheckpointsSection,
    /// Program that recorded the episodes, in the run file of a folder that no run wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "a run"))]
    pub recorder: Option<Recorder>,
    /// Training stages, in order, each with its own name. A run has at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
}

impl Default for RunFile {
    fn default() -> Self {
        Self {
            rules: EpisodeRules::default(),
            seed: 0,
            deterministic: false,
            threads: 1,
            policy: PolicySection::default(),
            trainer: None,
            environments: vec![],
            sampler: SamplerSection::default(),
            agent: None,
            gateway: None,
            probe: None,
            evaluation: EvaluationSection::default(),
            checkpoints: CheckpointsSection::default(),
            recorder: None,
            stages: vec![],
        }
    }
}

impl From<EpisodeRules> for RunFile {
    /// A run file that trains nothing.
    fn from(rules: EpisodeRules) -> Self {
        Self { rules, ..Self::default() }
    }
}

impl RunFile {
    /// The run file of a folder of records.
    #[must_use]
    pub fn of_recorder(recorder: Recorder, rules: EpisodeRules) -> Self {
        Self { recorder: Some(recorder), ..Self::from(rules) }
    }

    /// The file with defaults that depend on other keys written out, if it passes its checks.
    pub(crate) fn checked(mut self) -> Result<Self, RunFileError> {
        self.write_out_environments();
        self.check()?;
        if self.policy.checkpoint.is_none() {
            self.policy.tiny.get_or_insert_default();
        }
        for stage in &mut self.stages {
            if let Stage::Rl(stage) = stage {
                stage.write_out_flags()?;
            }
        }
        Ok(self)
    }

    /// Checks relations between sections. Parsing checked types and bounds.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), RunFileError> {
        if self.deterministic && self.threads != 1 {
            let message = format!(
                "deterministic = true requires threads = 1, not {}: sums over several threads depend on timing\nhint: \
                 set threads = 1, or deterministic = false",
                self.threads
            );
            return Err(RunFileError::Contradiction(message));
        }
        if self.deterministic && self.policy.server.is_some() {
            let message = "deterministic = true excludes policy.server, which batches requests by timing\nhint: set \
                           deterministic = false";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        self.policy.check()?;
        self.rules.seats.iter().try_for_each(|(name, seat)| seat.check(name, &self.policy))?;
        self.rules.check()?;
        for own in self.environment_settings() {
            let of = own.name.map(|name| format!("environments.{name}: ")).unwrap_or_default();
            own.rules.check_context(&of)?;
        }
        self.evaluation.check()?;
        self.evaluation.check_weights(&self.stages, self.policy.server.is_some())?;
        for (index, stage) in self.stages.iter().enumerate() {
            if self.stages[..index].iter().any(|before| before.name() == stage.name()) {
                let message = format!("two stages are named `{}`\nhint: set another `name`", stage.name());
                return Err(RunFileError::Contradiction(message));
            }
            stage.check(self.deterministic)?;
        }
        self.check_stage_seats()?;
        self.check_environments()?;
        self.check_samplers()?;
        self.check_evaluation_metric()?;
        if let Some(trainer) = &self.trainer {
            self.check_trainer(trainer)?;
        }
        self.check_notes()?;
        self.check_agent()
    }

    /// Rejects a run file that trains nothing.
    ///
    /// # Errors
    /// If it has no stage.
    pub fn check_trains(&self) -> Result<(), RunFileError> {
        if self.stages.is_empty() { Err(RunFileError::Contradiction(NO_STAGE.to_owned())) } else { Ok(()) }
    }

    /// Rejects settings of a stage for seats without a model of their own, and models in turn in a run of one.
    fn check_stage_seats(&self) -> Result<(), RunFileError> {
        let is_separate =
            |seat: &String| self.rules.seats.get(seat).is_some_and(|own| own.policy == SeatBinding::Separate);
        for stage in self.stages.iter().filter_map(Stage::as_rl) {
            let of_files = stage.recorded.as_ref().is_some_and(|recorded| !recorded.files.is_empty());
            if of_files && !self.rules.seats.is_empty() {
                return Err(RunFileError::Contradiction(format!(
                    "stage `{}`: recorded.files has answers of one seat, but [seats] tells seats apart\nhint: use \
                     recorded.runs, or remove [seats]",
                    stage.name
                )));
            }
            if let Some(seat) = stage.seats.keys().find(|seat| !is_separate(seat)) {
                return Err(RunFileError::Contradiction(format!(
                    "stage `{}`: seats.{seat} is set, but the seat has no model of its own\nhint: set \
                     seats.{seat}.policy to \"separate\", or remove the stage's seats.{seat}",
                    stage.name
                )));
            }
            if stage.alternate_every > 0 && !self.rules.seats.keys().any(is_separate) {
                return Err(RunFileError::Contradiction(format!(
                    "stage `{}`: alternate_every is {}, but the run trains one model\nhint: set the `policy` of a seat \
                     to \"separate\", or remove alternate_every",
                    stage.name, stage.alternate_every
                )));
            }
        }
        Ok(())
    }

    /// Trainer settings of a stage for the model of a `separate` seat, or for the run's policy.
    ///
    /// # Errors
    /// As [`RlStage::settings`].
    pub fn settings_of_model(&self, stage: &RlStage, seat: Option<&str>) -> Result<RlSettings, RunFileError> {
        let Some(seat) = seat else { return stage.settings() };
        let settings = stage.settings_of_seat(seat)?;
        // The loss uses the temperature at which the seat's tokens are sampled.
        let own = self.rules.seats.get(seat).and_then(|section| section.temperature).map(f64::from);
        Ok(RlSettings { temperature: own.unwrap_or(settings.temperature), ..settings })
    }

    /// Rejects training stages that cannot learn from the responses of the policy's server.
    ///
    /// # Errors
    /// The first stage that cannot be trained.
    pub fn check_learns_from_server(&self) -> Result<(), RunFileError> {
        match &self.policy.server {
            Some(server) => self.stages.iter().try_for_each(|stage| server.check_stage(stage)),
            None => Ok(()),
        }
    }

    /// Rejects oracles under a context strategy that asks for notes, because oracles write none.
    fn check_notes(&self) -> Result<(), RunFileError> {
        if !self.environment_settings().iter().any(|own| own.rules.context.asks_for_notes()) {
            return Ok(());
        }
        let stage = self.stages.iter().find(|stage| stage.has_demonstrations());
        let stage = stage.map(|stage| format!("stage `{}` learns from", stage.name()));
        let seat = self.rules.seats.iter().find(|(_, section)| section.policy == SeatBinding::Oracle);
        let seat = seat.map(|(name, _)| format!("seats.{name} is played by"));
        match stage.or(seat) {
            Some(who) => Err(RunFileError::Contradiction(format!(
                "{who} an oracle, which writes no summaries\nhint: choose another context.strategy, or remove the \
                 oracle"
            ))),
            None => Ok(()),
        }
    }

    /// Rejects what an agent program excludes: it decides itself about its context and its tools, it starts at the
    /// beginning, and its timing is its own.
    fn check_agent(&self) -> Result<(), RunFileError> {
        let Some(agent) = &self.agent else { return Ok(()) };
        agent.check()?;
        let plain = |stage: &&Stage| match stage {
            Stage::Sft(_) | Stage::BestOfN(_) => true,
            Stage::Rl(stage) => !matches!(stage.plan, SamplingPlan::Branch(_) | SamplingPlan::Prefixes(_)),
        };
        let excluded = [
            (self.deterministic, "deterministic = true", "set deterministic = false"),
            (
                self.environment_settings().iter().any(|own| own.rules.context != ContextStrategy::default()),
                "another context strategy than `append`",
                "remove [context]",
            ),
            (self.probe.is_some(), "[probe]", "remove [probe]"),
            (!self.stages.iter().all(|stage| plain(&stage)), "a plan that forks episodes", "choose another plan.kind"),
        ];
        match excluded.into_iter().find(|(found, _, _)| *found) {
            Some((_, what, hint)) => Err(RunFileError::Contradiction(format!("[agent] excludes {what}\nhint: {hint}"))),
            None => Ok(()),
        }
    }
}
