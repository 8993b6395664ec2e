//! Policies on inference servers: vLLM and SGLang with token ids and log-probabilities, others with text only.
//!
//! Requests contain token ids and answers contain token ids with log-probabilities, so that training uses exactly the
//! sampled tokens. An answer that a model cannot have sampled is a fault of the server; it is retried and not recorded.
//! Weights are pushed by the server's own update call while no request is in progress, so that the version of every token
//! is known. Several servers of one model are one policy ([`ServerPool`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod models;
mod policy;
mod pool;
mod sglang;
mod text;
mod vllm;
mod weights;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::ServerError;
pub use models::{ServedModel, served_models};
pub use policy::{ServerPolicy, ServerSettings};
pub use pool::ServerPool;

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
