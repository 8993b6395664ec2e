//! Failures with their kind and the boundary at which they were seen.

use serde::{Deserialize, Serialize};

use crate::CallSite;

/// The component at whose boundary a failure was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "boundary", content = "plugin")]
pub enum Boundary {
    /// The environment of this name.
    Environment(String),
    /// The tool of this name.
    Tool(String),
    /// The reward of this name.
    Reward(String),
    /// The agent program of the run.
    Agent,
    /// The policy.
    Model,
    /// The host itself.
    Host,
}

impl Boundary {
    /// Classes of boundaries, in the order of reports.
    pub const CLASSES: [&str; 6] = ["environment", "tool", "reward", "model", "host", "agent"];

    /// The class, one of [`Self::CLASSES`].
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Environment(_) => "environment",
            Self::Tool(_) => "tool",
            Self::Reward(_) => "reward",
            Self::Model => "model",
            Self::Host => "host",
            Self::Agent => "agent",
        }
    }

    /// The boundary of a class and a plugin, whose name counts in the classes of plugins alone; `None` for another class.
    #[must_use]
    pub fn of_class(class: &str, plugin: &str) -> Option<Self> {
        Some(match class {
            "environment" => Self::Environment(plugin.to_owned()),
            "tool" => Self::Tool(plugin.to_owned()),
            "reward" => Self::Reward(plugin.to_owned()),
            "model" => Self::Model,
            "host" => Self::Host,
            "agent" => Self::Agent,
            _ => return None,
        })
    }

    /// Name of the plugin, if the boundary is one's.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
        match self {
            Self::Environment(name) | Self::Tool(name) | Self::Reward(name) => Some(name),
            Self::Agent | Self::Model | Self::Host => None,
        }
    }
}

impl std::fmt::Display for Boundary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "environment `{name}`"),
            Self::Tool(name) => write!(f, "tool `{name}`"),
            Self::Reward(name) => write!(f, "reward `{name}`"),
            Self::Agent => f.write_str("the agent program"),
            Self::Model => f.write_str("the model"),
            Self::Host => f.write_str("the host"),
        }
    }
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The guest trapped: a panic, an `unreachable`, an access out of bounds, a stack overflow.
    Trap,
    /// The guest ran longer than its budget of running time.
    Budget,
    /// The guest used up its fuel, which is counted by instructions: the same call ends at the same one again.
    Fuel,
    /// The call took longer than the wall cap.
    Deadline,
    /// The guest wanted more memory or table space than its limit.
    Memory,
    /// The guest made the host copy more than its host-call budget, or returned more than the result-size cap.
    ResultSize,
    /// The episode's plugins made its record larger than the episode's limit.
    EpisodeSize,
    /// The guest returned what the contract forbids: NaN, a reward out of range, a wrong number of scores.
    Malformed,
    /// The plugin answered with an error of its own.
    Refused,
    /// Another episode ended the instance that this one shared with it.
    Neighbour,
    /// No live instance became free in time.
    Capacity,
    /// A fault outside every guest: the policy, the file system, the host.
    Fault,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Trap,
        Self::Budget,
        Self::Fuel,
        Self::Deadline,
        Self::Memory,
        Self::ResultSize,
        Self::EpisodeSize,
        Self::Malformed,
        Self::Refused,
        Self::Neighbour,
        Self::Capacity,
        Self::Fault,
    ];

    /// Whether the host is at fault. The episode is then tried again and finally dropped; no reward is lowered.
    #[must_use]
    pub fn is_hosts(self) -> bool {
        matches!(self, Self::Neighbour | Self::Capacity | Self::Fault)
    }

    /// Whether the failure depends on the machine's clock or scheduler. A replay injects such a failure, because it may
    /// not occur again.
    #[must_use]
    pub fn depends_on_time(self) -> bool {
        matches!(self, Self::Budget | Self::Deadline | Self::Neighbour | Self::Capacity | Self::Fault)
    }
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Trap => "trap",
            Self::Budget => "budget",
            Self::Fuel => "fuel",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::ResultSize => "result-size",
            Self::EpisodeSize => "episode-size",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Neighbour => "neighbour",
            Self::Capacity => "capacity",
            Self::Fault => "fault",
        })
    }
}

/// A failure, kept with the episode in which it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The boundary.
    #[serde(flatten)]
    pub at: Boundary,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The call that failed.
    pub call_site: CallSite,
    /// The sandbox's message, for people.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed during {}: {}", self.at, self.call_site, self.message)
    }
}
