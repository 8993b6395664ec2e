//! The section of a run file that says what every plugin may use.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::RunFileError;
use crate::range::check_range;

/// What bounds a plugin's call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSection {
    /// Seconds that a guest may itself run in one call.
    pub budget_seconds: f64,
    /// Seconds that a guest may itself run in all calls of one episode.
    pub episode_budget_seconds: f64,
    /// Fuel that one call may use, about one for each instruction; it is the same on every machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel_per_call: Option<u64>,
    /// Fuel that all calls of one episode may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel_per_episode: Option<u64>,
    /// Seconds of the wall clock after which a call is given up.
    pub wall_seconds: f64,
    /// Memory of one instance, in MiB.
    pub memory_mib: usize,
    /// The largest result of one call, in MiB.
    pub result_mib: usize,
    /// What is kept of one instance's log, in KiB.
    pub log_kib: usize,
    /// How many episodes share one instance of a plugin that is `shared`.
    pub shared_episodes: NonZeroU32,
    /// How many instances live side by side; by default what the machine's memory mappings allow.
    #[serde(skip_serializing_if = "Option::is_none")]
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

impl SandboxSection {
    pub(crate) fn check(&self) -> Result<(), RunFileError> {
        check_range("sandbox.budget_seconds", self.budget_seconds, 0.001..=3600.0, "from 0.001 to 3600 seconds")?;
        let words = "from 0.001 to 86400 seconds";
        check_range("sandbox.episode_budget_seconds", self.episode_budget_seconds, 0.001..=86400.0, words)?;
        let words = "a number from 1000 to 1000000000000000";
        for (key, fuel) in [("call", self.fuel_per_call), ("episode", self.fuel_per_episode)] {
            check_range(&format!("sandbox.fuel_per_{key}"), fuel.unwrap_or(1000), 1000..=1_000_000_000_000_000, words)?;
        }
        check_range("sandbox.wall_seconds", self.wall_seconds, 0.001..=86400.0, "from 0.001 to 86400 seconds")?;
        check_range("sandbox.memory_mib", self.memory_mib, 1..=4096, "a number from 1 to 4096")?;
        check_range("sandbox.result_mib", self.result_mib, 1..=1024, "a number from 1 to 1024")?;
        check_range("sandbox.log_kib", self.log_kib, 1..=65_536, "a number from 1 to 65536")?;
        check_range("sandbox.shared_episodes", self.shared_episodes.get(), 1..=100_000, "a number from 1 to 100000")?;
        check_range("sandbox.instances", self.instances.unwrap_or(1), 1..=1_000_000, "a number from 1 to 1000000")
    }
}

impl From<&SandboxSection> for gymkhana_sandbox::Limits {
    fn from(section: &SandboxSection) -> Self {
        Self {
            budget: Duration::from_secs_f64(section.budget_seconds),
            episode_budget: Duration::from_secs_f64(section.episode_budget_seconds),
            fuel_per_call: section.fuel_per_call,
            fuel_per_episode: section.fuel_per_episode,
            wall: Duration::from_secs_f64(section.wall_seconds),
            memory_bytes: section.memory_mib << 20,
            result_bytes: section.result_mib << 20,
            log_bytes: section.log_kib << 10,
            ..Self::default()
        }
    }
}
