//! Copies of a live episode, from snapshots of its plugins.

use gymkhana_record::{CallSite, Failure};
use gymkhana_sandbox::{EnvironmentEpisode, OptionalInterface, Snapshot};

use crate::chain::{Chain, ChainRecorders};
use crate::data::EpisodeData;
use crate::episode::{Episode, EpisodeSeeds};
use crate::tools::tool_set::BoundPlugin;
use crate::tools::{Toolbox, ToolboxSnapshot};

/// State of the plugins of an episode. With a clone of [`EpisodeData`] it is the whole episode.
#[derive(Clone)]
pub struct EpisodeSnapshot {
    /// State of the environment.
    pub environment: Snapshot,
    pub(crate) bound: BoundPlugin,
    pub(crate) recorders: ChainRecorders,
    pub(crate) tools: ToolboxSnapshot,
}

impl Episode {
    /// Whether every plugin that holds a state of this episode can copy it.
    #[must_use]
    pub fn can_be_copied(&self) -> bool {
        self.offers(OptionalInterface::Snapshot) && self.toolbox.can_be_copied()
    }

    /// Takes a snapshot of every plugin that holds a state. The plugins cannot make outbound calls meanwhile.
    ///
    /// # Errors
    /// If a plugin offers no snapshots, or fails.
    pub async fn snapshot(&mut self) -> Result<EpisodeSnapshot, Failure> {
        self.chain.mute(true);
        let environment = self.environment.snapshot().await;
        self.chain.mute(false);
        self.chain.discard_log();
        self.environment.take_inner_costs();
        Ok(EpisodeSnapshot {
            environment: environment.map_err(|error| self.failure(CallSite::Fork, error))?,
            bound: self.bound.clone(),
            recorders: self.chain.recorders(),
            tools: self.toolbox.snapshot().await?,
        })
    }

    /// Opens an episode in the state of a snapshot. `data` is the host's part at the time of the snapshot.
    ///
    /// # Errors
    /// If a plugin fails or cannot read its snapshot.
    pub async fn restore(snapshot: &EpisodeSnapshot, data: EpisodeData, seeds: EpisodeSeeds) -> Result<Self, Failure> {
        let bound = snapshot.bound.clone();
        let (chain, plugin) = Chain::copied(&bound.plugin, &snapshot.recorders);
        chain.mute(true);
        let environment = EnvironmentEpisode::restore(&plugin, &snapshot.environment, seeds.environment).await;
        chain.mute(false);
        chain.discard_log();
        let mut environment = environment.map_err(|error| bound.failure(CallSite::Fork, error))?;
        environment.take_inner_costs();
        let toolbox = Toolbox::restore(&snapshot.tools, seeds.tools).await?;
        Ok(Self { bound, environment, chain, toolbox, data })
    }
}
