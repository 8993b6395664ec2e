//! The policy of an episode: a trait that generates and scores tokens, and its implementations without weights.
//!
//! The local engine, remote inference servers, scripts and recordings implement [`Policy`]. This crate handles tokens
//! only: chat templates and tool calls belong to `gymkhana-chat`, weights to `gymkhana-trainer`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod reply;
mod sampling;
mod scripted;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gymkhana_record::{Sampled, Seed};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

pub use reply::{are_log_probs, checked_reply};
pub use sampling::{Sampling, SamplingError, deserialize_top_k, kept_tokens};
pub use scripted::{ReplayedPolicy, ScriptedPolicy, certain};

/// A boxed future that may cross threads, for use with trait objects.
pub type PolicyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, PolicyError>> + Send + 'a>>;

/// Identifies a growing token sequence, so that a policy can cache its computation between turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conversation {
    /// Unique among all conversations of the process.
    pub id: u64,
    /// The conversation's place in its batch, from 0. It is the same in every run of the same seed and independent of
    /// the order in which episodes advance. Deterministic policies lay out their batches by it.
    pub place: u32,
}

/// A request for a continuation.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// The conversation to continue. Its tokens usually grow; after a restart of its context, cached computation is
    /// valid for the common prefix.
    pub conversation: Conversation,
    /// All tokens so far; never empty.
    pub tokens: Arc<[u32]>,
    /// Maximum number of sampled tokens, at least 1.
    pub max_tokens: usize,
    /// Tokens that end the reply; the token is part of the reply.
    pub stop: Arc<[u32]>,
    /// Texts that end the reply with the token that completes one of them.
    pub stop_texts: Option<Arc<dyn StopCondition>>,
    /// Temperature and truncation.
    pub sampling: Sampling,
    /// The random stream of this request: token `i` uses the stream's number `i`.
    pub seed: Seed,
    /// If set, receives each token as it is sampled. Policies that do not stream ignore it.
    pub token_sink: Option<UnboundedSender<u32>>,
}

/// Texts that end a reply, checked by a policy after each token.
pub trait StopCondition: std::fmt::Debug + Send + Sync {
    /// The texts, for servers that check them on their side.
    fn texts(&self) -> &[String];

    /// Whether the last sampled tokens hold a stop text. False for tokens that cannot be decoded.
    fn is_met(&self, sampled: &[u32]) -> bool;
}

/// The reason for which a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// A stop token, which is the last token.
    Token,
    /// A stop text, which the last token completed.
    Text,
    /// `max_tokens` or the end of the policy's context.
    Length,
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// The sampled tokens with their log-probabilities.
    pub sampled: Sampled,
    /// The reason for which it ended.
    pub stop: Stop,
}

/// A request for the log-probabilities of given tokens.
#[derive(Debug, Clone)]
pub struct ScoreRequest {
    /// The tokens before the continuation; never empty.
    pub prefix: Arc<[u32]>,
    /// The tokens to score; never empty.
    pub continuation: Arc<[u32]>,
}

/// Failure of a policy. Episodes treat every variant as a fault of the model, not of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum PolicyError {
    /// The tokens do not fit the policy's context.
    #[error("{tokens} tokens do not fit the policy's context of {context}\nhint: shorten the prompt")]
    ContextFull {
        /// Number of tokens.
        tokens: usize,
        /// Number that fits.
        context: usize,
    },
    /// A token outside the policy's vocabulary.
    #[error("token {token} is outside the policy's vocabulary of {vocabulary}")]
    UnknownToken {
        /// The token's id.
        token: u32,
        /// One more than the largest id.
        vocabulary: usize,
    },
    /// The policy cannot score given continuations.
    #[error("this policy cannot score given continuations")]
    CannotScore,
    /// The policy's thread or server has ended.
    #[error("the policy has ended: {0}")]
    Gone(String),
    /// A server failed to answer, or answered wrongly, after all retries; the text names the server.
    #[error("{0}")]
    Server(String),
    /// A script or a recording has no reply for this request.
    #[error("the recording has no reply for this request: {0}")]
    NoReply(String),
}

/// Failure of the last request to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFailure {
    /// What failed and why; it names the server.
    pub text: String,
    /// Whether the same request may succeed later: the server was silent or overloaded, and did not refuse.
    pub may_recover: bool,
}

/// Generates tokens, and scores given tokens.
pub trait Policy: Send + Sync {
    /// Continues a conversation.
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated>;

    /// Scores a continuation under the current weights: log-probability and entropy of each token, in nats.
    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled>;

    /// Whether the policy supports [`Policy::score`].
    fn can_score(&self) -> bool;

    /// Frees what is cached for a finished conversation.
    fn release(&self, conversation: Conversation);

    /// Maximum number of tokens of a conversation.
    fn context(&self) -> usize;
}
