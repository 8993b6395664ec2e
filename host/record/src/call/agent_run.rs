//! The run of an agent program that played an episode.

use serde::{Deserialize, Serialize};

use crate::Call;

/// The run of the agent program that played an episode.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentRun {
    /// The program's answer, which was the environment's action: its standard output, or the policy's last reply if it
    /// wrote nothing. None if the program failed or gave up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Exit status; none if a signal or a deadline ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Number of transcript entries before those of the program.
    pub begin: u32,
    /// Number of transcript entries of the program, its answer aside.
    pub turns: u32,
    /// Requests that repeated another one and got its answer.
    pub repeats: u32,
    /// Requests that are not turns: token counts, probes of one token, side models.
    pub side_requests: u32,
    /// Requests and calls that were refused, such as malformed ones and those beyond a limit.
    pub refused: u32,
    /// Calls that the program made by MCP, in the order in which they were performed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<AgentCall>,
    /// End of the program's standard error, at most 4 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// A call of a tool or of the environment that an agent program made by MCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCall {
    /// The call as it was performed.
    pub call: Call,
    /// Whether it performs a call of the policy, which the transcript holds under the same id.
    pub listed: bool,
    /// Position of its first entry among the program's transcript entries.
    pub begin: u32,
    /// Number of transcript entries that it added: itself unless it is listed, its answer and observations.
    pub turns: u32,
}
