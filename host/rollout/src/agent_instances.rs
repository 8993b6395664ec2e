//! The plugin instances of an agent's episode: in this process, or at a worker.

use std::time::Instant;

use futures::future::BoxFuture;
use gymkhana_driver::{CallRefusal, EpisodeData, Reply, StartFailure};
use gymkhana_record::{Call, Ending, EpisodeRecord, Seed, TaskRef};

/// Plugin instances that play one episode.
pub trait AgentInstances: Send {
    /// The host's part of the episode.
    fn data(&self) -> &EpisodeData;

    /// The host's part, to which an agent adds its transcript and its failures.
    fn data_mut(&mut self) -> &mut EpisodeData;

    /// Answers a call that the agent makes by MCP. `listed` says that the transcript holds it already; the episode has at
    /// most `most` calls.
    ///
    /// # Errors
    /// If the instances are lost. The episode's failures then say so.
    fn call(
        &mut self,
        call: Call,
        listed: bool,
        most: u32,
    ) -> BoxFuture<'_, Result<Result<Option<Ending>, CallRefusal>, InstancesLost>>;

    /// Takes the turn of the seat to move. Returns the ending if the episode ends with it.
    ///
    /// # Errors
    /// If the instances are lost. The episode's failures then say so.
    fn act(&mut self, reply: Reply, most: u32) -> BoxFuture<'_, Result<Option<Ending>, InstancesLost>>;

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

/// Instances that can neither be reached nor restored, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the episode is lost: {0}")]
pub struct InstancesLost(pub String);

/// Starts the plugin instances of agents' episodes somewhere else.
pub trait AgentPlaces: Send + Sync {
    /// Starts an episode, up to the observations before its first turn.
    ///
    /// # Errors
    /// If the environment does not start, or there is no place for it.
    fn start(&self, task: TaskRef, seed: Seed) -> BoxFuture<'_, Result<Box<dyn AgentInstances>, PlaceError>>;
}

/// Reason why an episode did not start.
#[derive(Debug)]
pub enum PlaceError {
    /// The environment did not start.
    Environment(StartFailure),
    /// There is no place for it, with the reason for its harness.
    NoPlace(String),
}
