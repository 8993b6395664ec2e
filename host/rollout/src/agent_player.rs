//! Programs outside that play the policy's episodes.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::future::BoxFuture;
use gymkhana_chat::ChatFormat;
use gymkhana_driver::{EpisodeBackend, PlacedEpisode};
use gymkhana_policy::Policy;
use gymkhana_record::{EpisodeId, EpisodeRecord, SegmentError};
use gymkhana_rules::{AgentSettings, Limits};
use serde_json::Value as Json;

use crate::episode::state::EpisodePlan;
use crate::replay::agent_play::AgentPlay;

/// An episode as its program gets it, after the environment has begun.
pub struct AgentTask<'e> {
    /// Id, task, seed, sampling and place.
    pub plan: &'e EpisodePlan,
    /// The task with the conversation so far, as the program reads it.
    pub text: Json,
    /// Most turns of the policy.
    pub turns: u32,
    /// The run's limits.
    pub limits: &'e Limits,
    /// The chat format of the policy.
    pub chat: &'e ChatFormat,
    /// The policy that the program calls.
    pub policy: &'e dyn Policy,
    /// The id of the next conversation: no two conversations of a rollout share a cache.
    pub conversations: &'e Arc<AtomicU64>,
    /// The record so far, for a journal; absent without one.
    pub begun: Option<EpisodeRecord>,
    /// The episode, for calls of tools.
    pub episode: &'e mut dyn PlacedEpisode,
}

/// What a program contributed, and the time for which it waited.
#[derive(Debug)]
pub struct AgentPlayed {
    /// Contribution to the record.
    pub play: AgentPlay,
    /// Time in which a request waited for the policy.
    pub policy_time: Duration,
}

/// Starts what plays episodes by an agent program: the gateway, in programs that have it.
pub type StartAgent = fn(AgentSettings) -> Result<Arc<dyn AgentPlayer>, Box<dyn Error + Send + Sync>>;

/// A program that plays the policy's episodes instead of the host.
pub trait AgentPlayer: Send + Sync {
    /// Where its episodes run; `None` for this process.
    fn backend(&self) -> Option<&dyn EpisodeBackend>;

    /// Whether turns are written to a journal.
    fn keeps_journal(&self) -> bool;

    /// Completes when the request for this episode is given up before the program begins.
    fn given_up(&self, episode: EpisodeId) -> BoxFuture<'_, ()>;

    /// Lets the program play an episode, up to its answer. The program is gone when this returns.
    ///
    /// # Errors
    /// If a policy's reply is malformed.
    fn play<'p>(&'p self, task: AgentTask<'p>) -> BoxFuture<'p, Result<AgentPlayed, SegmentError>>;
}
