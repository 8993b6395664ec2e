//! The world outside, as one plugin may ask it: models, servers and, for rewards, tools.
//!
//! The sandbox asks and waits; who answers, what it costs and what is written down is decided above. A plugin without
//! a world, such as one that is only asked to describe itself, is refused whatever it asks.

use std::future::Future;
use std::pin::Pin;

use gymkhana_record::{Function, Question, Reply};

/// An answer under way; the error is a fault of the world, for which no plugin pays.
pub type OutboundFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OutboundError>> + Send + 'a>>;

/// The world failed: a model's server that is gone, for instance. The call of the plugin ends with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutboundError(pub String);

/// How much one plugin may ask in one episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Completions.
    pub model_calls: u32,
    /// Tokens of all questions to a model and their replies.
    pub model_tokens: u64,
    /// Requests over HTTP, refused ones included.
    pub http_requests: u32,
    /// Calls of tools.
    pub tool_calls: u32,
}

/// What a plugin may ask.
pub trait Outbound: Send + Sync {
    /// How much of it.
    fn quota(&self) -> Quota;

    /// Answers. `earlier` is how many questions of the same kind the plugin asked before in its episode.
    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> OutboundFuture<'a, Reply>;

    /// The functions of the tools that may be called: none but for rewards.
    fn functions(&self) -> Vec<Function> {
        vec![]
    }
}
