//! Where an episode runs: in this process, or at a worker.

use std::fmt::Display;
use std::time::Instant;

use futures::future::BoxFuture;
use gymkhana_record::{Call, Ending, EpisodeRecord, Seed, TaskRef, Turn};

use crate::data::EpisodeData;
use crate::episode::StartFailure;
use crate::turn::{CallRefusal, Reply};

/// An episode that runs somewhere.
pub trait PlacedEpisode: Send {
    /// The host's part of the episode.
    fn data(&self) -> &EpisodeData;

    /// The host's part, to which an agent adds its transcript and its failures.
    fn data_mut(&mut self) -> &mut EpisodeData;

    /// Answers a call that the agent makes by MCP. `listed` says that the transcript holds it already; the episode has at
    /// most `most` calls. Returns the ending if the environment ended the episode with it.
    ///
    /// # Errors
    /// If the call was not performed, or the episode is lost.
    fn call(&mut self, call: Call, listed: bool, most: u32) -> BoxFuture<'_, Result<Option<Ending>, BackendError>>;

    /// Takes the turn of the seat to move, which has no calls. Returns the ending if the episode ends with it.
    ///
    /// # Errors
    /// If the episode is lost. The episode's failures then say so.
    fn act(&mut self, reply: Reply) -> BoxFuture<'_, Result<Option<Ending>, BackendError>>;

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

/// Performs a call of a program, as [`PlacedEpisode::call`] does. Returns the turns that it added: the transcript of the
/// program takes them in, between the replies of the policy.
///
/// # Errors
/// If the call was not performed, or the episode is lost.
pub async fn perform(
    episode: &mut dyn PlacedEpisode,
    call: Call,
    listed: bool,
    most: u32,
) -> Result<Vec<Turn>, BackendError> {
    let begin = episode.data().turns.len();
    episode.call(call, listed, most).await?;
    Ok(episode.data_mut().turns.split_off(begin))
}

/// Where episodes run, if not in this process.
pub trait EpisodeBackend: Send + Sync {
    /// Waits for a place.
    ///
    /// # Errors
    /// If none becomes free in time.
    fn place(&self) -> BoxFuture<'_, Result<Box<dyn EpisodePlace>, BackendError>>;
}

/// A place for one episode.
pub trait EpisodePlace: Send {
    /// Starts an episode, up to the observations before its first turn.
    ///
    /// # Errors
    /// If the environment does not start, or the place is lost and no other is free in time.
    fn start<'p>(
        self: Box<Self>,
        task: TaskRef,
        seed: Seed,
    ) -> BoxFuture<'p, Result<Box<dyn PlacedEpisode>, BackendError>>
    where
        Self: 'p;
}

/// Reason why an episode somewhere has not started, or a request to it has no answer. `E` is the error of a request that
/// failed.
#[derive(Debug, thiserror::Error)]
pub enum BackendError<E: Display = String> {
    /// The environment did not start.
    #[error("the environment did not start: {}", .0.failure)]
    NotStarted(StartFailure),
    /// No place is free; holds the reason.
    #[error("{0}")]
    NoPlace(String),
    /// A call was refused.
    #[error(transparent)]
    Refused(#[from] CallRefusal),
    /// A request failed, and the episode is as before.
    #[error("{0}")]
    Failed(E),
    /// The episode cannot be reached.
    #[error("the episode is lost: {0}")]
    Lost(String),
}
