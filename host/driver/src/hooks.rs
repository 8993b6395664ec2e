//! Additions of an episode's owner: timers, a view of the transcript, and functions that the owner answers itself.

use gymkhana_record::{Call, Turn};
use gymkhana_sandbox::StepResult;

/// The kind of plugin call that a timer measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedCall {
    /// A call of the environment.
    Environment,
    /// A call of a tool, with the start of its session.
    Tool,
}

/// Callbacks of an episode.
pub trait Hooks: Send + Sync {
    /// Guard that is held while a plugin runs a call.
    type Timer: Send;

    /// Starts a timer.
    fn time(&self, call: TimedCall) -> Self::Timer;

    /// Receives each turn before it joins the transcript.
    fn recorded(&mut self, _turn: &Turn) {}

    /// Receives the result of each step before it joins the transcript.
    fn stepped(&mut self, _result: &StepResult) {}

    /// Answers a call of one of the owner's functions; `None` if the owner has no such function.
    ///
    /// # Errors
    /// If the call fails, with the reason for the agent.
    fn answer(&mut self, _seat: u32, _call: &Call) -> Option<Result<String, String>> {
        None
    }
}

/// Hooks that do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {
    type Timer = ();

    fn time(&self, _call: TimedCall) {}
}
