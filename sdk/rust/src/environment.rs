//! Worlds that agents act in.
//!
//! ```
//! use gymkhana_sdk::environment::{Action, Environment, Info, Split, Started, Stepped};
//! use gymkhana_sdk::{Error, Options, Task};
//!
//! /// Ends at once when the agent says yes.
//! struct Consent;
//!
//! impl Environment for Consent {
//!     fn info() -> Info {
//!         Info::new("Say yes", ["agent"]).rewards(0.0, 1.0)
//!     }
//!
//!     fn splits(_options: &Options) -> Result<Vec<Split>, Error> {
//!         Ok(vec![Split::of("train", 1)])
//!     }
//!
//!     fn start(_task: &Task, _options: &Options, _seed: u64) -> Result<(Self, Started), Error> {
//!         Ok((Self, Started::observe("Yes or no?")))
//!     }
//!
//!     fn step(&mut self, action: Action) -> Result<Stepped, Error> {
//!         let yes = action.text() == "yes";
//!         let stepped = Stepped::observe("Thank you.").extra("success", yes);
//!         Ok(stepped.reward(if yes { 1.0 } else { 0.0 }).end())
//!     }
//! }
//! ```

mod episode;
mod exported;

pub use episode::Episode;
pub use exported::Exported;

use crate::bindings::environment::exports::gymkhana::plugin::environment as wit;
pub use crate::bindings::environment_oracle::exports::gymkhana::plugin::environment_oracle::Advice;
pub use crate::bindings::environment_render::exports::gymkhana::plugin::environment_render::Picture;
use crate::{
    Call, Content, Error, Function, NamedValue, OptionInfo, Options, Range, Task, Value, named, text, text_of,
};
pub use wit::{Action, Deed, Observation, SeatFunctions, SeatReward, SplitInfo as Split, Stepped, ToolSetup};

/// A world. The implementing type is one episode's state.
///
/// The same task, options, seed and actions must give the same bytes, always: draw from [`crate::Rng`] with the
/// episode's seed, and keep no state outside the type.
pub trait Environment: Sized + 'static {
    /// What it is, for people and for the host.
    fn info() -> Info;

    /// The splits under these options. Splits never share a task.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when options contradict each other.
    fn splits(options: &Options) -> Result<Vec<Split>, Error>;

    /// Starts an episode: its state and its first observations.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a task that there is not; see [`Error::no_split`].
    fn start(task: &Task, options: &Options, seed: u64) -> Result<(Self, Started), Error>;

    /// Acts. The SDK has checked that the episode goes on and that it is this seat's turn. An action that the
    /// rules forbid is answered in an observation; it is no error.
    ///
    /// # Errors
    ///
    /// Only what is the host's mistake, such as a call of a function that was never offered.
    fn step(&mut self, action: Action) -> Result<Stepped, Error>;
}

/// Optional: the whole state as bytes.
pub trait Snapshot: Environment {
    /// The state; [`crate::snapshot::Writer`] helps.
    fn snapshot(&self) -> Vec<u8>;

    /// The state that `snapshot` saw.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for other bytes.
    fn restore(snapshot: &[u8]) -> Result<Self, Error>;
}

/// Optional: a canonical form of the state.
pub trait StateKey: Environment {
    /// Equal states give equal bytes, whatever path led there.
    fn state_key(&self) -> Vec<u8>;
}

/// Optional: what rewards and teachers may see and a policy never does.
pub trait Privileged: Environment {
    /// Facts such as `answer`.
    fn privileged(&self) -> Vec<NamedValue>;
}

/// Optional: the expert.
pub trait Oracle: Environment {
    /// The expert's next turn for the seat to move. `tools` names the functions that the run's tools offer;
    /// `results` holds the answers to the calls of the expert's previous turn, as text, in their order.
    ///
    /// # Errors
    ///
    /// When the expert is at a loss.
    fn advise(&self, tools: &[String], results: &[String]) -> Result<Advice, Error>;
}

/// Optional: help for another attempt.
pub trait Guidance: Environment {
    /// A hint that does not give the answer away, after an attempt that failed.
    fn guidance(&self) -> Content;
}

/// Optional: a picture for people.
pub trait Render: Environment {
    /// The state, drawn.
    fn render(&self) -> Picture;
}

/// What an environment is.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    summary: String,
    seats: Vec<String>,
    options: Vec<OptionInfo>,
    rewards: Range,
}

impl Info {
    /// One line for people, and the seats in order. It has no options, and its rewards are 0.
    #[must_use]
    pub fn new<Seat: Into<String>>(summary: impl Into<String>, seats: impl IntoIterator<Item = Seat>) -> Self {
        Self {
            summary: summary.into(),
            seats: seats.into_iter().map(Into::into).collect(),
            options: Vec::new(),
            rewards: Range { low: 0.0, high: 0.0 },
        }
    }

    /// Declares one more option.
    #[must_use]
    pub fn option(mut self, option: OptionInfo) -> Self {
        self.options.push(option);
        self
    }

    /// The sum of one seat's rewards over an episode stays inside `low..=high`.
    #[must_use]
    pub fn rewards(mut self, low: f64, high: f64) -> Self {
        self.rewards = Range { low, high };
        self
    }
}

impl Split {
    /// A split of `tasks` tasks.
    #[must_use]
    pub fn of(name: impl Into<String>, tasks: u64) -> Self {
        Self { name: name.into(), tasks: Some(tasks) }
    }

    /// A split whose tasks are generated without end.
    #[must_use]
    pub fn endless(name: impl Into<String>) -> Self {
        Self { name: name.into(), tasks: None }
    }
}

/// How an episode begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Started {
    /// What the seats see first; at least one for the seat to move.
    pub observations: Vec<Observation>,
    /// Functions of the environment itself that a seat may call.
    pub functions: Vec<SeatFunctions>,
    /// What tools need for this episode. Policies never see it.
    pub setup: Vec<ToolSetup>,
    /// Whose turn it is.
    pub seat: u32,
}

impl Started {
    /// Seat 0 sees `words` and is to move.
    #[must_use]
    pub fn observe(words: impl Into<String>) -> Self {
        Self::default().show(0, text(words))
    }

    /// One more observation.
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

    /// Prepares a tool; `tool` is the plugin's name without its namespace.
    #[must_use]
    pub fn prepare(mut self, tool: impl Into<String>, bytes: Vec<u8>) -> Self {
        self.setup.push(ToolSetup { tool: tool.into(), bytes });
        self
    }

    /// Says whose turn it is.
    #[must_use]
    pub fn turn_of(mut self, seat: u32) -> Self {
        self.seat = seat;
        self
    }
}

impl Stepped {
    /// Nothing to see: the episode goes on with seat 0 unless something else is added.
    #[must_use]
    pub fn new() -> Self {
        Self {
            observations: Vec::new(),
            rewards: Vec::new(),
            terminated: false,
            truncated: false,
            extras: Vec::new(),
            seat: 0,
        }
    }

    /// Seat 0 sees `words`.
    #[must_use]
    pub fn observe(words: impl Into<String>) -> Self {
        Self::new().show(0, text(words))
    }

    /// One more observation.
    #[must_use]
    pub fn show(mut self, seat: u32, content: Content) -> Self {
        self.observations.push(Observation { seat, content });
        self
    }

    /// Seat 0 earns `reward`.
    #[must_use]
    pub fn reward(self, reward: f64) -> Self {
        self.reward_to(0, reward)
    }

    /// A seat earns `reward`.
    #[must_use]
    pub fn reward_to(mut self, seat: u32, reward: f64) -> Self {
        self.rewards.push(SeatReward { seat, reward });
        self
    }

    /// The episode is over: won, lost or otherwise decided.
    #[must_use]
    pub fn end(mut self) -> Self {
        self.terminated = true;
        self
    }

    /// The episode was cut off, for example by a turn limit.
    #[must_use]
    pub fn cut_off(mut self) -> Self {
        self.truncated = true;
        self
    }

    /// A fact for records and rewards, such as `success`; policies never see it.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extras.push(named(name, value));
        self
    }

    /// Says whose turn it is.
    #[must_use]
    pub fn turn_of(mut self, seat: u32) -> Self {
        self.seat = seat;
        self
    }
}

impl Default for Stepped {
    fn default() -> Self {
        Self::new()
    }
}

impl Action {
    /// A message of a seat.
    #[must_use]
    pub fn say(seat: u32, words: impl Into<String>) -> Self {
        Self { seat, deed: Deed::Message(text(words)) }
    }

    /// The message's text; empty for a call.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.deed {
            Deed::Message(content) | Deed::Other(content) => text_of(content),
            Deed::Call(_) => String::new(),
        }
    }

    /// The call, when the action is one.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        match &self.deed {
            Deed::Call(call) => Some(call),
            Deed::Message(_) | Deed::Other(_) => None,
        }
    }
}
