//! `[sandbox]`: resource limits of plugins.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resource limits of plugin calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSection {
    /// Guest compute time per call in seconds.
    #[schemars(range(min = 0.001, max = 3600))]
    pub budget_seconds: f64,
    /// Guest compute time per episode in seconds.
    #[schemars(range(min = 0.001, max = 86400))]
    pub episode_budget_seconds: f64,
    /// Fuel per call; about one unit per instruction, identical on all machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1_000_000_000_000_000_u64), extend("x-default" = "unlimited"))]
    pub fuel_per_call: Option<u64>,
    /// Fuel per episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1_000_000_000_000_000_u64), extend("x-default" = "unlimited"))]
    pub fuel_per_episode: Option<u64>,
    /// Wall-clock limit per call in seconds, excluding outbound requests.
    #[schemars(range(min = 0.001, max = 86400))]
    pub wall_seconds: f64,
    /// Memory per instance in MiB, including the memory with which it begins.
    #[schemars(range(min = 1, max = 4096))]
    pub memory_mib: usize,
    /// Size of a call's result in MiB.
    #[schemars(range(min = 1, max = 1024))]
    pub result_mib: usize,
    /// Log of a plugin per episode in KiB.
    #[schemars(range(min = 1, max = 65_536))]
    pub log_kib: usize,
    /// Episodes per shared instance.
    #[schemars(range(min = 1, max = 100_000))]
    pub shared_episodes: NonZeroU32,
    /// Concurrent plugin instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        range(min = 1, max = 1_000_000),
        extend("x-default" = "as many as the machine's memory mappings allow")
    )]
    pub instances: Option<u32>,
}

impl Default for SandboxSection {
    fn default() -> Self {
        Self {
            budget_seconds: 1.0,
            episode_budget_seconds: 60.0,
            fuel_per_call: None,
            fuel_per_episode: None,
            wall_seconds: 30.0,
            memory_mib: 64,
            result_mib: 8,
            log_kib: 64,
            shared_episodes: NonZeroU32::new(1000).unwrap_or(NonZeroU32::MIN),
            instances: None,
        }
    }
}
