//! `plugins.NAME.http` and `[models.NAME]`: servers that plugins may reach, and models that they may call.

use std::time::Duration;

use gymkhana_net::{Rule, RuleError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::RunFileError;

/// Rule of a plugin's HTTP allow-list, a table of the list `http`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// Server, without path, user or wildcard.
    #[schemars(
        pattern(r"^https?://"),
        extend("x-range" = "`https://HOST`, `https://HOST:PORT`, or the same with `http`")
    )]
    pub allow: String,
    /// Allowed methods.
    #[serde(default = "get")]
    #[schemars(length(min = 1), extend("x-range" = "at least one, in capitals"))]
    pub methods: Vec<String>,
    /// Allows addresses of this machine and of private networks.
    #[serde(default)]
    pub private: bool,
    /// Header that the host adds to each request, invisible to the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretSection>,
    /// Maximum size of a response in KiB, headers and body together.
    #[serde(default = "kib")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_kib: usize,
    /// Timeout of a request in seconds, including redirects.
    #[serde(default = "ten")]
    #[schemars(range(min = 0.001, max = 3600))]
    pub seconds: f64,
}

fn get() -> Vec<String> {
    vec!["GET".to_owned()]
}

fn kib() -> usize {
    1024
}

fn ten() -> f64 {
    10.0
}

/// Request header whose value comes from an environment variable of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSection {
    /// Name of a header that the host adds to each request, such as `authorization`; invisible to the plugin. Over
    /// `http` it requires `private = true`.
    pub header: String,
    /// Environment variable with the header's whole value, such as `Bearer …`.
    pub env: String,
}

impl HttpSection {
    pub(super) fn check(&self, plugin: &str) -> Result<(), RunFileError> {
        if self.methods.is_empty() {
            return Err(RunFileError::Contradiction(format!(
                "plugins.{plugin}.http methods for `{}` is empty\nhint: name at least one method, or remove it to allow GET",
                self.allow
            )));
        }
        let wrong = |error: RuleError| RunFileError::Contradiction(format!("plugins.{plugin}.http: {error}"));
        self.rule().map(drop).map_err(wrong)
    }

    /// The rule without its secret.
    ///
    /// # Errors
    /// If the server or a method is malformed.
    pub fn rule(&self) -> Result<Rule, RuleError> {
        let mut rule = Rule::parse(&self.allow)?.with_methods(&self.methods)?;
        rule.private = self.private;
        (rule.max_bytes, rule.time) = (self.max_kib << 10, Duration::from_secs_f64(self.seconds));
        Ok(rule)
    }
}

/// Model that plugins may call: a server (`url` and `name`) or scripted replies (`script`). At least one plugin must
/// refer to each section by `plugins.NAME.model`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSection {
    /// Base URL of an OpenAI-compatible server, including the version: `http://127.0.0.1:8000/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^https?://", "x-range" = "`http://` or `https://`"))]
    pub url: Option<Url>,
    /// Model name that the server expects. Required with `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Environment variable with the server's API key. Excludes `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Scripted replies in order, restarted for each episode. Excludes `url` and `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub script: Option<Vec<String>>,
    /// Completions that a plugin may request per episode.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub calls: u32,
    /// Prompt and completion tokens that a plugin may use per episode.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub tokens: u64,
    /// Timeout of a completion in seconds.
    #[schemars(range(min = 0.001, max = 3600))]
    pub seconds: f64,
    /// Retries of a failed request.
    #[schemars(range(max = 100))]
    pub retries: u32,
}

impl Default for ModelSection {
    fn default() -> Self {
        Self {
            url: None,
            name: None,
            key_env: None,
            script: None,
            calls: 16,
            tokens: 100_000,
            seconds: 60.0,
            retries: 3,
        }
    }
}

impl ModelSection {
    pub(crate) fn check(&self, model: &str, is_used: bool) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        match (&self.url, &self.name, &self.script) {
            (Some(url), Some(_), None) if matches!(url.scheme(), "http" | "https") => {}
            (Some(url), Some(_), None) => {
                return contradiction(format!(
                    "models.{model}.url is `{url}`\nhint: use a URL with http:// or https://"
                ));
            }
            (None, None, Some(script)) if !script.is_empty() && self.key_env.is_none() => {}
            _ => {
                return contradiction(format!(
                    "models.{model} needs either a server or a script\nhint: set `url` and `name`, or a `script` with \
                     at least one reply"
                ));
            }
        }
        if !is_used {
            return contradiction(format!(
                "models.{model} is unused: no plugin refers to it\nhint: add `model = \"{model}\"` to a section \
                 [plugins.NAME], or remove [models.{model}]"
            ));
        }
        Ok(())
    }
}
