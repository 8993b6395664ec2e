//! Protocols of inference servers and their capabilities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// vLLM's completions, with token ids and log-probabilities.
    Vllm,
    /// SGLang's own `/generate`.
    Sglang,
    /// OpenAI's text completions, without token ids and therefore not usable for training.
    Openai,
}

impl Protocol {
    /// Returns whether answers contain token ids and log-probabilities, and weights can be updated.
    #[must_use]
    pub fn gives_tokens(self) -> bool {
        self != Self::Openai
    }
}

/// Distribution of a server's log-probabilities, which the server does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogProbs {
    /// The model's distribution at temperature 1, which the stage's `temperature` must equal: vLLM's default.
    #[default]
    Raw,
    /// The sampled distribution: vLLM's `--logprobs-mode processed_logprobs`.
    Processed,
}
