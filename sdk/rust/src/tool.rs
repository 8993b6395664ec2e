//! Tools: functions that a policy may call, with separate state for each episode.

mod exported;
mod session;

pub use exported::Exported;
pub use session::Session;

#[doc(inline)]
pub use crate::bindings::tool::exports::gymkhana::plugin::tool::Answer;
use crate::{Call, Error, Function, NamedValue, PluginOptions};

/// Tool. The implementing type is one session: the tool's state during one episode.
pub trait Tool: Sized + 'static {
    /// Options that a run file may set; `()` for none.
    type Options: PluginOptions;

    /// Description of the tool.
    fn info() -> Info;

    /// Functions under these options.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for contradicting options.
    fn functions(options: &Self::Options) -> Result<Vec<Function>, Error>;

    /// Opens a session. `setup` is the environment's set-up data for this tool, if any.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for unusable set-up data.
    fn open(setup: Option<Vec<u8>>, options: &Self::Options, seed: u64) -> Result<Self, Error>;

    /// Calls a function. An error of the agent is a failed answer with a helpful message; see [`Answer::from`].
    ///
    /// # Errors
    ///
    /// Mistakes of the host, such as a denied capability.
    fn call(&mut self, call: &Call) -> Result<Answer, Error>;
}

/// Optional interface: the complete state of a session as bytes.
pub trait Snapshot: Tool {
    /// Serialized state; see [`crate::snapshot::Writer`].
    fn snapshot(&self) -> Vec<u8>;

    /// State restored from a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    fn restore(snapshot: &[u8]) -> Result<Self, Error>;
}

/// Optional interface: facts for rewards at the end of the episode.
pub trait FinalView: Tool {
    /// Facts; the host prefixes each name with the tool's name.
    fn final_view(&self) -> Vec<NamedValue>;
}

/// Description of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    summary: String,
}

impl Info {
    /// Description with a one-line summary.
    #[must_use]
    pub fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into() }
    }
}
