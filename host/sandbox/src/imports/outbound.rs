//! Outbound calls of one plugin: models, HTTP servers and, for rewards, tools.
//!
//! The sandbox forwards a question and waits; quotas, costs and recording are the caller's. A plugin without an
//! outbound client, for example while it describes itself, receives a refusal.

use std::future::Future;
use std::pin::Pin;

use gymkhana_record::{Function, Question, Reply};
use serde::{Deserialize, Serialize};

/// An outbound call in progress. Its error is a fault of the host's side and not of the plugin.
pub type OutboundFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OutboundError>> + Send + 'a>>;

/// Failure of the host's side of an outbound call, such as an unreachable model server. It ends the plugin's call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutboundError(pub String);

/// Limits on the outbound calls of one plugin in one episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// Number of completions.
    pub model_calls: u32,
    /// Tokens of all prompts and completions.
    pub model_tokens: u64,
    /// Number of HTTP requests, including refused ones.
    pub http_requests: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
}

/// Outbound client of a plugin.
pub trait Outbound: Send + Sync {
    /// Limits on the calls.
    fn quota(&self) -> Quota;

    /// Answers a question. `earlier` is the number of questions of the same kind that the plugin has already asked in
    /// its episode.
    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> OutboundFuture<'a, Reply>;

    /// Functions of the tools that may be called; empty except for rewards.
    fn functions(&self) -> Vec<Function> {
        vec![]
    }
}
