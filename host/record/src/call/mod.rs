//! Calls of plugins and policies: their sites, costs, failures and outbound exchanges.

mod cost;
mod exchange;
mod failure;
mod site;

pub use cost::{CallCost, Cost};
pub use exchange::{
    Exchange, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, Question, Refused, Reply, Speaks,
    ToolReply,
};
pub use failure::{Boundary, Failure, FailureKind};
pub use site::CallSite;
