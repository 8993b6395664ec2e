//! Snapshots of episodes as data, so that an episode continues in another process.

pub(crate) mod session;

use std::sync::Arc;

use gymkhana_sandbox::Snapshot;
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::data::EpisodeData;
use crate::limits::quota::Usage;
use crate::recorder::ExchangeRecorder;
use crate::saved::session::{NotSaved, SavedSession};
use crate::snapshot::EpisodeSnapshot;
use crate::tools::ToolboxSnapshot;
use crate::tools::tool_set::{BoundPlugin, ToolSet};

/// A whole episode without its plugins.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedEpisode {
    data: EpisodeData,
    environment: Snapshot,
    /// Used parts of the quotas of the environment's plugins, the outermost first.
    used: Vec<Usage>,
    tools: Vec<SavedSession>,
}

/// State of the plugins of an episode, without the plugins and without the host's part.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedPlugins {
    environment: Snapshot,
    /// Used parts of the quotas of the environment's plugins, the outermost first.
    used: Vec<Usage>,
    tools: Vec<SavedSession>,
}

impl SavedEpisode {
    /// The data of a snapshot; `data` is the host's part at the time of the snapshot.
    #[must_use]
    pub fn new(snapshot: &EpisodeSnapshot, data: EpisodeData) -> Self {
        let SavedPlugins { environment, used, tools } = SavedPlugins::new(snapshot);
        Self { data, environment, used, tools }
    }

    /// The snapshot and the host's part, with the plugins that the episode was saved with.
    ///
    /// # Errors
    /// If other tools are given.
    pub fn open(
        self,
        environment: &BoundPlugin,
        tools: &Arc<ToolSet>,
    ) -> Result<(EpisodeSnapshot, EpisodeData), NotSaved> {
        let Self { data, environment: state, used, tools: sessions } = self;
        let plugins = SavedPlugins { environment: state, used, tools: sessions };
        Ok((plugins.open(environment, tools)?, data))
    }
}

impl SavedPlugins {
    /// The data of a snapshot.
    #[must_use]
    pub fn new(snapshot: &EpisodeSnapshot) -> Self {
        Self {
            environment: snapshot.environment.clone(),
            used: snapshot.recorders.iter().map(usage).collect(),
            tools: snapshot.tools.save(),
        }
    }

    /// The snapshot, with the plugins that the episode was saved with.
    ///
    /// # Errors
    /// If other tools are given.
    pub fn open(self, environment: &BoundPlugin, tools: &Arc<ToolSet>) -> Result<EpisodeSnapshot, NotSaved> {
        Ok(EpisodeSnapshot {
            environment: self.environment,
            bound: environment.clone(),
            recorders: Chain::resumed(&environment.plugin, &self.used),
            tools: ToolboxSnapshot::open(self.tools, tools)?,
        })
    }
}

/// The used part of a plugin's quota.
fn usage(recorder: &Option<Arc<ExchangeRecorder>>) -> Usage {
    recorder.as_ref().map(|recorder| recorder.usage()).unwrap_or_default()
}
