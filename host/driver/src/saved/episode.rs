//! Snapshots of episodes as data, so that an episode continues in another process.

use std::sync::Arc;

use gymkhana_sandbox::Snapshot;
use serde::{Deserialize, Serialize};

use crate::data::EpisodeData;
use crate::limits::quota::Usage;
use crate::recorder::ExchangeRecorder;
use crate::saved::session::{NotSaved, SavedSession};
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
