//! The records that every part of the host shares.
//!
//! This crate is the bottom of the host: it knows neither wasmtime nor libtorch, and it does nothing but name
//! things. What a plugin says, what a policy sampled, how an episode ended and whose fault a failure was are
//! types here; the crates above move them about.

mod call_site;
mod content;
mod cost;
mod ending;
mod episode;
mod exchange;
mod failure;
mod fork;
mod id;
mod policy_turn;
mod score;
mod seed;
mod segment;
pub mod step_metrics;
mod transcript;

pub use call_site::CallSite;
pub use content::{Call, Content, Function, Media, NamedValue, Part, TaskRef, Value, text_of};
pub use cost::{CallCost, Cost};
pub use ending::Ending;
pub use episode::{EPISODE_SCHEMA, EpisodeRecord, Opening, PluginScore, SeatFunctions, SeatRewards, Timing};
pub use exchange::{
    Exchange, HttpRequest, HttpResponse, ModelMessage, ModelReply, ModelRequest, Question, Refused, Reply, Speaks,
    ToolReply,
};
pub use failure::{Boundary, Failure, FailureKind};
pub use fork::Fork;
pub use id::{EpisodeId, ParseEpisodeIdError, Phase};
pub use policy_turn::{PolicyTurn, ProbeScore};
pub use score::{Component, Evidence, Score};
pub use seed::{Seed, Stream};
pub use segment::{Sampled, Segment, SegmentColumns, SegmentError};
pub use step_metrics::{StepMetric, StepMetrics};
pub use transcript::Turn;
