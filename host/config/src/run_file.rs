//! The run file as a whole: parsed, overlaid with `--set`, validated.
//!
//! Reading has three stages: text to a TOML table with `--set` laid over it, the table to typed sections that refuse
//! unknown keys, and a check of ranges and of relations between sections.

use std::collections::BTreeMap;
use std::path::Path;

use gymkhana_rollout::{ContextStrategy, TurnProbe};
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::range::{check_range, is_default};
use crate::sections::{
    EnvironmentSection, EvaluationSection, FailuresSection, LimitsSection, ModelSection, PluginSection, PolicySection,
    RewardSection, SandboxSection, SeatBinding, SeatSection, Stage, ToolSection,
};
use crate::{hint, overlay};

/// A whole run file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFile {
    /// The root of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// The same seed gives the same tokens, at the price of speed.
    #[serde(default)]
    pub deterministic: bool,
    /// Threads of libtorch; 1 when deterministic.
    #[serde(default = "one")]
    pub threads: usize,
    /// When an episode counts as solved: `environment.FACT` or `REWARD.COMPONENT`.
    pub success: String,
    /// The model.
    #[serde(default)]
    pub policy: PolicySection,
    /// Who plays the environment's seats, by their names; those that are left out share the policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seats: BTreeMap<String, SeatSection>,
    /// The environment's options and splits.
    #[serde(default)]
    pub environment: EnvironmentSection,
    /// Options of tools, by plugin name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSection>,
    /// Options and weights of rewards, by plugin name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rewards: BTreeMap<String, RewardSection>,
    /// What bounds an episode.
    #[serde(default)]
    pub limits: LimitsSection,
    /// What a seat's context goes on with once it grows long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub context: ContextStrategy,
    /// What the policy is asked to score in each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<TurnProbe>,
    /// What bounds a plugin's call.
    #[serde(default)]
    pub sandbox: SandboxSection,
    /// How far plugins are trusted and what they are granted, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, PluginSection>,
    /// The models that plugins may ask, by the name that the run file gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSection>,
    /// What failures cost and how many are too many.
    #[serde(default)]
    pub failures: FailuresSection,
    /// How success is measured.
    #[serde(default)]
    pub evaluation: EvaluationSection,
    /// What is done, in order.
    pub stages: Vec<Stage>,
}

fn one() -> usize {
    1
}

impl RunFile {
    /// Reads a run file and lays `--set key=value` over it.
    ///
    /// # Errors
    /// If the file cannot be read or says what cannot be.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, RunFileError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| RunFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, &path.display().to_string(), sets)
    }

    /// Parses a run file's text; `origin` names it in messages.
    ///
    /// # Errors
    /// If it says what cannot be.
    pub fn parse(text: &str, origin: &str, sets: &[String]) -> Result<Self, RunFileError> {
        let malformed = |error: &toml::de::Error| RunFileError::Malformed {
            origin: origin.to_owned(),
            message: hint::explain(&error.to_string()),
        };
        let table: toml::Table = toml::from_str(text).map_err(|error| malformed(&error))?;
        let with = |sets: &[String]| {
            let mut table = table.clone();
            sets.iter().try_for_each(|set| overlay::apply(&mut table, set))?;
            Ok(table.try_into::<Self>())
        };
        let error = match with(sets)? {
            Ok(file) => return file.check().map(|()| file),
            Err(error) => error,
        };
        // The value from which on the message is this one is to blame for it; without one it is the file itself.
        let mut blamed = sets.len();
        while blamed > 0 && with(&sets[..blamed - 1])?.is_err_and(|before| before.message() == error.message()) {
            blamed -= 1;
        }
        Err(match sets[..blamed].last() {
            Some(set) => RunFileError::Set { text: set.clone(), reason: hint::explain(error.message()) },
            // Parsed from its text, the message shows the line.
            None => malformed(&toml::from_str::<Self>(text).err().unwrap_or(error)),
        })
    }

    /// Refuses values out of range, and what sections say against each other.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), RunFileError> {
        check_range("threads", self.threads, 1..=256, "a number from 1 to 256")?;
        if self.deterministic && self.threads != 1 {
            let message = format!(
                "deterministic = true needs threads = 1, not {}: sums of several threads depend on their timing",
                self.threads
            );
            return Err(RunFileError::Contradiction(message));
        }
        if self.deterministic && self.policy.server.is_some() {
            let message =
                "deterministic = true cannot be kept by a server, whose batches are its own affair; leave it out";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        if self.stages.is_empty() {
            return Err(RunFileError::Contradiction("the run has no stage: add one [[stages]] section".to_owned()));
        }
        self.policy.check()?;
        self.seats.iter().try_for_each(|(name, seat)| seat.check(name, &self.policy))?;
        self.environment.check()?;
        self.rewards.iter().try_for_each(|(name, reward)| reward.check(name))?;
        self.limits.check()?;
        let context = self.context.check(self.limits.context_tokens.unwrap_or(usize::MAX));
        context.map_err(|error| RunFileError::Contradiction(error.to_string()))?;
        let weight = self.probe.as_ref().map_or(0.0, TurnProbe::weight);
        check_range("probe.weight", weight, -1e6..=1e6, "a number from -1000000 to 1000000")?;
        self.sandbox.check()?;
        self.plugins.iter().try_for_each(|(name, plugin)| plugin.check(name, &self.sandbox, &self.models))?;
        self.models.iter().try_for_each(|(name, model)| model.check(name, &self.plugins))?;
        self.failures.check()?;
        self.evaluation.check()?;
        for (index, stage) in self.stages.iter().enumerate() {
            if self.stages[..index].iter().any(|before| before.name() == stage.name()) {
                let message = format!("two stages are named `{}`: give one of them another `name`", stage.name());
                return Err(RunFileError::Contradiction(message));
            }
            stage.check(self.deterministic)?;
        }
        self.check_notes()
    }

    /// Refuses to train on what the policy's server says, where that is not enough to learn from.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check_learns_from_server(&self) -> Result<(), RunFileError> {
        match &self.policy.server {
            Some(server) => self.stages.iter().try_for_each(|stage| server.check_stage(stage)),
            None => Ok(()),
        }
    }

    /// Refuses oracles where policies are asked for notes, as they write none.
    fn check_notes(&self) -> Result<(), RunFileError> {
        if !self.context.asks_for_notes() {
            return Ok(());
        }
        let stage = self.stages.iter().find(|stage| matches!(stage, Stage::Sft(_)));
        let stage = stage.map(|stage| format!("stage `{}` learns from", stage.name()));
        let seat = self.seats.iter().find(|(_, section)| section.policy == SeatBinding::Oracle);
        let seat = seat.map(|(name, _)| format!("seats.{name} is played by"));
        match stage.or(seat) {
            Some(who) => Err(RunFileError::Contradiction(format!(
                "{who} an oracle, which writes no summaries: choose another context.strategy, or do without the oracle"
            ))),
            None => Ok(()),
        }
    }

    /// The file as it was understood, every default written out.
    ///
    /// # Errors
    /// Never in practice: all sections can be written as TOML.
    pub fn resolved(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }
}
