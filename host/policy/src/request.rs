//! What generates tokens: the trait that the local engine, scripts and recordings implement.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gymkhana_record::{Sampled, Seed};
use tokio::sync::mpsc::UnboundedSender;

use crate::sampling::Sampling;

/// A future that may cross threads, as trait objects need it.
pub type PolicyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, PolicyError>> + Send + 'a>>;

/// Names a token sequence that grows, so that a policy can keep what it computed for it between turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conversation {
    /// Unique among all conversations of the process.
    pub id: u64,
    /// The conversation's place in its batch, from 0: the same in every run of the same seed, whatever the
    /// order in which episodes advance. Deterministic policies lay out their batches by it.
    pub place: u32,
}

/// Asks for a continuation.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// Which conversation is continued. Its tokens grow, but for where its context begins anew: what was computed for
    /// it serves as far as they agree.
    pub conversation: Conversation,
    /// All tokens so far; never empty.
    pub tokens: Arc<[u32]>,
    /// At most this many tokens are sampled; at least 1.
    pub max_tokens: usize,
    /// Sampling ends after one of these tokens, which is part of the reply.
    pub stop: Arc<[u32]>,
    /// It also ends with the token that completes one of these texts.
    pub stop_texts: Option<Arc<dyn StopCondition>>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The random stream of this request: token `i` uses the stream's number `i`.
    pub seed: Seed,
    /// If set, receives each token as it is sampled. Policies that do not stream ignore it.
    pub token_sink: Option<UnboundedSender<u32>>,
}

/// Texts that end a reply, as a policy checks them after each token.
pub trait StopCondition: std::fmt::Debug + Send + Sync {
    /// The texts, for servers that check them themselves.
    fn texts(&self) -> &[String];

    /// Whether the sampled tokens end with a stop text, or with a token that completes one.
    fn is_met(&self, sampled: &[u32]) -> bool;
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// With a stop token, which is its last token.
    Token,
    /// With the token that completed a stop text.
    Text,
    /// At `max_tokens` or at the end of the policy's context.
    Length,
}

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// What was sampled.
    pub sampled: Sampled,
    /// Why it ended.
    pub stop: Stop,
}

/// Asks how probable given tokens are.
#[derive(Debug, Clone)]
pub struct ScoreRequest {
    /// What comes before; never empty.
    pub prefix: Arc<[u32]>,
    /// The tokens to be scored; never empty.
    pub continuation: Arc<[u32]>,
}

/// Why a policy did not answer. Episodes treat every one of them as a fault of the model, never of the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The tokens do not fit the policy's context.
    #[error("{tokens} tokens do not fit the policy's context of {context}")]
    ContextFull {
        /// How many there are.
        tokens: usize,
        /// How many fit.
        context: usize,
    },
    /// A token that the policy does not know.
    #[error("token {token} is outside the policy's vocabulary of {vocabulary}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// One more than the largest token.
        vocabulary: usize,
    },
    /// The policy cannot score given continuations.
    #[error("this policy cannot score given continuations")]
    CannotScore,
    /// The policy's thread or server is gone.
    #[error("the policy is gone: {0}")]
    Gone(String),
    /// A server did not answer, or not as a model can, as often as it was asked; in words that name it.
    #[error("{0}")]
    Server(String),
    /// A script or a recording has no reply for this request.
    #[error("no reply is left for this conversation: {0}")]
    NoReply(String),
}

/// Generates tokens, and says how probable given ones are.
pub trait Policy: Send + Sync {
    /// Continues a conversation.
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated>;

    /// Scores a continuation under the current weights: log-probability and entropy of each of its tokens.
    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled>;

    /// Whether [`Policy::score`] is more than a refusal.
    fn can_score(&self) -> bool;

    /// Forgets what was kept for a conversation that is over.
    fn release(&self, conversation: Conversation);

    /// The most tokens that a conversation may have.
    fn context(&self) -> usize;
}
