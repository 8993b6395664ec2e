//! Code that stands in for a component without a sandbox, such as a Python class that its author prototypes.
//!
//! It implements the functions of the contract in the contract's own types, so that its results pass the same checks as
//! those of a component. Nothing limits its time, memory or access.

use gymkhana_record::{Call, Ending, NamedValue, Seed, TaskRef};

use crate::bindings::exports::gymkhana::plugin::reward;
use crate::{Action, CallError, OptionalInterface, Trajectory};

/// Results in the types of the contract, before any check.
pub mod contract {
    pub use crate::bindings::exports::gymkhana::plugin::environment::{
        Info as EnvironmentInfo, Observation, SeatFunctions, SeatReward, SplitInfo, Started, Stepped, ToolSetup,
    };
    pub use crate::bindings::exports::gymkhana::plugin::environment_oracle::Advice;
    pub use crate::bindings::exports::gymkhana::plugin::environment_render::Picture;
    pub use crate::bindings::exports::gymkhana::plugin::reward::{
        Component, ComponentInfo, Ending, Evidence, Info as RewardInfo, SeatScore,
    };
    pub use crate::bindings::exports::gymkhana::plugin::tool::{Answer, Info as ToolInfo};
    pub use crate::bindings::gymkhana::plugin::types::{
        CallResult as Call, Error, Function, MediaResult as Media, NamedValueResult as NamedValue, OptionInfo,
        PartResult as Part, Range, ValueResult as Value,
    };
}

/// Result of a function of the contract. An error with the author's own variant
/// ([`CallError::refused`]) leaves the episode or the session usable; every other one ends it.
pub type Outcome<R> = Result<R, CallError>;

/// Code of one plugin. Handles name its episodes or sessions. Only functions of the plugin's kinds are called, and those
/// of optional interfaces only if it offers them.
///
/// Functions may block: a thread of a runtime hands its other tasks to another thread meanwhile.
#[allow(clippy::missing_errors_doc, reason = "every function fails if the author's code fails")]
pub trait Unsandboxed: Send + Sync {
    /// Whether it offers an optional interface.
    fn offers(&self, interface: OptionalInterface) -> bool;

    /// Describes the environment.
    fn describe_environment(&self) -> Outcome<contract::EnvironmentInfo>;

    /// Splits of the environment under these options.
    fn splits(&self, options: &[NamedValue]) -> Outcome<Vec<contract::SplitInfo>>;

    /// Starts an episode.
    fn start(&self, task: &TaskRef, options: &[NamedValue], seed: Seed) -> Outcome<contract::Started>;

    /// Performs an action of a seat.
    fn step(&self, episode: u32, seat: u32, action: Action<'_>) -> Outcome<contract::Stepped>;

    /// Canonical form of an episode's state.
    fn state_key(&self, episode: u32) -> Outcome<Vec<u8>>;

    /// Values of an episode for rewards and teachers.
    fn privileged(&self, episode: u32) -> Outcome<Vec<contract::NamedValue>>;

    /// The expert's next turn.
    fn advise(&self, episode: u32, tools: &[String], results: &[String]) -> Outcome<contract::Advice>;

    /// A hint after a failed attempt.
    fn guidance(&self, episode: u32) -> Outcome<Vec<contract::Part>>;

    /// Rendering of an episode's state.
    fn render(&self, episode: u32) -> Outcome<contract::Picture>;

    /// Describes the tool.
    fn describe_tool(&self) -> Outcome<contract::ToolInfo>;

    /// Functions of the tool under these options.
    fn functions(&self, options: &[NamedValue]) -> Outcome<Vec<contract::Function>>;

    /// Opens a session and returns its handle.
    fn open(&self, setup: Option<&[u8]>, options: &[NamedValue], seed: Seed) -> Outcome<u32>;

    /// Calls a function of the tool.
    fn call(&self, session: u32, call: &Call) -> Outcome<contract::Answer>;

    /// Values of a session for rewards.
    fn final_view(&self, session: u32) -> Outcome<Vec<contract::NamedValue>>;

    /// Describes the reward.
    fn describe_reward(&self) -> Outcome<contract::RewardInfo>;

    /// Scores a group of attempts at one task.
    fn score(
        &self,
        group: &[Trajectory<'_>],
        options: &[NamedValue],
        training_step: u64,
    ) -> Outcome<Vec<Vec<contract::SeatScore>>>;

    /// State of an episode or a session.
    fn snapshot(&self, handle: u32) -> Outcome<Vec<u8>>;

    /// Opens an episode or a session in the state of a snapshot and returns its handle.
    fn restore(&self, snapshot: &[u8]) -> Outcome<u32>;

    /// Closes an episode or a session.
    fn close(&self, handle: u32) -> Outcome<()>;

    /// Forgets an episode or a session that was dropped, without a call of the author's code.
    fn forget(&self, handle: u32);
}

impl From<Ending> for reward::Ending {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Terminated => Self::Terminated,
            Ending::Truncated => Self::Truncated,
            Ending::TurnLimit => Self::TurnLimit,
            Ending::ContextLimit => Self::TokenLimit,
            Ending::CallLimit => Self::CallLimit,
            Ending::TimeLimit => Self::TimeLimit,
            Ending::EnvironmentFailed | Ending::AgentFailed => Self::Failed,
            Ending::EarlyStopped | Ending::Dropped => Self::Other,
        }
    }
}
