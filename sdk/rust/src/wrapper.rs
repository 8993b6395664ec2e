//! Wrappers: environments around another environment.
//!
//! The run chooses the environment inside and its options. A wrapper plays it through [`Inner`], one handle for each of
//! its episodes.
//!
//! ```
//! use gymkhana_sdk::environment::{Action, Info, ResetResult, StepResult};
//! use gymkhana_sdk::wrapper::{Inner, InnerInfo, Wrapper};
//! use gymkhana_sdk::{Error, Options, Task};
//!
//! /// Says good morning before the task.
//! struct Polite {
//!     inner: Inner,
//! }
//!
//! impl Wrapper for Polite {
//!     fn info(inner: &InnerInfo) -> Info {
//!         inner.described(format!("{}, with a greeting", inner.summary()))
//!     }
//!
//!     fn reset(task: &Task, _options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
//!         let (inner, result) = Inner::reset(task, seed)?;
//!         Ok((Self { inner }, ResetResult::observe("Good morning.").followed_by(result)))
//!     }
//!
//!     fn step(&mut self, action: Action) -> Result<StepResult, Error> {
//!         self.inner.step(&action)
//!     }
//!
//!     fn inner(&self) -> &Inner {
//!         &self.inner
//!     }
//!
//!     fn snapshot(&self) -> Vec<u8> {
//!         vec![]
//!     }
//!
//!     fn restore(_state: &[u8], inner: Vec<Inner>) -> Result<Self, Error> {
//!         Ok(Self { inner: gymkhana_sdk::wrapper::only(inner)? })
//!     }
//! }
//! ```

mod exported;
mod inner;

pub use exported::Exported;
pub use inner::{Inner, InnerInfo, inner_splits};

use crate::environment::{Action, Advice, Info, Picture, ResetResult, Split, StepResult};
use crate::{Content, Error, NamedValue, Options, Task};

/// Environment around another one. The implementing type is the state of one episode.
///
/// Equal tasks, options, seeds and actions must give equal output bytes, as for every environment. The wrapper offers the
/// optional interfaces that the environment inside offers.
pub trait Wrapper: Sized + 'static {
    /// Description around that of the environment inside. It must not depend on anything else.
    fn info(inner: &InnerInfo) -> Info;

    /// Splits under these options; those of the environment inside by default. Options are read here too, so that wrong
    /// ones are found before any episode.
    ///
    /// # Errors
    ///
    /// Invalid options, and errors of the environment inside.
    fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
        inner_splits()
    }

    /// Starts an episode.
    ///
    /// # Errors
    ///
    /// Invalid options, and errors of the environment inside.
    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error>;

    /// Applies an action. The SDK has checked that the episode is running and that the seat is to move.
    ///
    /// # Errors
    ///
    /// Mistakes of the host, and errors of the environment inside.
    fn step(&mut self, action: Action) -> Result<StepResult, Error>;

    /// The episode inside that the optional interfaces read.
    fn inner(&self) -> &Inner;

    /// All open episodes inside, which snapshots and state keys contain.
    fn episodes(&self) -> Vec<&Inner> {
        vec![self.inner()]
    }

    /// The wrapper's own state as bytes; see [`crate::snapshot::Writer`].
    fn snapshot(&self) -> Vec<u8>;

    /// State restored from the bytes of [`Wrapper::snapshot`] and the episodes inside, in the order of
    /// [`Wrapper::episodes`].
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    fn restore(state: &[u8], inner: Vec<Inner>) -> Result<Self, Error>;

    /// Canonical form of the wrapper's own state, which the keys of the episodes inside follow.
    fn state_key(&self) -> Vec<u8> {
        self.snapshot()
    }

    /// Facts for rewards and teachers, hidden from policies.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn privileged(&self) -> Result<Vec<NamedValue>, Error> {
        self.inner().privileged()
    }

    /// Next turn of the oracle for the seat to move.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error> {
        self.inner().advise(tools, results)
    }

    /// Hint after a failed attempt that does not reveal the answer.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn guidance(&self) -> Result<Content, Error> {
        self.inner().guidance()
    }

    /// Picture of the state.
    ///
    /// # Errors
    ///
    /// Errors of the environment inside.
    fn render(&self) -> Result<Picture, Error> {
        self.inner().render()
    }
}

/// The only episode of a snapshot.
///
/// # Errors
///
/// [`Error::BadSnapshot`] if there is not exactly one.
pub fn only(inner: Vec<Inner>) -> Result<Inner, Error> {
    let count = inner.len();
    let [only] = <[Inner; 1]>::try_from(inner)
        .map_err(|_| Error::bad_snapshot(format!("the snapshot has {count} episodes inside, not 1")))?;
    Ok(only)
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
