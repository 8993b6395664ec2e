//! Conformance report of one component: written by the publisher, checked by a registry.

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::{ContractStamp, Digest, PluginName};

/// Report schema that this crate reads.
pub const REPORT_SCHEMA: u32 = 2;

/// Version of the conformance suite; incremented when a check is added or becomes stricter.
pub const SUITE: u32 = 3;

/// Conformance report of one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`REPORT_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// [`SUITE`] of the host that ran the checks.
    pub suite: u32,
    /// Plugin name.
    pub name: PluginName,
    /// Plugin version.
    pub version: Version,
    /// SHA-256 of the checked component.
    pub digest: Digest,
    /// Contract that the component was built with.
    pub contract: ContractStamp,
    /// Seed of all random choices.
    pub seed: u64,
    /// Configured number of random and fuzzed actions.
    pub actions: u64,
    /// Fuel limit of one call, in instructions.
    pub most_fuel: u64,
    /// Memory limit of one instance, in bytes.
    pub most_memory: u64,
    /// Number of executed steps, tool calls and scorings.
    pub steps: u64,
    /// Whether the suite was thinned, because the plugin's starts are costly. No registry accepts such a report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thinned: bool,
    /// Checks in execution order.
    pub checks: Vec<Check>,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Check name, such as `same-seed-same-bytes`.
    pub name: String,
    /// Outcome.
    pub outcome: CheckOutcome,
    /// Name of the earlier check that failed for the same cause and describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_cause_as: Option<String>,
}

/// Outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOutcome {
    /// Passed, with a description of the evidence.
    Passed(String),
    /// Failed, with the observation and the required change.
    Failed(String),
    /// Not applicable to this plugin, with the reason.
    Skipped(String),
}

impl Report {
    /// Failed checks: name and reason.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            CheckOutcome::Failed(why) => Some((check.name.as_str(), why.as_str())),
            CheckOutcome::Passed(_) | CheckOutcome::Skipped(_) => None,
        })
    }
}
