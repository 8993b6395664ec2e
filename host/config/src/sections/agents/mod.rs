//! Agent programs: those that a run starts (`[agent]`), and those elsewhere that open sessions.

mod gateway;

use std::time::Duration;

use gymkhana_rules::AgentSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RunFileError;

pub use gateway::{GatewayClient, GatewaySampling, GatewaySection};

/// Isolation of the agent program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentSandbox {
    /// A process group of the host's user with a restricted environment. It can read and write what the user can.
    #[default]
    Process,
}

/// Agent program that plays the episodes of the policy: one process per episode, which calls the policy as a model by the
/// OpenAI or the Anthropic protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSection {
    /// Program and arguments. Its standard output is the episode's action.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub command: Vec<String>,
    /// Whether the program may call the functions of the run's tools and of the environment by MCP. The address is in
    /// `GYMKHANA_MCP_URL`, and needs no key.
    #[serde(default)]
    pub mcp: bool,
    /// Time of the program for one episode in seconds. Waits for the policy and for tools of the run do not count.
    #[serde(default = "seconds")]
    #[schemars(range(min = 0.001, max = 1_000_000))]
    pub seconds: f64,
    /// Isolation of the program.
    #[serde(default)]
    pub sandbox: AgentSandbox,
    /// Model names by which the program may call the policy; the first is in `OPENAI_MODEL` and `ANTHROPIC_MODEL`. With an
    /// empty list, every name is the policy.
    #[serde(default = "models")]
    pub models: Vec<String>,
    /// Model names of which the requests are answered and not trained on, such as a program's model for titles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_models: Vec<String>,
    /// Environment variables that the program gets from the host, besides PATH, HOME, USER, LANG, LC_ALL, TZ and
    /// VIRTUAL_ENV.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Seconds after an answer in which the same request gets the same answer.
    #[serde(default = "retry_seconds")]
    #[schemars(range(min = 0, max = 3600))]
    pub retry_seconds: f64,
}

fn seconds() -> f64 {
    600.0
}

fn models() -> Vec<String> {
    vec!["policy".to_owned()]
}

fn retry_seconds() -> f64 {
    10.0
}

impl AgentSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        if self.command.first().is_none_or(String::is_empty) {
            let message = "agent.command names no program\nhint: set command = [\"python\", \"my_agent.py\"]";
            return Err(RunFileError::Contradiction(message.to_owned()));
        }
        Ok(())
    }

    /// Settings of the rollout; `stop` holds the texts that end every reply.
    #[must_use]
    pub fn settings(&self, stop: &[String]) -> AgentSettings {
        AgentSettings {
            command: self.command.clone(),
            env: self.env.clone(),
            models: self.models.clone(),
            side_models: self.side_models.clone(),
            time: Duration::from_secs_f64(self.seconds),
            retry_window: Duration::from_secs_f64(self.retry_seconds),
            stop_texts: stop.to_vec(),
            mcp: self.mcp,
            requested_sampling: false,
        }
    }
}
