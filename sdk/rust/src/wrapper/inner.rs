//! The environment inside a wrapper. In native tests there is none, and its functions return [`Error::Denied`].

use crate::bindings::environment::exports::gymkhana::plugin::environment as wit;
#[cfg(target_arch = "wasm32")]
use crate::bindings::wrapper::gymkhana::wrapper::inner as host;
use crate::environment::{Action, Advice, Info, Picture, ResetResult, Split, StepResult};
use crate::{Content, Error, NamedValue, Range, Task};

/// Functions of the environment inside without a host.
#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::missing_const_for_fn, reason = "the functions have the signatures of the host's")]
mod host {
    use super::{Action, Advice, Content, NamedValue, Picture, Task, wit};
    use crate::{Error, Range};

    fn none<T>() -> Result<T, Error> {
        Err(Error::Denied("no environment is inside in native tests".to_owned()))
    }

    pub fn describe() -> wit::Info {
        wit::Info {
            summary: String::new(),
            seats: vec![],
            options: vec![],
            reward_range: Range { low: 0.0, high: 0.0 },
        }
    }

    pub fn splits() -> Result<Vec<wit::SplitInfo>, Error> {
        none()
    }

    pub fn reset(_task: &Task, _seed: u64) -> Result<wit::ResetResult, Error> {
        none()
    }

    pub fn step(_episode: u32, _action: &Action) -> Result<wit::StepResult, Error> {
        none()
    }

    pub fn close(_episode: u32) {}

    pub fn snapshot(_episode: u32) -> Result<Vec<u8>, Error> {
        none()
    }

    pub fn restore(_snapshot: &[u8]) -> Result<u32, Error> {
        none()
    }

    pub fn state_key(_episode: u32) -> Result<Vec<u8>, Error> {
        none()
    }

    pub fn privileged(_episode: u32) -> Result<Vec<NamedValue>, Error> {
        none()
    }

    pub fn advise(_episode: u32, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        none()
    }

    pub fn guidance(_episode: u32) -> Result<Content, Error> {
        none()
    }

    pub fn render(_episode: u32) -> Result<Picture, Error> {
        none()
    }
}

/// Description of the environment inside.
#[derive(Debug, Clone, PartialEq)]
pub struct InnerInfo(wit::Info);

impl InnerInfo {
    /// Description of the environment inside.
    #[must_use]
    pub fn read() -> Self {
        Self(host::describe())
    }

    /// One-line description.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.0.summary
    }

    /// Seat names.
    #[must_use]
    pub fn seats(&self) -> &[String] {
        &self.0.seats
    }

    /// Bounds of the sum of one seat's rewards over an episode.
    #[must_use]
    pub fn reward_range(&self) -> Range {
        self.0.reward_range
    }

    /// Description with another summary, and the seats and rewards of the environment inside.
    #[must_use]
    pub fn described(&self, summary: impl Into<String>) -> Info {
        let Range { low, high } = self.reward_range();
        Info::new(summary, self.seats().iter().cloned()).reward_range(low, high)
    }
}

/// Splits of the environment inside, under its options.
///
/// # Errors
///
/// Errors of the environment.
pub fn inner_splits() -> Result<Vec<Split>, Error> {
    host::splits()
}

/// Episode of the environment inside. Dropping it closes the episode.
#[derive(Debug)]
pub struct Inner(u32);

impl Inner {
    /// Starts an episode. The wrapper chooses task and seed.
    ///
    /// # Errors
    ///
    /// Errors of the environment, such as for an unknown task.
    pub fn reset(task: &Task, seed: u64) -> Result<(Self, ResetResult), Error> {
        let wit::ResetResult { episode, observations, functions, tool_setups, next_seat } = host::reset(task, seed)?;
        Ok((Self(episode), ResetResult { observations, functions, tool_setups, next_seat }))
    }

    /// Applies an action of the seat to move.
    ///
    /// # Errors
    ///
    /// Errors of the environment, such as for a step after the end.
    pub fn step(&self, action: &Action) -> Result<StepResult, Error> {
        host::step(self.0, action)
    }

    /// Complete state of the episode.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the environment offers no snapshots, and its own errors.
    pub fn snapshot(&self) -> Result<Vec<u8>, Error> {
        host::snapshot(self.0)
    }

    /// New episode with the state of a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes; [`Error::NotFound`] if the environment offers no snapshots.
    pub fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        host::restore(snapshot).map(Self)
    }

    /// Canonical form of the state.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the environment offers no state keys, and its own errors.
    pub fn state_key(&self) -> Result<Vec<u8>, Error> {
        host::state_key(self.0)
    }

    /// Facts for rewards and teachers, hidden from policies. A wrapper that shows them in an observation reveals them.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the environment offers no privileged view, and its own errors.
    pub fn privileged(&self) -> Result<Vec<NamedValue>, Error> {
        host::privileged(self.0)
    }

    /// Next turn of the oracle for the seat to move.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the environment has no oracle, and its own errors.
    pub fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        host::advise(self.0, tools, results)
    }

    /// Hint after a failed attempt.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the environment gives none, and its own errors.
    pub fn guidance(&self) -> Result<Content, Error> {
        host::guidance(self.0)
    }

    /// Picture of the state.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if the environment draws none, and its own errors.
    pub fn render(&self) -> Result<Picture, Error> {
        host::render(self.0)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        host::close(self.0);
    }
}
