//! What a conformance suite found out about one component: written at the publisher's, checked by a registry.

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::{ContractStamp, Digest, PluginName};

/// The number of the report's shape.
pub const REPORT_SCHEMA: u32 = 2;

/// The number of the suite: raised when a check is added or becomes stricter.
pub const SUITE: u32 = 1;

/// A conformance suite's findings about one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`REPORT_SCHEMA`] when it was written.
    pub schema: u32,
    /// [`SUITE`] of the host that ran it.
    pub suite: u32,
    /// The plugin.
    pub name: PluginName,
    /// Its version.
    pub version: Version,
    /// The sha256 of the component that was checked.
    pub digest: Digest,
    /// The contract that it was built with.
    pub contract: ContractStamp,
    /// The seed of everything random.
    pub seed: u64,
    /// Random and fuzzed actions that were asked for.
    pub actions: u64,
    /// The most instructions of one call that passed.
    pub most_fuel: u64,
    /// The most memory of one instance that passed, in bytes.
    pub most_memory: u64,
    /// Steps, calls and scorings that were made.
    pub steps: u64,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name, such as `same-seed-same-bytes`.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As it should; with what was seen, for people.
    Passed(String),
    /// Otherwise; with what was seen and what to change.
    Failed(String),
    /// The plugin offers nothing to check here; with what.
    Skipped(String),
}

impl Report {
    /// The checks that failed, with what was seen.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            Outcome::Failed(why) => Some((check.name.as_str(), why.as_str())),
            Outcome::Passed(_) | Outcome::Skipped(_) => None,
        })
    }
}
