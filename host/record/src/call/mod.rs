//! Calls of plugins, policies and agent programs: their sites, costs, failures, log lines and outbound exchanges.

mod agent_run;
mod cost;
mod exchange;
mod failure;
mod log;
mod site;

pub use agent_run::{AgentCall, AgentRun};
pub use cost::{CallCost, Cost};
pub use exchange::{
    Exchange, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, ModelRole, Question, Refused, Reply,
    ToolReply,
};
pub use failure::{Boundary, Failure, FailureKind};
pub use log::{LOG_TRUNCATED, LogBudget, LogEntry, LogLevel};
pub use site::CallSite;
