//! Sections of the environment, tools, rewards, limits, failures and evaluation.

use std::collections::BTreeMap;
use std::time::Duration;

use gymkhana_rollout::{EarlyStop, Schedule};
use gymkhana_trainer::{Accelerator, Lora, Precision, SftSettings, TinyModel};
use serde::{Deserialize, Serialize};

use super::{Checkpoint, ServerSection};
use crate::error::RunFileError;
use crate::range::{check_range, is_default};

/// The model: a tiny one from random weights, or a checkpoint folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// A folder in the Hugging Face layout, or a model on a hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// The size of a byte-level model from random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiny: Option<TinyModel>,
    /// The server that plays the policy, in place of the model's own engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSection>,
    /// The instruction before every conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// How many conversations are generated side by side.
    pub max_concurrent_sequences: usize,
    /// Where models live.
    #[serde(skip_serializing_if = "is_default")]
    pub device: Accelerator,
    /// What is computed in.
    #[serde(skip_serializing_if = "is_default")]
    pub precision: Precision,
    /// Adapters that learn in the place of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
    /// Tokens of one forward and backward pass; a step adds up as many passes as it needs.
    pub micro_batch_tokens: usize,
    /// Whether layers are computed once more on the way back, in the place of keeping all that they computed.
    #[serde(skip_serializing_if = "is_default")]
    pub activation_checkpointing: bool,
}

impl Default for PolicySection {
    fn default() -> Self {
        Self {
            checkpoint: None,
            tiny: None,
            server: None,
            system: None,
            max_concurrent_sequences: 64,
            device: Accelerator::default(),
            precision: Precision::default(),
            lora: None,
            micro_batch_tokens: SftSettings::default().micro_batch_tokens,
            activation_checkpointing: false,
        }
    }
}

impl PolicySection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range(
            "policy.max_concurrent_sequences",
            self.max_concurrent_sequences,
            1..=4096,
            "a number from 1 to 4096",
        )?;
        check_range("policy.micro_batch_tokens", self.micro_batch_tokens, 1..=1 << 24, "a number from 1 to 16777216")?;
        if let Some(lora) = &self.lora {
            lora.check().map_err(|error| RunFileError::Contradiction(format!("policy: {error}")))?;
        }
        if let Some(server) = &self.server {
            server.check(self.checkpoint.is_some())?;
        }
        match (&self.checkpoint, &self.tiny) {
            (Some(_), Some(_)) => {
                let message = "policy has both `checkpoint` and `tiny`; keep one: a checkpoint has its own size";
                Err(RunFileError::Contradiction(message.to_owned()))
            }
            (Some(checkpoint), None) => checkpoint.check("policy.checkpoint"),
            (None, Some(tiny)) => {
                tiny.check().map_err(|error| RunFileError::Contradiction(format!("policy.tiny: {error}")))
            }
            (None, None) => Ok(()),
        }
    }
}

/// Options as the run file writes them.
pub type Options = BTreeMap<String, toml::Value>;

/// The environment's options and splits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentSection {
    /// The split that is trained on.
    pub train: String,
    /// The split on which success is measured.
    pub eval: String,
    /// What the sum of the environment's own rewards counts.
    pub weight: f64,
    /// How the weight changes from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// A condition without which they count nothing, such as `answer-match.correct >= 0.5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The plugin's options.
    pub options: Options,
}

impl Default for EnvironmentSection {
    fn default() -> Self {
        Self {
            train: "train".to_owned(),
            eval: "test".to_owned(),
            weight: 1.0,
            schedule: None,
            gate: None,
            options: Options::new(),
        }
    }
}

impl EnvironmentSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_weight("environment", self.weight, self.schedule)
    }
}

/// Refuses a weight that would make sums of rewards infinite, or no numbers at all.
fn check_weight(section: &str, weight: f64, schedule: Option<Schedule>) -> Result<(), RunFileError> {
    check_range(&format!("{section}.weight"), weight, -1e6..=1e6, "a number from -1000000 to 1000000")?;
    let checked = schedule.map_or(Ok(()), |schedule| schedule.check());
    checked.map_err(|error| RunFileError::Contradiction(format!("{section}.schedule.{error}")))
}

/// A tool's options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSection {
    /// The plugin's options.
    pub options: Options,
}

/// A reward's weight and options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSection {
    /// Its total is multiplied by this before it is added.
    pub weight: f64,
    /// How the weight changes from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// A condition without which it counts nothing, such as `answer-match.correct >= 0.5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The plugin's options.
    pub options: Options,
}

impl Default for RewardSection {
    fn default() -> Self {
        Self { weight: 1.0, schedule: None, gate: None, options: Options::new() }
    }
}

impl RewardSection {
    pub(crate) fn check(&self, reward: &str) -> Result<(), RunFileError> {
        check_weight(&format!("rewards.{reward}"), self.weight, self.schedule)
    }
}

/// What bounds an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Turns of a policy.
    pub turns: u32,
    /// Tokens of one reply.
    pub reply_tokens: usize,
    /// Tokens of a context, prompt and replies together; by default as many as the model can take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<usize>,
    /// Calls of an episode.
    pub calls: u32,
    /// Wall-clock seconds of an episode.
    pub seconds: f64,
    /// When an episode is given up early.
    #[serde(skip_serializing_if = "is_default")]
    pub early_stop: EarlyStop,
    /// Texts with which a reply ends, wherever the policy says one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            turns: 8,
            reply_tokens: 256,
            context_tokens: None,
            calls: 32,
            seconds: 600.0,
            early_stop: EarlyStop::default(),
            stop: vec![],
        }
    }
}

impl LimitsSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("limits.turns", self.turns, 1..=100_000, "a number from 1 to 100000")?;
        check_range("limits.reply_tokens", self.reply_tokens, 1..=1_000_000, "a number from 1 to 1000000")?;
        let context = self.context_tokens.unwrap_or(2);
        check_range("limits.context_tokens", context, 2..=10_000_000, "a number from 2 to 10000000")?;
        check_range("limits.calls", self.calls, 1..=100_000, "a number from 1 to 100000")?;
        check_range("limits.seconds", self.seconds, 0.001..=1e6, "from 0.001 to 1000000 seconds")?;
        let EarlyStop { repeats, failed_calls } = self.early_stop;
        check_range("limits.early_stop.repeats", repeats.unwrap_or(1), 1..=u32::MAX, "at least 1")?;
        check_range("limits.early_stop.failed_calls", failed_calls.unwrap_or(1), 1..=u32::MAX, "at least 1")?;
        if self.stop.iter().any(String::is_empty) {
            let message = "limits.stop has an empty text, with which every reply would end at once; leave it out";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        Ok(())
    }
}

impl LimitsSection {
    /// Writes down how much context there is, so that a replay needs no model to know it.
    ///
    /// # Errors
    /// If the run file wants more than the model can take.
    pub fn fit_model(&mut self, context: usize) -> Result<(), RunFileError> {
        match self.context_tokens {
            Some(wanted) if wanted > context => Err(RunFileError::Contradiction(format!(
                "limits.context_tokens is {wanted}, but the model takes {context} tokens; lower it or leave it out"
            ))),
            _ => {
                self.context_tokens.get_or_insert(context);
                Ok(())
            }
        }
    }
}

impl From<&LimitsSection> for gymkhana_rollout::Limits {
    fn from(section: &LimitsSection) -> Self {
        Self {
            turns: section.turns,
            context_tokens: section.context_tokens.unwrap_or(usize::MAX),
            calls: section.calls,
            time: Duration::from_secs_f64(section.seconds),
            reply_tokens: section.reply_tokens,
            early_stop: section.early_stop,
        }
    }
}

/// What failures cost and how many are too many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailuresSection {
    /// The reward of an episode whose environment or reward plugin failed.
    pub reward: f64,
    /// The run stops when more than this share of the episodes met a failure that are played in one go (a step's, an
    /// evaluation's), or of a stage's so far; fewer than twenty are not judged.
    pub limit: f64,
    /// How often an episode is tried again after a fault that is no plugin's.
    pub retries: u32,
}

impl Default for FailuresSection {
    fn default() -> Self {
        Self { reward: 0.0, limit: 0.2, retries: 2 }
    }
}

impl FailuresSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("failures.reward", self.reward, -1e6..=1e6, "a number from -1000000 to 1000000")?;
        check_range("failures.limit", self.limit, 0.0..=1.0, "a share from 0 to 1")?;
        check_range("failures.retries", self.retries, 0..=100, "a number from 0 to 100")
    }
}

/// How success is measured, before and after each stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSection {
    /// Held-out tasks; 0 measures nothing.
    pub tasks: u64,
    /// Whether sampled success is measured beside greedy success.
    pub sampled: bool,
}

impl Default for EvaluationSection {
    fn default() -> Self {
        Self { tasks: 200, sampled: true }
    }
}

impl EvaluationSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("evaluation.tasks", self.tasks, 0..=1_000_000, "a number from 0 to 1000000")
    }
}
