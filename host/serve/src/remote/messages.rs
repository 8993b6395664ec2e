//! What a front asks of the worker that holds an episode, and what the worker answers.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use gymkhana_driver::{CallRefusal, Reply};
use gymkhana_record::{Call, Ending, EpisodeId, Exchange, Failure, LogEntry, NamedValue, Seed, TaskRef};
use gymkhana_sandbox::Image;
use serde::{Deserialize, Serialize};

use crate::catalog::ServedEnvironment;
use crate::error::ServeError;

/// Largest state of an episode's plugins that a worker sends, in bytes. The plugins of a larger one count as without
/// snapshots.
pub const MAX_PLUGIN_STATE: usize = 64 << 20;

/// Random name of a place, which no other place of any worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceId(pub u64);

impl Display for PlaceId {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The plugins and the seed of an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeOrigin {
    /// Name of the environment; `None` for tools without one.
    pub environment: Option<String>,
    /// Options that differ from those of the configuration.
    pub options: Vec<NamedValue>,
    /// Seed of the episode.
    pub seed: Seed,
}

impl EpisodeOrigin {
    /// That of an episode of this environment.
    pub(crate) fn of(served: &ServedEnvironment, seed: Seed) -> Self {
        let environment = (!served.is_tools_only()).then(|| served.name().to_owned());
        Self { environment, options: served.own_options().to_vec(), seed }
    }
}

/// What a worker is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpisodeRequest {
    /// Starts an episode of this task.
    Start(EpisodeOrigin, TaskRef),
    /// Continues an episode in the state that comes with the request.
    Restore(EpisodeOrigin),
    /// Takes a turn of the seat to move.
    Turn(Reply),
    /// Answers a call that an agent program makes for the seat to move.
    Call(ProgramCall),
    /// Reads the privileged view.
    Privileged,
    /// Draws the state.
    Render,
    /// Ends and scores the episode.
    Finish(FinishOrder),
    /// Forgets the place.
    Release,
}

/// A call of an agent program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramCall {
    /// The call.
    pub call: Call,
    /// Whether the front's transcript holds it already.
    pub listed: bool,
    /// Most calls of the episode.
    pub most: u32,
}

/// The end of an episode, which the front decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishOrder {
    /// Id of the record.
    pub record: EpisodeId,
    /// Task.
    pub task: TaskRef,
    /// Seed.
    pub seed: Seed,
    /// How the episode ended.
    pub ending: Ending,
    /// Time since its start, in milliseconds.
    pub age_ms: f64,
    /// Whether the worker scores the episode.
    pub scored: bool,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpisodeOutcome {
    /// The episode has started.
    Started,
    /// The environment did not start.
    NotStarted {
        /// The failure.
        failure: Failure,
        /// Outbound calls that the environment made before.
        exchanges: Vec<Exchange>,
        /// Lines that it logged before.
        logs: Vec<LogEntry>,
    },
    /// The episode continues.
    Restored,
    /// The turn was taken; with the ending by the environment, if it ended.
    Turn(Option<Ending>),
    /// The call was answered, with the ending by the environment, or refused.
    Called(Result<Option<Ending>, CallRefusal>),
    /// The privileged view.
    Privileged(Vec<NamedValue>),
    /// A picture of the state.
    Rendered(Image),
    /// The record, instead of the host's part.
    Finished,
    /// The place is forgotten.
    Released,
    /// The request failed and changed nothing that a later request sees.
    Failed(ServeError),
    /// The worker does not have the episode.
    Unknown,
}

/// A request with what belongs to it.
#[derive(Debug, Clone)]
pub struct PlaceRequest {
    /// The request.
    pub request: EpisodeRequest,
    /// Host's part of the episode that is restored, as JSON; else empty.
    pub data: Arc<[u8]>,
    /// State of the plugins of the episode that is restored, as JSON; else empty.
    pub plugins: Arc<[u8]>,
}

impl From<EpisodeRequest> for PlaceRequest {
    fn from(request: EpisodeRequest) -> Self {
        Self { request, data: Arc::default(), plugins: Arc::default() }
    }
}

/// An answer with what belongs to it.
#[derive(Debug, Clone)]
pub struct PlaceAnswer {
    /// The outcome.
    pub outcome: EpisodeOutcome,
    /// Host's part of the episode after the request as JSON, or its record; empty if the request does not change it.
    pub data: Arc<[u8]>,
    /// State of the plugins after the request, as JSON; empty if a plugin offers no snapshots.
    pub plugins: Arc<[u8]>,
}

impl From<EpisodeOutcome> for PlaceAnswer {
    fn from(outcome: EpisodeOutcome) -> Self {
        Self { outcome, data: Arc::default(), plugins: Arc::default() }
    }
}
