//! The end of an episode: final views, and what the host's part adds to the record.

use std::time::Instant;

use gymkhana_record::{CallSite, Content, Ending, EpisodeRecord, NamedValue};
use gymkhana_sandbox::{CallFuture, EnvironmentEpisode, OptionalInterface};
use serde::Serialize;

use crate::episode::Episode;
use crate::hooks::Hooks;

/// What the plugins say at the end of an episode.
#[derive(Debug, Clone, Default)]
pub(crate) struct FinalViews {
    pub(crate) privileged: Vec<NamedValue>,
    pub(crate) hint: Option<Content>,
    pub(crate) views: Vec<NamedValue>,
}

impl Episode {
    /// Reads the final views and completes a record that has the episode's id, task and seed. An episode with a fault of
    /// the host is dropped, and one that breaks its environment's totals ends by that failure, whatever its ending.
    pub async fn finish<H: Hooks>(
        mut self,
        hooks: &H,
        mut ending: Ending,
        begun: Instant,
        record: EpisodeRecord,
    ) -> EpisodeRecord {
        if ending.is_limit()
            && let Err(failure) = self.check_totals()
        {
            self.data.failures.push(failure);
            ending = Ending::EnvironmentFailed;
        }
        let FinalViews { privileged, hint, views } = self.read_final_views(hooks, ending).await;
        let record = EpisodeRecord { privileged, views, hint, ..record };
        self.data.into_record(ending, begun, record)
    }

    /// Reads what the plugins say at this end. Failures are added to the episode's.
    pub(crate) async fn read_final_views<H: Hooks>(&mut self, hooks: &H, ending: Ending) -> FinalViews {
        let (mut privileged, mut hint) = (None, None);
        if ending != Ending::EnvironmentFailed {
            let (interface, site) = (OptionalInterface::Privileged, CallSite::Privileged);
            privileged = self.last(hooks, interface, site, EnvironmentEpisode::privileged).await;
            let (interface, site) = (OptionalInterface::Guidance, CallSite::Guidance);
            hint = self.last(hooks, interface, site, EnvironmentEpisode::guidance).await;
        }
        FinalViews { privileged: privileged.unwrap_or_default(), hint, views: self.final_views().await }
    }

    /// Reads the environment through an optional interface, if it offers it. A failure is recorded.
    async fn last<T: Serialize, H: Hooks>(
        &mut self,
        hooks: &H,
        interface: OptionalInterface,
        site: CallSite,
        read: impl for<'e> FnOnce(&'e mut EnvironmentEpisode) -> CallFuture<'e, T>,
    ) -> Option<T> {
        let seen = self.read(hooks, interface, site.clone(), read).await?;
        let seen = seen.and_then(|value| self.keep(site, value));
        seen.map_err(|failure| self.data.failures.push(failure)).ok()
    }
}
