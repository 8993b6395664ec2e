//! Calls of plugins, policies and agent programs: their sites, costs, failures, log lines and outbound exchanges.

mod agent_run;
mod cost;
mod exchange;
mod failure;
mod log;

use serde::{Deserialize, Serialize};

pub use agent_run::{AgentCall, AgentRun};
pub use cost::{CallCost, Cost};
pub use exchange::{
    Exchange, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, ModelRole, Question, Refused, Reply,
    ToolReply,
};
pub use failure::{Boundary, Failure, FailureKind};
pub use log::{LOG_TRUNCATED, LogBudget, LogEntry, LogLevel};

/// A call of an episode. Together with a [`Boundary`](crate::Boundary) it names the call uniquely, except for
/// [`CallSite::Advise`], which an oracle answers once per turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallSite {
    /// The start of the environment's episode.
    Reset,
    /// The environment's step of this number, from 0.
    Step(u32),
    /// The environment's state key after this many turns of all seats.
    StateKey(u32),
    /// The oracle's advice.
    Advise,
    /// The privileged view that the turn probe reads at the start.
    Probe,
    /// The check of reward totals when a limit of the run ends the episode.
    LimitCheck,
    /// The privileged view at the end.
    Privileged,
    /// The hint for another attempt, at the end.
    Guidance,
    /// The snapshot and restore of a fork.
    Fork,
    /// A tool call.
    Tool {
        /// The id of the call, unique in the episode.
        id: String,
    },
    /// A tool's final view.
    FinalView,
    /// The policy's reply of this number in one seat, from 0.
    Generate(u32),
    /// The run of the agent program.
    Agent,
    /// A reward's verdict on an episode.
    Score,
    /// A reward's scoring of this number in one group, from 0; a group is scored again when a member fails.
    Scoring(u32),
}

impl CallSite {
    /// The site of a call of this tool.
    #[must_use]
    pub fn tool(id: &str) -> Self {
        Self::Tool { id: id.to_owned() }
    }
}

impl std::fmt::Display for CallSite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reset => f.write_str("start"),
            Self::Step(number) => write!(f, "step {number}"),
            Self::StateKey(taken) => write!(f, "state key {taken}"),
            Self::Advise => f.write_str("advise"),
            Self::Probe => f.write_str("probe"),
            Self::LimitCheck => f.write_str("the end by a limit"),
            Self::Privileged => f.write_str("privileged"),
            Self::Guidance => f.write_str("guidance"),
            Self::Fork => f.write_str("fork"),
            Self::Tool { id } => f.write_str(id),
            Self::FinalView => f.write_str("final view"),
            Self::Generate(turn) => write!(f, "turn {turn}"),
            Self::Agent => f.write_str("its run"),
            Self::Score => f.write_str("score"),
            Self::Scoring(number) => write!(f, "scoring {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_site_survives_json_and_reads_as_words() {
        for (site, json, words) in [
            (CallSite::Reset, "\"reset\"", "start"),
            (CallSite::Step(3), "{\"step\":3}", "step 3"),
            (CallSite::StateKey(2), "{\"state-key\":2}", "state key 2"),
            (CallSite::tool("call-0"), "{\"tool\":{\"id\":\"call-0\"}}", "call-0"),
            (CallSite::LimitCheck, "\"limit-check\"", "the end by a limit"),
            (CallSite::Scoring(1), "{\"scoring\":1}", "scoring 1"),
        ] {
            assert_eq!(serde_json::to_string(&site).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<CallSite>(json).expect("a call site"), site);
            assert_eq!(site.to_string(), words);
        }
    }
}
