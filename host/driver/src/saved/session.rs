//! A tool's session as data, and the error of opening it with another tool.

use gymkhana_sandbox::{Snapshot, Spent};
use serde::{Deserialize, Serialize};

use crate::limits::quota::Usage;

/// One tool's session without the tool.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSession {
    pub(crate) tool: String,
    pub(crate) used: Usage,
    pub(crate) setup: Option<Vec<u8>>,
    pub(crate) restarts: u32,
    pub(crate) spent: Spent,
    pub(crate) live: Option<Snapshot>,
}

/// A saved episode does not belong to the tools that it is opened with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSaved {
    /// Their number differs.
    #[error("the episode was saved with {saved} tools, and {given} are given")]
    Tools {
        /// Number of tools at the snapshot.
        saved: usize,
        /// Number of tools given.
        given: usize,
    },
    /// Another tool is at its place.
    #[error("the episode was saved with the tool `{saved}`, and `{given}` is given in its place")]
    Tool {
        /// Tool at the snapshot.
        saved: String,
        /// Tool given.
        given: String,
    },
}
