//! Environments in which agents act.
//!
//! ```
//! use gymkhana_sdk::environment::{Action, Environment, Info, ResetResult, Split, StepResult};
//! use gymkhana_sdk::{Error, Task};
//!
//! /// Ends after one message; "yes" earns 1.
//! struct Consent;
//!
//! impl Environment for Consent {
//!     type Options = ();
//!
//!     fn info() -> Info {
//!         Info::new("A yes-or-no question", ["agent"]).reward_range(0.0, 1.0)
//!     }
//!
//!     fn splits(_options: &()) -> Result<Vec<Split>, Error> {
//!         Ok(vec![Split::of("train", 1)])
//!     }
//!
//!     fn reset(_task: &Task, _options: &(), _seed: u64) -> Result<(Self, ResetResult), Error> {
//!         Ok((Self, ResetResult::observe("Yes or no?")))
//!     }
//!
//!     fn step(&mut self, action: Action) -> Result<StepResult, Error> {
//!         let yes = action.text() == "yes";
//!         let stepped = StepResult::observe("Thank you.").extra("success", yes);
//!         Ok(stepped.reward(if yes { 1.0 } else { 0.0 }).end())
//!     }
//! }
//! ```

mod episode;
mod exported;
pub(crate) mod rules;

pub use episode::Episode;
pub use exported::Exported;

use crate::bindings::environment::exports::gymkhana::plugin::environment as wit;
#[doc(inline)]
pub use crate::bindings::environment_oracle::exports::gymkhana::plugin::environment_oracle::Advice;
#[doc(inline)]
pub use crate::bindings::environment_render::exports::gymkhana::plugin::environment_render::Picture;
use crate::{Content, Error, Function, NamedValue, PluginOptions, Range, Task, options, text};
#[doc(inline)]
pub use wit::{Action, ActionBody, Observation, SeatFunctions, SeatReward, SplitInfo as Split, StepResult, ToolSetup};

/// Environment. The implementing type is the state of one episode.
///
/// Equal tasks, options, seeds and actions must give equal output bytes: draw random numbers from [`crate::Rng`] with
/// the episode's seed, and keep all state in the type.
pub trait Environment: Sized + 'static {
    /// Options that a run file may set; `()` for none.
    type Options: PluginOptions;

    /// Description of the environment.
    fn info() -> Info;

    /// Splits under these options. Splits must not share tasks.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for contradicting options.
    fn splits(options: &Self::Options) -> Result<Vec<Split>, Error>;

    /// Starts an episode; returns its state and first observations.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an unknown task; see [`Error::no_split`].
    fn reset(task: &Task, options: &Self::Options, seed: u64) -> Result<(Self, ResetResult), Error>;

    /// Applies an action. The SDK has checked that the episode is running and that the seat is to move. An action that
    /// breaks the rules is answered by an observation, not by an error.
    ///
    /// # Errors
    ///
    /// Mistakes of the host, such as a call of a function that was not offered.
    fn step(&mut self, action: Action) -> Result<StepResult, Error>;
}

/// Optional interface: the complete state as bytes.
pub trait Snapshot: Environment {
    /// Serialized state; see [`crate::snapshot::Writer`].
    fn snapshot(&self) -> Vec<u8>;

    /// State restored from a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    fn restore(snapshot: &[u8]) -> Result<Self, Error>;
}

/// Optional interface: canonical form of the state.
pub trait StateKey: Environment {
    /// Canonical bytes: equal states give equal bytes, independent of the path to them.
    fn state_key(&self) -> Vec<u8>;
}

/// Optional interface: facts for rewards and teachers, hidden from policies.
pub trait Privileged: Environment {
    /// Facts such as `answer`.
    fn privileged(&self) -> Vec<NamedValue>;
}

/// Optional interface: an expert that demonstrates solutions.
pub trait Oracle: Environment {
    /// Next turn of the oracle for the seat to move. `tools` lists the function names of the run's tools. `results`
    /// lists the answers to the calls of the oracle's previous turn, as text, in call order.
    ///
    /// # Errors
    ///
    /// States for which the oracle has no advice.
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error>;
}

/// Optional interface: hints for another attempt.
pub trait Guidance: Environment {
    /// Hint after a failed attempt that does not reveal the answer.
    fn guidance(&self) -> Content;
}

/// Optional interface: human-readable pictures.
pub trait Render: Environment {
    /// Picture of the state.
    fn render(&self) -> Picture;
}

/// Description of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    summary: String,
    seats: Vec<String>,
    reward_range: Range,
}

impl Info {
    /// Description with a one-line summary and seat names, and with rewards of 0.
    #[must_use]
    pub fn new<Seat: Into<String>>(summary: impl Into<String>, seats: impl IntoIterator<Item = Seat>) -> Self {
        Self {
            summary: summary.into(),
            seats: seats.into_iter().map(Into::into).collect(),
            reward_range: Range { low: 0.0, high: 0.0 },
        }
    }

    /// Sets inclusive bounds of the sum of one seat's rewards over an episode.
    #[must_use]
    pub fn reward_range(mut self, low: f64, high: f64) -> Self {
        self.reward_range = Range { low, high };
        self
    }

    /// Record of the contract with the options of a type.
    pub(crate) fn into_wit<O: PluginOptions>(self) -> wit::Info {
        let Self { summary, seats, reward_range } = self;
        wit::Info { summary, seats, options: options::to_wit::<O>(), reward_range }
    }
}

/// Start of an episode: result of [`Environment::reset`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResetResult {
    /// First observations; at least one for the seat to move.
    pub observations: Vec<Observation>,
    /// Functions of the environment that a seat may call.
    pub functions: Vec<SeatFunctions>,
    /// Set-up data for tools. Policies never see it.
    pub tool_setups: Vec<ToolSetup>,
    /// Seat to move.
    pub next_seat: u32,
}

impl ResetResult {
    /// Start with one observation, for seat 0, which is to move.
    #[must_use]
    pub fn observe(words: impl Into<String>) -> Self {
        Self::default().show(0, text(words))
    }

    /// Adds an observation.
    #[must_use]
    pub fn show(mut self, seat: u32, content: Content) -> Self {
        self.observations.push(Observation { seat, content });
        self
    }

    /// Offers functions to a seat.
    #[must_use]
    pub fn offer(mut self, seat: u32, functions: Vec<Function>) -> Self {
        self.functions.push(SeatFunctions { seat, functions });
        self
    }

    /// Record of the contract for an episode with this handle.
    pub(crate) fn into_wit(self, episode: u32) -> wit::ResetResult {
        let Self { observations, functions, tool_setups, next_seat } = self;
        wit::ResetResult { episode, observations, functions, tool_setups, next_seat }
    }

    /// Adds set-up data for a tool; `tool` is the plugin's name without its namespace.
    #[must_use]
    pub fn tool_setup(mut self, tool: impl Into<String>, bytes: Vec<u8>) -> Self {
        self.tool_setups.push(ToolSetup { tool: tool.into(), bytes });
        self
    }

    /// Sets the seat to move.
    #[must_use]
    pub fn next_seat(mut self, seat: u32) -> Self {
        self.next_seat = seat;
        self
    }
}
