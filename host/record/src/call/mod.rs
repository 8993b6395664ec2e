//! Calls of plugins and policies: their sites, costs, failures, log lines and outbound exchanges.

mod cost;
mod exchange;
mod failure;
mod log;
mod site;

pub use cost::{CallCost, Cost};
pub use exchange::{
    Exchange, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, ModelRole, Question, Refused, Reply,
    ToolReply,
};
pub use failure::{Boundary, Failure, FailureKind};
pub use log::{LOG_TRUNCATED, LogBudget, LogEntry, LogLevel};
pub use site::CallSite;
