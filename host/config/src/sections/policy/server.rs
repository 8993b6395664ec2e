//! `[policy.server]`: an inference server that generates for the run's policy.

use std::time::Duration;

use gymkhana_net::{Repeated, RequestPolicy, Retry};
use gymkhana_policy_server::{LogProbs, Protocol};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::RunFileError;
use crate::sections::Stage;

/// Delay before the first retry; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum delay between retries, including delays that the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Inference server that generates instead of the built-in engine.
///
/// With `protocol = "sglang"` or `logprobs = "processed"`, a stage must not set `top_k`, `top_p` or `min_p`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSection {
    /// Base URL without the version, such as `http://127.0.0.1:8000`.
    #[schemars(extend("pattern" = "^https?://", "x-range" = "`http://` or `https://`"))]
    pub url: Url,
    /// Base URLs of further servers of the same model. Each conversation stays on one server; the turns of one that does not
    /// answer are repeated on the others, and it gets requests again once it has the weights of the next step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = "^https?://")), extend("x-range" = "a list of URLs"))]
    pub urls: Vec<Url>,
    /// Protocol of the servers.
    pub protocol: Protocol,
    /// Model name that the servers expect.
    pub name: String,
    /// Environment variable with the server's API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Distribution of vLLM's log-probabilities; another protocol allows `raw` only.
    #[serde(default)]
    pub logprobs: LogProbs,
    /// Timeout of a request in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 0.001, max = 86400))]
    pub seconds: f64,
    /// Timeout of a weight update in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 0.001, max = 86400))]
    pub update_seconds: f64,
    /// Maximum mean difference between the server's and the trainer's log-probabilities of a fixed text, in nats per
    /// token, compared after each weight update. A larger difference ends the run.
    #[serde(default = "tenth")]
    #[schemars(range(min = 0, max = 100))]
    pub max_divergence: f64,
    /// Retries of a failed request.
    #[serde(default = "super::default_retries")]
    #[schemars(range(max = 100))]
    pub retries: u32,
    /// Concurrent requests of each server.
    #[serde(default = "super::default_requests")]
    #[schemars(range(min = 1, max = 65_536))]
    pub requests: usize,
}

fn ten_minutes() -> f64 {
    600.0
}

fn tenth() -> f64 {
    0.1
}

impl ServerSection {
    /// Checks ranges; `has_checkpoint` reports whether the policy names a model.
    pub(crate) fn check(&self, has_checkpoint: bool) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        let all = || [&self.url].into_iter().chain(&self.urls);
        if let Some(url) = all().find(|url| !matches!(url.scheme(), "http" | "https")) {
            return contradiction(format!("policy.server.url is `{url}`\nhint: use a URL with http:// or https://"));
        }
        if let Some(url) = self.urls.iter().find(|url| all().filter(|other| other == url).count() > 1) {
            return contradiction(format!("policy.server.urls has `{url}` twice\nhint: name each server once"));
        }
        if !has_checkpoint {
            return contradiction(
                "policy.server needs policy.checkpoint for the tokenizer, the chat template and the initial \
                 weights\nhint: set policy.checkpoint to the model that the server serves"
                    .to_owned(),
            );
        }
        if self.logprobs != LogProbs::Raw && self.protocol != Protocol::Vllm {
            let message = "policy.server.logprobs applies to protocol = \"vllm\" only\nhint: remove it";
            return contradiction(message.to_owned());
        }
        Ok(())
    }

    /// Rejects a stage that cannot learn from the responses of this server.
    pub(crate) fn check_stage(&self, stage: &Stage) -> Result<(), RunFileError> {
        let name = stage.name();
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        if !self.protocol.gives_tokens() {
            return contradiction(format!(
                "stage `{name}` cannot train: policy.server.protocol \"openai\" returns neither token ids nor \
                 log-probabilities\nhint: use a vLLM or SGLang server, or evaluate only, with `host eval`"
            ));
        }
        let Stage::Rl(stage) = stage else { return Ok(()) };
        match (self.protocol, self.logprobs) {
            (Protocol::Vllm, LogProbs::Raw) if stage.temperature != 1.0 => contradiction(format!(
                "stage `{name}` samples at temperature {}, but vLLM's raw log-probabilities are those at 1\nhint: \
                 start vLLM with `--logprobs-mode processed_logprobs` and set policy.server.logprobs = \"processed\"",
                stage.temperature
            )),
            (Protocol::Vllm, LogProbs::Processed) | (Protocol::Sglang, _) if stage.sampling().cuts() => {
                contradiction(format!(
                    "stage `{name}` cuts its distribution by top_k, top_p or min_p, but the log-probabilities of \
                     SGLang and processed ones of vLLM may be those of the cut distribution\nhint: remove the cut, or \
                     use vLLM's raw log-probabilities at temperature 1"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Timeout and retries of a generation request.
    #[must_use]
    pub fn request_policy(&self) -> RequestPolicy {
        RequestPolicy {
            timeout: Duration::from_secs_f64(self.seconds),
            retry: Retry { retries: self.retries, first_delay: FIRST_PAUSE, max_delay: LONGEST_PAUSE },
            repeated: Repeated::Passing,
        }
    }

    /// Timeout and retries of a weight update.
    #[must_use]
    pub fn update_policy(&self) -> RequestPolicy {
        RequestPolicy { timeout: Duration::from_secs_f64(self.update_seconds), ..self.request_policy() }
    }
}
