//! Code that stands in for a component without a sandbox, such as a Python class that its author prototypes.
//!
//! It implements the functions of the contract in the contract's own types, so that its results pass the same checks as
//! those of a component. Nothing limits its time, memory or access.

use gymkhana_record::{Call, Ending, FailureKind, NamedValue, Seed, TaskRef};

use crate::{Action, CallError, OptionalInterface, Trajectory};

/// Results in the types of the contract, before any check.
pub mod contract {
    pub use crate::bindings::exports::gymkhana::plugin::environment::{
        Info as EnvironmentInfo, Observation, ResetResult, SeatFunctions, SeatReward, SplitInfo, StepResult, ToolSetup,
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
pub type PluginResult<R> = Result<R, CallError>;

/// Code of one plugin. Handles name its episodes or sessions. Only functions of the plugin's kinds are called, and those
/// of optional interfaces only if it offers them; by default they refuse the call.
///
/// Functions may block: a thread of a runtime hands its other tasks to another thread meanwhile.
#[allow(clippy::missing_errors_doc, reason = "every function fails if the author's code fails")]
pub trait Unsandboxed: Send + Sync {
    /// Whether it offers an optional interface.
    fn offers(&self, interface: OptionalInterface) -> bool;

    /// Whether a replay answers its tool calls from the record, without a call of the code.
    fn replays_from_record(&self) -> bool {
        false
    }

    /// Describes the environment.
    fn describe_environment(&self) -> PluginResult<contract::EnvironmentInfo> {
        not_offered()
    }

    /// Splits of the environment under these options.
    fn splits(&self, _options: &[NamedValue]) -> PluginResult<Vec<contract::SplitInfo>> {
        not_offered()
    }

    /// Starts an episode.
    fn reset(&self, _task: &TaskRef, _options: &[NamedValue], _seed: Seed) -> PluginResult<contract::ResetResult> {
        not_offered()
    }

    /// Performs an action of a seat.
    fn step(&self, _episode: u32, _seat: u32, _action: Action<'_>) -> PluginResult<contract::StepResult> {
        not_offered()
    }

    /// Canonical form of an episode's state.
    fn state_key(&self, _episode: u32) -> PluginResult<Vec<u8>> {
        not_offered()
    }

    /// Values of an episode for rewards and teachers.
    fn privileged(&self, _episode: u32) -> PluginResult<Vec<contract::NamedValue>> {
        not_offered()
    }

    /// The expert's next turn.
    fn advise(&self, _episode: u32, _tools: &[String], _results: &[String]) -> PluginResult<contract::Advice> {
        not_offered()
    }

    /// A hint after a failed attempt.
    fn guidance(&self, _episode: u32) -> PluginResult<Vec<contract::Part>> {
        not_offered()
    }

    /// Rendering of an episode's state.
    fn render(&self, _episode: u32) -> PluginResult<contract::Picture> {
        not_offered()
    }

    /// Describes the tool.
    fn describe_tool(&self) -> PluginResult<contract::ToolInfo> {
        not_offered()
    }

    /// Functions of the tool under these options.
    fn functions(&self, _options: &[NamedValue]) -> PluginResult<Vec<contract::Function>> {
        not_offered()
    }

    /// Opens a session and returns its handle.
    fn open(&self, _setup: Option<&[u8]>, _options: &[NamedValue], _seed: Seed) -> PluginResult<u32> {
        not_offered()
    }

    /// Calls a function of the tool.
    fn call(&self, _session: u32, _call: &Call) -> PluginResult<contract::Answer> {
        not_offered()
    }

    /// Values of a session for rewards.
    fn final_view(&self, _session: u32) -> PluginResult<Vec<contract::NamedValue>> {
        not_offered()
    }

    /// Describes the reward.
    fn describe_reward(&self) -> PluginResult<contract::RewardInfo> {
        not_offered()
    }

    /// Scores a group of attempts at one task.
    fn score(
        &self,
        _group: &[Trajectory<'_>],
        _options: &[NamedValue],
        _training_step: u64,
    ) -> PluginResult<Vec<Vec<contract::SeatScore>>> {
        not_offered()
    }

    /// State of an episode or a session.
    fn snapshot(&self, _handle: u32) -> PluginResult<Vec<u8>> {
        not_offered()
    }

    /// Opens an episode or a session in the state of a snapshot and returns its handle.
    fn restore(&self, _snapshot: &[u8]) -> PluginResult<u32> {
        not_offered()
    }

    /// Closes an episode or a session.
    fn close(&self, _handle: u32) -> PluginResult<()> {
        not_offered()
    }

    /// Forgets an episode or a session that was dropped, without a call of the author's code.
    fn forget(&self, handle: u32);
}

/// Answer of a function that the code does not have.
fn not_offered<R>() -> PluginResult<R> {
    Err(CallError::new(FailureKind::Refused, "the plugin does not offer this function"))
}

/// Reason for the end of an episode in the type of the contract.
#[must_use]
pub const fn contract_ending(ending: Ending) -> contract::Ending {
    match ending {
        Ending::Terminated => contract::Ending::Terminated,
        Ending::Truncated => contract::Ending::Truncated,
        Ending::TurnLimit => contract::Ending::TurnLimit,
        Ending::ContextLimit => contract::Ending::TokenLimit,
        Ending::CallLimit => contract::Ending::CallLimit,
        Ending::TimeLimit => contract::Ending::TimeLimit,
        Ending::EnvironmentFailed | Ending::AgentFailed => contract::Ending::Failed,
        Ending::EarlyStopped | Ending::Dropped => contract::Ending::Other,
    }
}
