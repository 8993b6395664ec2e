//! The plugin instances of an episode: in this process, or at a worker.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_driver::{Episode, EpisodeData, EpisodeSeeds};
use gymkhana_record::{EpisodeRecord, NamedValue, Seed, TaskRef};
use gymkhana_rules::Limits;
use gymkhana_sandbox::Image;

use super::place::LivePlace;
use crate::catalog::ServedEnvironment;
use crate::error::ServeError;
use crate::remote::{self, EpisodeOrigin, FinishOrder, RemoteEpisode, RemoteError};

/// An episode with its instances.
pub(super) enum EpisodeLocation {
    /// In this process.
    Local(Box<Episode>),
    /// At a worker.
    Remote(Box<RemoteEpisode>),
}

/// State of an episode without instances.
pub(super) struct StoredEpisode {
    /// Host's part, as JSON.
    pub(super) data: Box<[u8]>,
    /// State of the plugins, as JSON.
    pub(super) plugins: Arc<[u8]>,
}

impl EpisodeLocation {
    /// Starts an episode.
    pub(super) async fn start(
        place: &LivePlace,
        served: &ServedEnvironment,
        limits: &Limits,
        task: TaskRef,
        seed: Seed,
    ) -> Result<Self, RemoteError> {
        match place {
            LivePlace::Local { .. } => {
                let started = served.described().open(task, EpisodeSeeds::of(seed), limits.episode_bytes).await;
                started.map(|episode| Self::Local(Box::new(episode))).map_err(RemoteError::NotStarted)
            }
            LivePlace::Remote(worker) => {
                let (origin, seats) = (EpisodeOrigin::of(served, seed), served.described().info().seats.len());
                let started = RemoteEpisode::start(Arc::clone(worker), origin, seats, task).await?;
                Ok(Self::Remote(Box::new(started)))
            }
        }
    }

    /// Continues a saved episode.
    pub(super) async fn restore(
        place: &LivePlace,
        served: &ServedEnvironment,
        data: EpisodeData,
        plugins: &Arc<[u8]>,
        seed: Seed,
    ) -> Result<Self, RemoteError> {
        match place {
            LivePlace::Local { .. } => Ok(Self::Local(Box::new(remote::restore(served, data, plugins, seed).await?))),
            LivePlace::Remote(worker) => {
                let (origin, plugins) = (EpisodeOrigin::of(served, seed), Arc::clone(plugins));
                let restored = RemoteEpisode::restore(Arc::clone(worker), origin, data, plugins).await?;
                Ok(Self::Remote(Box::new(restored)))
            }
        }
    }

    /// The state without instances, which stay live. `None` if a plugin offers no snapshots. The front has that of an
    /// episode at a worker.
    pub(super) async fn save(&mut self) -> Option<StoredEpisode> {
        let plugins = match self {
            Self::Local(episode) => remote::save(episode).await?.into(),
            Self::Remote(episode) => Arc::clone(episode.plugins()?),
        };
        let data = serde_json::to_vec(self.data()).ok()?;
        Some(StoredEpisode { data: data.into(), plugins })
    }

    /// Host's part of the episode.
    pub(super) fn data(&self) -> &EpisodeData {
        match self {
            Self::Local(episode) => &episode.data,
            Self::Remote(episode) => &episode.data,
        }
    }

    pub(super) fn data_mut(&mut self) -> &mut EpisodeData {
        match self {
            Self::Local(episode) => &mut episode.data,
            Self::Remote(episode) => &mut episode.data,
        }
    }

    /// The environment's values for rewards and teachers.
    pub(super) async fn privileged(&mut self) -> Result<Vec<NamedValue>, RemoteError> {
        match self {
            Self::Local(episode) => Ok(episode.privileged().await.map_err(ServeError::from)?),
            Self::Remote(episode) => episode.privileged().await,
        }
    }

    /// A picture of the state.
    pub(super) async fn render(&mut self) -> Result<Image, RemoteError> {
        match self {
            Self::Local(episode) => Ok(episode.render().await.map_err(ServeError::from)?),
            Self::Remote(episode) => episode.render().await,
        }
    }

    /// Ends and scores the episode. One at a worker comes back without a record.
    pub(super) async fn finish(
        self,
        served: &ServedEnvironment,
        begun: Instant,
        order: FinishOrder,
    ) -> Result<Box<EpisodeRecord>, (Self, RemoteError)> {
        match self {
            Self::Local(episode) => Ok(remote::finish(served, *episode, begun, order).await),
            Self::Remote(mut episode) => {
                let finished = episode.finish(order).await;
                finished.map_err(|error| (Self::Remote(episode), error))
            }
        }
    }
}
