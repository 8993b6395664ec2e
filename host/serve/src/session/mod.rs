//! Sessions: the table that all endpoints share, and the requests of one session.
//!
//! Plugin calls run on the sandbox's own threads, at most `sessions.running` at a time. The requests of one session run one
//! after the other, and a client that goes away does not interrupt a plugin's call.

mod ended;
mod entry;
mod episode;
mod id;
mod location;
mod place;
mod places;
mod relocations;
mod requests;
mod shared;
mod state;
mod table;
mod types;

pub use crate::metrics::SessionCounts;
pub use gymkhana_driver::NextEpisode;
pub use id::SessionId;
pub use requests::ClientSession;
pub(crate) use shared::unknown;
pub use table::SessionTable;
pub use types::{
    CallAnswer, Closed, EpisodeScore, EpisodeStatus, LastObservation, ResetResult, SessionTarget, Status, TurnAnswer,
    TurnRequest,
};
