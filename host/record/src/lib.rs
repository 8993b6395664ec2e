//! Types of episode records, which all crates of the host share: turns, calls, segments of tokens, scores, endings and
//! failures.
//!
//! The crate depends on no other crate of the host, on neither wasmtime nor libtorch, and makes no I/O.

pub mod bytes;
mod call;
mod content;
mod ending;
mod episode;
mod id;
mod policy_turn;
mod progress;
mod score;
mod seed;
mod segment;
mod size;
pub mod step_metrics;
mod transcript;

pub use call::{
    AgentCall, AgentRun, Boundary, CallCost, CallSite, Cost, Exchange, Failure, FailureKind, HttpRequest, HttpResponse,
    LOG_TRUNCATED, LogBudget, LogEntry, LogLevel, ModelMessage, ModelReply, ModelRequest, ModelRole, Question, Refused,
    Reply, ToolReply,
};
pub use content::{Call, Content, Function, Media, NamedValue, Part, TaskRef, Value, WrittenCall, text_of};
pub use ending::{Ending, ParseEndingError};
pub use episode::{EPISODE_SCHEMA, EpisodeRecord, Fork, Opening, PluginScore, SeatFunctions, SeatRewards, Timing};
pub use id::{EpisodeId, ParseEpisodeIdError, Phase};
pub use policy_turn::{PolicyTurn, ProbeScore};
pub use progress::{Added, AddedCall, AddedReply, TreeReply, segments_of, tokens_of};
pub use score::{Component, Evidence, Score};
pub use seed::{Seed, Stream};
pub use segment::{Sampled, Segment, SegmentColumns, SegmentError};
pub use size::{json_values_at_most, stored_bytes};
pub use step_metrics::{StepMetric, StepMetrics};
pub use transcript::{Turn, set_call_cost};
