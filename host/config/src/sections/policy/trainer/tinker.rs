//! `kind = "tinker"`: a server that samples from the run's policy and trains it.

use std::time::Duration;

use gymkhana_net::{Repeated, RequestPolicy, Retry};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use url::Url;

/// Delay before the first retry; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay between retries, including delays that the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Timeout of a request that computes nothing.
const ANSWER: Duration = Duration::from_secs(60);

/// Server that samples from the run's policy and trains it.
///
/// Requires `policy.checkpoint` for the tokenizer and the chat template. Stages are `sft`, and `rl` with a loss that is a
/// function of log-probabilities, of the policy and of the reference policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = kind)]
pub struct TinkerSection {
    /// Base URL, such as `http://127.0.0.1:8000`.
    #[schemars(extend("pattern" = "^https?://", "x-range" = "`http://` or `https://`"))]
    pub url: Url,
    /// Name of the base model on the server; may be absent if the server has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the server's only model"))]
    pub model: Option<String>,
    /// Environment variable with the server's API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Rank of the LoRA adapter that is trained.
    #[serde(default = "rank")]
    #[schemars(range(min = 1, max = 4096))]
    pub rank: u32,
    /// How the server adds up the losses of tokens.
    #[serde(default)]
    pub reduction: LossReduction,
    /// Longest time until a result of the server, in seconds.
    #[serde(default = "hour")]
    #[schemars(range(min = 1, max = 86400))]
    pub seconds: f64,
    /// Retries of a request that computes nothing.
    #[serde(default = "crate::sections::policy::default_retries")]
    #[schemars(range(max = 100))]
    pub retries: u32,
    /// Concurrent requests for tokens.
    #[serde(default = "crate::sections::policy::default_requests")]
    #[schemars(range(min = 1, max = 65_536))]
    pub requests: usize,
}

/// How a server adds up the losses of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossReduction {
    /// Sum over all tokens, as Tinker's service computes it.
    #[default]
    Sum,
    /// Mean over the positions of a sequence, then over sequences, as SkyRL's engine for JAX computes it. Advantages are
    /// multiplied by the length of their sequence, so that tokens keep their shares; each demonstration has the same share.
    SequenceMean,
}

fn rank() -> u32 {
    32
}

fn kind(schema: &mut Schema) {
    crate::sections::add_kind(
        schema,
        &["tinker"],
        "Protocol of the server: that of the official client 0.25 of Tinker.",
    );
}

pub(super) fn hour() -> f64 {
    3_600.0
}

impl TinkerSection {
    /// Timeout and retries of requests that compute nothing.
    #[must_use]
    pub fn request_policy(&self) -> RequestPolicy {
        let retry = Retry { retries: self.retries, first_delay: FIRST_PAUSE, max_delay: LONGEST_PAUSE };
        RequestPolicy { timeout: ANSWER, retry, repeated: Repeated::Passing }
    }

    /// Longest time until a result.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}
