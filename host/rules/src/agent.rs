//! Settings of a program that plays the policy's episodes.

use std::time::Duration;

/// Settings of an agent program.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables of the host's environment that the program sees, besides the basic ones.
    pub env: Vec<String>,
    /// Names of the policy; the first is the program's default.
    pub models: Vec<String>,
    /// Names of models whose requests are not turns.
    pub side_models: Vec<String>,
    /// The program's own time for one episode; waits for the policy and for tools of the run do not count.
    pub time: Duration,
    /// Time after an answer in which the same request is a repeat.
    pub retry_window: Duration,
    /// Texts that end every reply.
    pub stop_texts: Vec<String>,
    /// Whether the program may call the functions of the tools and the environment by MCP.
    pub mcp: bool,
    /// Whether requests decide about sampling. Otherwise all replies are sampled as the episode's plan says, as training
    /// needs.
    pub requested_sampling: bool,
}
