//! `[gateway]`: sessions of `host gateway` for a harness that runs elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use gymkhana_rules::AgentSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// Who decides about the sampling of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GatewaySampling {
    /// `temperature` and `top_p` of a request, and the defaults of `gateway` for what it leaves open.
    #[default]
    Requested,
    /// `gateway.temperature` alone, as training on the records needs.
    Fixed,
}

/// Sessions of `host gateway`, which a harness elsewhere opens and closes by HTTP. `host run` ignores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySection {
    /// Open sessions at the same time. One more is refused with status 503.
    #[schemars(range(min = 1, max = 100_000))]
    pub sessions: usize,
    /// Seconds without a request after which a session ends.
    #[schemars(range(min = 0.1, max = 1_000_000))]
    pub idle_seconds: f64,
    /// Seconds for which a session waits for a place at a worker, with `--workers`.
    #[schemars(range(min = 0, max = 3600))]
    pub wait_seconds: f64,
    /// Seconds for which a call waits for the answer of a worker, moves to others included, with `--workers`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub answer_seconds: f64,
    /// Who decides about the sampling of replies.
    pub sampling: GatewaySampling,
    /// Sampling temperature where no request decides. 0 is greedy.
    #[schemars(range(min = 0, max = 100))]
    pub temperature: f32,
    /// Model names by which harnesses may call the policy; the first is in the answer to `POST /sessions`. With an empty
    /// list, every name is the policy.
    pub models: Vec<String>,
    /// Model names of which the requests are answered and do not count as turns, such as a model for titles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub side_models: Vec<String>,
    /// Seconds after an answer in which the same request gets the same answer.
    #[schemars(range(min = 0, max = 3600))]
    pub retry_seconds: f64,
    /// Whether sessions offer the functions of the tools and of the environment by MCP.
    pub mcp: bool,
    /// Address of the gateway as harnesses see it, such as that of a proxy. By default the bound address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// Whether a proxy in front of the gateway ends TLS. An address that others can reach needs it, and clients.
    pub behind_proxy: bool,
    /// Clients that may open sessions. Without any, everyone who reaches the gateway may.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, GatewayClient>,
}

/// A client of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewayClient {
    /// Environment variable with the token that the client sends as `authorization: Bearer TOKEN`.
    pub token_env: String,
}

impl Default for GatewaySection {
    fn default() -> Self {
        Self {
            sessions: 1024,
            idle_seconds: 600.0,
            wait_seconds: 30.0,
            answer_seconds: 300.0,
            sampling: GatewaySampling::Requested,
            temperature: 1.0,
            models: vec!["policy".to_owned()],
            side_models: vec![],
            retry_seconds: 10.0,
            mcp: true,
            url: None,
            behind_proxy: false,
            clients: BTreeMap::new(),
        }
    }
}

impl GatewaySection {
    /// Settings of the rollout; `stop` holds the texts that end every reply, and `time` is that of an episode.
    #[must_use]
    pub fn settings(&self, stop: &[String], time: Duration) -> AgentSettings {
        AgentSettings {
            command: vec![],
            env: vec![],
            models: self.models.clone(),
            side_models: self.side_models.clone(),
            time,
            retry_window: Duration::from_secs_f64(self.retry_seconds),
            stop_texts: stop.to_vec(),
            mcp: self.mcp,
            requested_sampling: self.sampling == GatewaySampling::Requested,
        }
    }
}
