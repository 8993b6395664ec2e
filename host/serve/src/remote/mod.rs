//! Sessions whose plugin instances live on workers: the seam between the table of sessions and the workers' bus.
//!
//! ```text
//!  front: table, endpoints, records                     worker: sandbox
//!  RemoteEpisode ── PlaceRequest ──► WorkerPlace ──► EpisodeHost ── plays it with the code of a server without workers
//!      ▲  ◄── PlaceAnswer: outcome, the host's part of the episode, state of its plugins ──┘
//! ```
//!
//! The front keeps the host's part of each episode and the newest state of its plugins. A lost worker costs it nothing but
//! the turn in progress, which another worker repeats from that state.

mod agent;
mod episode;
mod host;
mod instances;
mod ledger;
mod messages;
mod places;

pub use agent::AgentWorkers;
pub(crate) use episode::{RemoteEpisode, RemoteError, lost_worker};
pub use host::EpisodeHost;
pub(crate) use instances::{default_live, finish, restore, save};
pub use messages::{
    EpisodeOrigin, EpisodeOutcome, EpisodeRequest, FinishOrder, MAX_PLUGIN_STATE, PlaceAnswer, PlaceId, PlaceRequest,
    ProgramCall,
};
pub(crate) use places::unplaced;
pub(crate) use places::{MAX_LOST, awaited_place};
pub use places::{PlaceCounts, PlaceFuture, PlaceLost, SessionWorkers, WorkerPlace};
