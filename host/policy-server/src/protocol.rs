//! The protocols and what each of them can do.

use serde::{Deserialize, Serialize};

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// vLLM's completions, with token ids and log-probabilities.
    Vllm,
    /// SGLang's own `/generate`.
    Sglang,
    /// Completions of text, as OpenAI's API has them: without token ids, so that nothing can be learnt from them.
    Openai,
}

impl Protocol {
    /// Whether token ids and their log-probabilities come back, and weights can be updated.
    #[must_use]
    pub fn gives_tokens(self) -> bool {
        self != Self::Openai
    }
}

/// Of which distribution a server's log-probabilities are; it does not say so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogProbs {
    /// Of the model's own, at temperature 1: vLLM's default.
    #[default]
    Raw,
    /// Of the one that was drawn from: vLLM's `--logprobs-mode processed_logprobs`.
    Processed,
}
