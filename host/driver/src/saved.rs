//! Snapshots of episodes as data, so that an episode continues in another process.

use std::sync::Arc;

use gymkhana_sandbox::{Snapshot, Spent};
use serde::{Deserialize, Serialize};

use crate::data::EpisodeData;
use crate::limits::quota::Usage;
use crate::recorder::ExchangeRecorder;
use crate::snapshot::EpisodeSnapshot;
use crate::tool_set::{Bound, ToolSet};
use crate::toolbox::ToolboxSnapshot;

/// A whole episode without its plugins.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedEpisode {
    data: EpisodeData,
    environment: Snapshot,
    used: Usage,
    tools: Vec<SavedSession>,
}

/// Session of a tool without the tool.
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

impl SavedEpisode {
    /// The data of a snapshot; `data` is the host's part at the time of the snapshot.
    #[must_use]
    pub fn new(snapshot: &EpisodeSnapshot, data: EpisodeData) -> Self {
        Self {
            data,
            environment: snapshot.environment.clone(),
            used: snapshot.recorder.as_ref().map(|recorder| recorder.usage()).unwrap_or_default(),
            tools: snapshot.tools.save(),
        }
    }

    /// The snapshot and the host's part, with the plugins that the episode was saved with.
    ///
    /// # Errors
    /// If other tools are given.
    pub fn open(self, environment: &Bound, tools: &Arc<ToolSet>) -> Result<(EpisodeSnapshot, EpisodeData), NotSaved> {
        let snapshot = EpisodeSnapshot {
            environment: self.environment,
            bound: environment.clone(),
            recorder: ExchangeRecorder::resumed(&environment.plugin, &self.used),
            tools: ToolboxSnapshot::open(self.tools, tools)?,
        };
        Ok((snapshot, self.data))
    }
}
