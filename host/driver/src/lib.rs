//! Drives one episode without tokens: opens the environment, asks its oracle, answers calls, steps, takes snapshots and
//! closes.
//!
//! Rollouts add policies, contexts and limits on top of it. The conformance suite and `host plugin play` use it
//! directly, so that a plugin is tested by the code that later runs it.

mod backend;
mod chain;
mod data;
mod episode;
mod finish;
mod hooks;
mod limits;
mod oracle;
mod overrides;
mod recorder;
mod saved;
mod session;
mod snapshot;
mod tools;
mod turn;

pub use backend::{BackendError, EpisodeBackend, EpisodePlace, PlacedEpisode, perform};
pub use data::{EpisodeData, Extent};
pub use episode::{Episode, EpisodeSeeds, EpisodeSetup, StartFailure};
pub use gymkhana_rules::DEFAULT_EPISODE_BYTES;
pub use hooks::{Hooks, NoHooks, TimedCall};
pub use limits::ByteBudget;
pub use limits::log::{EpisodeLog, LogRecorder};
pub use oracle::ORACLE_TURNS;
pub use overrides::CallOverrides;
pub use recorder::{ExchangeRecorder, RecordedExchanges, ToolCaller, with_recorder};
pub use saved::session::NotSaved;
pub use saved::{SavedEpisode, SavedPlugins};
pub use session::{
    DescribedEnvironment, EpisodeSequence, EpisodeSession, LiveEpisode, NextEpisode, SessionError, TaskError,
    TurnResult, UnknownOption, check_options,
};
pub use snapshot::EpisodeSnapshot;
pub use tools::reward_tools::RewardTools;
pub use tools::tool_set::{BoundPlugin, SameFunction, Tool, ToolSet, UnknownTool, unsandboxed};
pub use turn::{CallRefusal, Reply, call_id};
