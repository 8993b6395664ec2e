//! The server that plays the run's policy.

use std::time::Duration;

use gymkhana_net::{RequestPolicy, Retry};
use gymkhana_policy_server::{LogProbs, Protocol};
use serde::{Deserialize, Serialize};
use url::Url;

use super::Stage;
use crate::error::RunFileError;
use crate::range::{check_range, is_default};

/// The pause before a server is asked again; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, also where the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A server that generates in place of the model's own engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSection {
    /// Where it is, without the version: `http://127.0.0.1:8000`.
    pub url: Url,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// What it calls the model.
    pub name: String,
    /// The environment variable that holds the server's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Of which distribution its log-probabilities are; for vLLM, as its `--logprobs-mode` says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logprobs: LogProbs,
    /// Seconds that one answer may take.
    #[serde(default = "ten_minutes")]
    pub seconds: f64,
    /// Seconds that it may take to load new weights.
    #[serde(default = "ten_minutes")]
    pub update_seconds: f64,
    /// How often it is asked again when it fails.
    #[serde(default = "six")]
    pub retries: u32,
    /// How many requests it has at once.
    #[serde(default = "many")]
    pub requests: usize,
}

fn ten_minutes() -> f64 {
    600.0
}

fn six() -> u32 {
    6
}

fn many() -> usize {
    256
}

impl ServerSection {
    /// Refuses values out of range; `has_checkpoint` is whether the policy names the folder of a model.
    pub(crate) fn check(&self, has_checkpoint: bool) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        if !matches!(self.url.scheme(), "http" | "https") {
            return contradiction(format!(
                "policy.server.url is `{}`; it must begin with http:// or https://",
                self.url
            ));
        }
        if !has_checkpoint {
            return contradiction(
                "policy.server is set without policy.checkpoint: tokens, chat template and the weights to begin with come \
                 from the folder of the model that the server serves; name it"
                    .to_owned(),
            );
        }
        if self.logprobs != LogProbs::Raw && self.protocol != Protocol::Vllm {
            return contradiction("policy.server.logprobs is for protocol = \"vllm\" alone; leave it out".to_owned());
        }
        let words = "from 0.001 to 86400 seconds";
        check_range("policy.server.seconds", self.seconds, 0.001..=86_400.0, words)?;
        check_range("policy.server.update_seconds", self.update_seconds, 0.001..=86_400.0, words)?;
        check_range("policy.server.retries", self.retries, 0..=100, "a number from 0 to 100")?;
        check_range("policy.server.requests", self.requests, 1..=65_536, "a number from 1 to 65536")
    }

    /// Refuses a stage that cannot learn from what this server says.
    pub(crate) fn check_stage(&self, stage: &Stage) -> Result<(), RunFileError> {
        let name = stage.name();
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        if !self.protocol.gives_tokens() {
            return contradiction(format!(
                "stage `{name}` trains, and policy.server.protocol is \"openai\", which gives texts without token ids and \
                 log-probabilities: use a vLLM or SGLang server, or evaluate alone with `host eval`"
            ));
        }
        let Stage::Rl(stage) = stage else { return Ok(()) };
        match (self.protocol, self.logprobs) {
            (Protocol::Vllm, LogProbs::Raw) if stage.temperature != 1.0 => contradiction(format!(
                "stage `{name}` samples at temperature {}, and vLLM's raw log-probabilities are those at 1: start it with \
                 `--logprobs-mode processed_logprobs` and set policy.server.logprobs = \"processed\"",
                stage.temperature
            )),
            (Protocol::Vllm, LogProbs::Processed) | (Protocol::Sglang, _) if stage.sampling().cuts() => {
                contradiction(format!(
                    "stage `{name}` cuts its distribution by top_k, top_p or min_p, and the log-probabilities of SGLang, and \
                     vLLM's processed ones, may be those of what is left: leave the cut out, or use vLLM's raw ones at \
                     temperature 1"
                ))
            }
            _ => Ok(()),
        }
    }

    /// How long it may take to answer, and how often it is asked again.
    #[must_use]
    pub fn request_policy(&self) -> RequestPolicy {
        RequestPolicy {
            timeout: Duration::from_secs_f64(self.seconds),
            retry: Retry { retries: self.retries, first_delay: FIRST_PAUSE, max_delay: LONGEST_PAUSE },
        }
    }

    /// The same while it loads weights.
    #[must_use]
    pub fn update_policy(&self) -> RequestPolicy {
        RequestPolicy { timeout: Duration::from_secs_f64(self.update_seconds), ..self.request_policy() }
    }
}
