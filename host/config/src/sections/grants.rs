//! The sections of a run file that grant capabilities to plugins, and the models that they may ask.

use std::collections::BTreeMap;
use std::time::Duration;

use gymkhana_egress::{Rule, RuleError};
use serde::{Deserialize, Serialize};
use url::Url;

use super::sandbox::SandboxSection;
use crate::error::RunFileError;
use crate::range::{check_range, is_default};
use gymkhana_nearest::did_you_mean;

/// How far a plugin is trusted and what it is granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginSection {
    /// Whether many episodes share one instance of it; `sandbox.shared_episodes` says how many.
    pub shared: bool,
    /// Grants `assets`: the files that it may read, by the names that it knows them by. A path is relative to the run
    /// file; in the run's own folder stands the content's digest instead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub assets: BTreeMap<String, String>,
    /// Grants `model`: the section of `[models]` that answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Grants `http`: the servers that it may ask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpSection>,
    /// How many requests it may send in one episode.
    #[serde(skip_serializing_if = "is_default_requests")]
    pub http_requests: u32,
    /// Grants `tools`: a reward may call the run's tools.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: bool,
}

const REQUESTS: u32 = 64;

fn is_default_requests(requests: &u32) -> bool {
    *requests == REQUESTS
}

impl Default for PluginSection {
    fn default() -> Self {
        Self {
            shared: false,
            assets: BTreeMap::new(),
            model: None,
            http: vec![],
            http_requests: REQUESTS,
            tools: false,
        }
    }
}

impl PluginSection {
    /// Refuses what contradicts itself: what a call costs in a shared instance depends on the others in it.
    pub(crate) fn check(
        &self,
        plugin: &str,
        sandbox: &SandboxSection,
        models: &BTreeMap<String, ModelSection>,
    ) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        if self.shared && (sandbox.fuel_per_call, sandbox.fuel_per_episode) != (None, None) {
            return contradiction(format!(
                "plugins.{plugin}.shared and [sandbox] fuel cannot both be set: what a call costs in a shared instance \
                 depends on the other episodes in it; leave one of them out"
            ));
        }
        if let Some(model) = self.model.as_ref().filter(|model| !models.contains_key(*model)) {
            let near = did_you_mean(model, models.keys().map(String::as_str));
            return contradiction(format!(
                "plugins.{plugin}.model is `{model}`, but there is no section [models.{model}]; add one with its \
                 `url` and `name`{near}"
            ));
        }
        if self.http.is_empty() && self.http_requests != REQUESTS {
            return contradiction(format!(
                "plugins.{plugin}.http_requests counts requests, but no `http` allows any; leave it out"
            ));
        }
        let key = format!("plugins.{plugin}.http_requests");
        check_range(&key, self.http_requests, 1..=1_000_000, "a number from 1 to 1000000")?;
        self.http.iter().try_for_each(|rule| rule.check(plugin))
    }
}

/// One line of an allow-list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// The server: `https://HOST` or `https://HOST:PORT`.
    pub allow: String,
    /// With which methods.
    #[serde(default = "get")]
    pub methods: Vec<String>,
    /// Whether it may lie on this machine or in a private network.
    #[serde(default)]
    pub private: bool,
    /// A header that the host adds and no guest sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretSection>,
    /// The largest body of a response, in KiB.
    #[serde(default = "kib")]
    pub max_kib: usize,
    /// Seconds that a request may take.
    #[serde(default = "ten")]
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

/// A header whose value stands in an environment variable of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSection {
    /// The header, such as `authorization`.
    pub header: String,
    /// The variable that holds the header's whole value, such as `Bearer …`.
    pub env: String,
}

impl HttpSection {
    fn check(&self, plugin: &str) -> Result<(), RunFileError> {
        let key = |name: &str| format!("plugins.{plugin}.http {name} for `{}`", self.allow);
        check_range(&key("max_kib"), self.max_kib, 1..=1_048_576, "a number from 1 to 1048576")?;
        check_range(&key("seconds"), self.seconds, 0.001..=3600.0, "from 0.001 to 3600 seconds")?;
        if self.methods.is_empty() {
            let message = format!("{} is empty: name at least one, or leave it out for GET", key("methods"));
            return Err(RunFileError::Contradiction(message));
        }
        let wrong = |error: RuleError| RunFileError::Contradiction(format!("plugins.{plugin}.http: {error}"));
        self.rule().map(drop).map_err(wrong)
    }

    /// The rule, without its secret.
    ///
    /// # Errors
    /// If it names no server, or what is no method.
    pub fn rule(&self) -> Result<Rule, RuleError> {
        let mut rule = Rule::parse(&self.allow)?.with_methods(&self.methods)?;
        rule.private = self.private;
        (rule.max_bytes, rule.time) = (self.max_kib << 10, Duration::from_secs_f64(self.seconds));
        Ok(rule)
    }
}

/// A model that plugins may ask: a server, or a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSection {
    /// An OpenAI-compatible server, up to and with its version: `http://127.0.0.1:8000/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// What the server calls the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The environment variable that holds the server's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Replies in their order, anew for each episode, instead of a server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<Vec<String>>,
    /// Completions that a plugin may ask for in one episode.
    pub calls: u32,
    /// Tokens, of questions and replies together, that a plugin may use in one episode.
    pub tokens: u64,
    /// Seconds that one answer may take.
    pub seconds: f64,
    /// How often it is asked again when it fails.
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
    pub(crate) fn check(&self, model: &str, plugins: &BTreeMap<String, PluginSection>) -> Result<(), RunFileError> {
        let contradiction = |message: String| Err(RunFileError::Contradiction(message));
        match (&self.url, &self.name, &self.script) {
            (Some(url), Some(_), None) if matches!(url.scheme(), "http" | "https") => {}
            (Some(url), Some(_), None) => {
                return contradiction(format!("models.{model}.url is `{url}`; it must begin with http:// or https://"));
            }
            (None, None, Some(script)) if !script.is_empty() && self.key_env.is_none() => {}
            _ => {
                return contradiction(format!(
                    "models.{model} is either a server, with `url` and `name`, or a `script` of at least one reply; \
                     write one of both"
                ));
            }
        }
        if !plugins.values().any(|plugin| plugin.model.as_deref() == Some(model)) {
            return contradiction(format!(
                "no plugin asks models.{model}: add `model = \"{model}\"` to a section [plugins.NAME], or leave it out"
            ));
        }
        check_range(&format!("models.{model}.calls"), self.calls, 1..=1_000_000, "a number from 1 to 1000000")?;
        let words = "a number from 1 to 1000000000000";
        check_range(&format!("models.{model}.tokens"), self.tokens, 1..=1_000_000_000_000, words)?;
        let words = "from 0.001 to 3600 seconds";
        check_range(&format!("models.{model}.seconds"), self.seconds, 0.001..=3600.0, words)?;
        check_range(&format!("models.{model}.retries"), self.retries, 0..=100, "a number from 0 to 100")
    }
}
