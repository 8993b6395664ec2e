//! `[limits]`: limits of an episode.

use std::time::Duration;

use gymkhana_rules::{DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;

/// Limits of one episode. After each turn they are checked in the order turns, context, calls, time, early stop. With a
/// context strategy other than `append`, the context is checked last, before the next turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// Turns per seat, including summaries.
    #[schemars(range(min = 1, max = 100_000))]
    pub turns: u32,
    /// Tokens per reply; a longer reply is cut.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub reply_tokens: usize,
    /// Tokens of the thoughts in a reply; a reply that still thinks then is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("x-default" = "`limits.reply_tokens`"))]
    pub reasoning_tokens: Option<usize>,
    /// Tokens per context, prompt and replies together; at most the model's context length.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10_000_000), extend("x-default" = "the model's context length"))]
    pub context_tokens: Option<usize>,
    /// Function calls of all seats.
    #[schemars(range(min = 1, max = 100_000))]
    pub calls: u32,
    /// Wall-clock time in seconds.
    #[schemars(range(min = 0.001, max = 1_000_000))]
    pub seconds: f64,
    /// Size of the record of one episode in MiB, as far as plugins cause it: observations, answers, function
    /// descriptions, outbound calls. A plugin that returns more fails.
    #[schemars(range(min = 1, max = 128))]
    pub episode_mib: u64,
    /// Size of the records of all live episodes in MiB, counted like `episode_mib`. While they hold more, turns wait.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub live_mib: u64,
    /// Conditions that end an episode early.
    pub early_stop: EarlyStop,
    /// Stop texts: a reply ends with the first of them that it contains.
    #[schemars(inner(length(min = 1)), extend("x-range" = "texts that are not empty"))]
    pub stop: Vec<String>,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            turns: 8,
            reply_tokens: 256,
            reasoning_tokens: None,
            context_tokens: None,
            calls: 32,
            seconds: 600.0,
            episode_mib: DEFAULT_EPISODE_BYTES >> 20,
            live_mib: DEFAULT_LIVE_BYTES >> 20,
            early_stop: EarlyStop::default(),
            stop: vec![],
        }
    }
}

impl LimitsSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        if self.stop.iter().any(String::is_empty) {
            let message = "limits.stop has an empty text, which would end every reply at once\nhint: remove it";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        Ok(())
    }

    /// Checks that a model of this context length, in tokens, has room for the run file's contexts.
    ///
    /// # Errors
    /// If the run file exceeds the model's context length.
    pub fn check_model(&self, context: usize) -> Result<(), RunFileError> {
        match self.context_tokens {
            Some(wanted) if wanted > context => Err(RunFileError::Contradiction(format!(
                "limits.context_tokens is {wanted}, but the model's context length is {context} tokens\nhint: lower it \
                 or remove it"
            ))),
            _ => Ok(()),
        }
    }

    /// Sets the context length if it is unset, so that a replay needs no model.
    ///
    /// # Errors
    /// If the run file exceeds the model's context length.
    pub fn fit_model(&mut self, context: usize) -> Result<(), RunFileError> {
        self.check_model(context)?;
        self.context_tokens.get_or_insert(context);
        Ok(())
    }
}

impl From<&LimitsSection> for gymkhana_rules::Limits {
    fn from(section: &LimitsSection) -> Self {
        Self {
            turns: section.turns,
            context_tokens: section.context_tokens.unwrap_or(usize::MAX),
            calls: section.calls,
            time: Duration::from_secs_f64(section.seconds),
            episode_bytes: section.episode_mib << 20,
            live_bytes: section.live_mib << 20,
            reply_tokens: section.reply_tokens,
            reasoning_tokens: section.reasoning_tokens,
            early_stop: section.early_stop,
        }
    }
}
