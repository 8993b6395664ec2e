//! Wrappers: environments around another environment.
//!
//! The run chooses the environment inside and its options. A wrapper plays it through [`Inner`], one handle for each of
//! its episodes. The SDK keeps the options, the wrapper's own state and the episodes inside, and snapshots contain all of
//! them.
//!
//! ```
//! use gymkhana_sdk::environment::{Info, ResetResult};
//! use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper};
//! use gymkhana_sdk::{Error, Task};
//!
//! /// Says good morning before the task.
//! struct Polite;
//!
//! impl Wrapper for Polite {
//!     type Options = ();
//!     type State = ();
//!
//!     fn info(inner: &InnerInfo) -> Info {
//!         inner.described(format!("{}, with a greeting", inner.summary()))
//!     }
//!
//!     fn reset(task: &Task, _options: &(), seed: u64) -> Result<((), Vec<Inner>, ResetResult), Error> {
//!         let (inner, result) = Inner::reset(task, seed)?;
//!         Ok(((), vec![inner], ResetResult::observe("Good morning.").followed_by(result)))
//!     }
//! }
//! ```

mod exported;
mod inner;

pub use exported::Exported;
pub use inner::{Inner, InnerInfo, inner_splits};

use crate::environment::{Action, Advice, Info, Picture, ResetResult, Split, StepResult};
use crate::snapshot::{SnapshotState, Writer};
use crate::{Content, Error, NamedValue, PluginOptions, Task};

/// Environment around another one.
///
/// Equal tasks, options, seeds and actions must give equal output bytes, as for every environment: keep what changes
/// during an episode in its state. The wrapper offers the optional interfaces that the environment inside offers.
pub trait Wrapper: Sized + 'static {
    /// Options that a run file may set; `()` for none.
    type Options: PluginOptions;

    /// The wrapper's own state of an episode; `()` for none.
    type State: SnapshotState;

    /// Description around that of the environment inside. It must not depend on anything else.
    fn info(inner: &InnerInfo) -> Info;

    /// Splits under these options; those of the environment inside by default. Options are read here too, so that wrong
    /// ones are found before any episode.
    ///
    /// # Errors
    ///
    /// Invalid options, and errors of the environment inside.
    fn splits(_options: &Self::Options) -> Result<Vec<Split>, Error> {
        inner_splits()
    }

    /// Starts an episode; returns the wrapper's own state, the episodes inside (at least one) and the first observations.
    ///
    /// # Errors
    ///
    /// Invalid options, and errors of the environment inside.
    fn reset(task: &Task, options: &Self::Options, seed: u64) -> Result<(Self::State, Vec<Inner>, ResetResult), Error>;

    /// Applies an action; by default to the environment inside. The SDK has checked that the episode is running and that
    /// the seat is to move.
    ///
    /// # Errors
    ///
    /// Mistakes of the host, and errors of the environment inside.
    fn step(episode: &mut Episode<Self>, action: Action) -> Result<StepResult, Error> {
        episode.inner().step(&action)
    }

    /// Index of the episode inside that the optional interfaces read; 0 by default.
    fn current(_state: &Self::State) -> usize {
        0
    }

    /// Canonical form of the wrapper's own state, which the keys of the episodes inside follow.
    fn state_key(state: &Self::State) -> Vec<u8> {
        state.write(Writer::new()).finish()
    }

    /// Facts for rewards and teachers, hidden from policies.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn privileged(episode: &Episode<Self>) -> Result<Vec<NamedValue>, Error> {
        episode.inner().privileged()
    }

    /// Next turn of the oracle for the seat to move.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn advise(episode: &Episode<Self>, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        episode.inner().advise(tools, results)
    }

    /// Hint after a failed attempt that does not reveal the answer.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn guidance(episode: &Episode<Self>) -> Result<Content, Error> {
        episode.inner().guidance()
    }

    /// Picture of the state.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn render(episode: &Episode<Self>) -> Result<Picture, Error> {
        episode.inner().render()
    }
}

/// Episode of a wrapper.
pub struct Episode<W: Wrapper> {
    /// Options of the run.
    pub options: W::Options,
    /// The wrapper's own state.
    pub state: W::State,
    /// Episodes inside; at least one.
    pub episodes: Vec<Inner>,
}

impl<W: Wrapper> Episode<W> {
    /// The current episode inside; see [`Wrapper::current`].
    #[must_use]
    pub fn inner(&self) -> &Inner {
        &self.episodes[W::current(&self.state).min(self.episodes.len() - 1)]
    }
}

impl ResetResult {
    /// This start before another one, whose functions, set-up and seat are added.
    #[must_use]
    pub fn followed_by(mut self, other: Self) -> Self {
        self.observations.extend(other.observations);
        self.functions.extend(other.functions);
        self.tool_setups.extend(other.tool_setups);
        self.next_seat = other.next_seat;
        self
    }
}
