//! The plugin instances of an agent's episode: in this process, or at a worker.

use std::time::Instant;

use futures::future::BoxFuture;
use gymkhana_driver::{CallRefusal, EpisodeData, Reply, StartFailure};
use gymkhana_record::{Call, Ending, EpisodeRecord, Seed, TaskRef, Turn};

/// Plugin instances that play one episode.
pub trait AgentInstances: Send {
    /// The host's part of the episode.
    fn data(&self) -> &EpisodeData;

    /// The host's part, to which an agent adds its transcript and its failures.
    fn data_mut(&mut self) -> &mut EpisodeData;

    /// Answers a call that the agent makes by MCP. `listed` says that the transcript holds it already; the episode has at
    /// most `most` calls. Returns the ending if the environment ended the episode with it.
    ///
    /// # Errors
    /// If the call was not performed, or the instances are lost.
    fn call(&mut self, call: Call, listed: bool, most: u32) -> BoxFuture<'_, Result<Option<Ending>, CallFailure>>;

    /// Takes the turn of the seat to move, which has no calls. Returns the ending if the episode ends with it.
    ///
    /// # Errors
    /// If the instances are lost. The episode's failures then say so.
    fn act(&mut self, reply: Reply) -> BoxFuture<'_, Result<Option<Ending>, InstancesLost>>;

    /// Reads the final views and completes a record that has the episode's id, task and seed. `begun` is the episode's
    /// start.
    fn finish<'i>(
        self: Box<Self>,
        ending: Ending,
        begun: Instant,
        record: EpisodeRecord,
    ) -> BoxFuture<'i, EpisodeRecord>
    where
        Self: 'i;
}

/// Performs a call of a program, as [`AgentInstances::call`] does. Returns the turns that it added: the transcript of the
/// program takes them in, between the replies of the policy.
///
/// # Errors
/// If the call was not performed, or the instances are lost.
pub async fn perform(
    instances: &mut dyn AgentInstances,
    call: Call,
    listed: bool,
    most: u32,
) -> Result<Vec<Turn>, CallFailure> {
    let begin = instances.data().turns.len();
    instances.call(call, listed, most).await?;
    Ok(instances.data_mut().turns.split_off(begin))
}

/// Reason why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] CallRefusal),
    /// It did not reach the plugins, which go on.
    #[error("{0}")]
    Unsent(String),
    /// The instances are lost. The episode's failures say so.
    #[error(transparent)]
    Lost(#[from] InstancesLost),
}

/// Instances that can neither be reached nor restored, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the episode is lost: {0}")]
pub struct InstancesLost(pub String);

/// Places for the plugin instances of agents' episodes somewhere else.
pub trait AgentPlaces: Send + Sync {
    /// Waits for a place.
    ///
    /// # Errors
    /// If none becomes free in time.
    fn place(&self) -> BoxFuture<'_, Result<Box<dyn AgentPlace>, NoPlace>>;
}

/// A place for one episode.
pub trait AgentPlace: Send {
    /// Starts an episode, up to the observations before its first turn.
    ///
    /// # Errors
    /// If the environment does not start, or the place is lost and no other is free in time.
    fn start<'p>(
        self: Box<Self>,
        task: TaskRef,
        seed: Seed,
    ) -> BoxFuture<'p, Result<Box<dyn AgentInstances>, AgentStartError>>
    where
        Self: 'p;
}

/// No place for an episode, with the reason for its harness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPlace(pub String);

/// Reason why an episode did not start.
#[derive(Debug)]
pub enum AgentStartError {
    /// The environment did not start.
    Environment(StartFailure),
    /// No place is free for it.
    NoPlace(NoPlace),
}
