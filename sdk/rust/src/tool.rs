//! Functions that a policy may call, with state of their own for each episode.

mod exported;
mod session;

pub use exported::Exported;
pub use session::Session;

pub use crate::bindings::tool::exports::gymkhana::plugin::tool::Answer;
use crate::{Call, Content, Error, Function, NamedValue, OptionInfo, Options, text};

/// A tool. The implementing type is one session's state: what the tool remembers during one episode.
pub trait Tool: Sized + 'static {
    /// What it is, for people and for the host.
    fn info() -> Info;

    /// The functions under these options.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when options contradict each other.
    fn functions(options: &Options) -> Result<Vec<Function>, Error>;

    /// Opens a session. `setup` is what the environment prepared for this tool, if anything.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a setup that the tool cannot use.
    fn open(setup: Option<Vec<u8>>, options: &Options, seed: u64) -> Result<Self, Error>;

    /// Calls a function. What the agent did wrong comes back as a failed answer, in words that help; see
    /// [`Answer::from`].
    ///
    /// # Errors
    ///
    /// Only what is the host's mistake, such as a capability that was refused.
    fn call(&mut self, call: &Call) -> Result<Answer, Error>;
}

/// Optional: a session's whole state as bytes.
pub trait Snapshot: Tool {
    /// The state; [`crate::snapshot::Writer`] helps.
    fn snapshot(&self) -> Vec<u8>;

    /// The state that `snapshot` saw.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for other bytes.
    fn restore(snapshot: &[u8]) -> Result<Self, Error>;
}

/// Optional: what rewards may see of a session once the episode is over.
pub trait FinalView: Tool {
    /// Facts; the host puts the tool's name before theirs.
    fn final_view(&self) -> Vec<NamedValue>;
}

/// What a tool is.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    summary: String,
    options: Vec<OptionInfo>,
}

impl Info {
    /// One line for people.
    #[must_use]
    pub fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), options: Vec::new() }
    }

    /// Declares one more option.
    #[must_use]
    pub fn option(mut self, option: OptionInfo) -> Self {
        self.options.push(option);
        self
    }
}

impl Answer {
    /// The call worked.
    #[must_use]
    pub fn text(words: impl Into<String>) -> Self {
        Self::content(text(words))
    }

    /// The call worked; the answer has other parts than text.
    #[must_use]
    pub fn content(content: Content) -> Self {
        Self { content, failed: false }
    }

    /// The call did not work; the words say why and help the agent.
    #[must_use]
    pub fn failed(words: impl Into<String>) -> Self {
        Self { content: text(words), failed: true }
    }

    /// There is no function of this name.
    #[must_use]
    pub fn no_function(call: &Call) -> Self {
        Self::failed(format!("there is no function `{}`", call.name))
    }
}

/// `Ok` worked; `Err` is what the agent did wrong.
impl From<Result<String, String>> for Answer {
    fn from(outcome: Result<String, String>) -> Self {
        outcome.map_or_else(Self::failed, Self::text)
    }
}
