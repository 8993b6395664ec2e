//! Places of episodes: parked ones become live again, and those of a lost worker move to another one, or are reported as
//! lost.

use std::sync::Arc;

use super::episode::{ActiveEpisode, EndedEpisode};
use super::location::EpisodeLocation;
use super::place::LivePlace;
use super::shared::SessionContext;
use super::state::{Play, SessionState};
use crate::error::{ErrorKind, ServeError};
use crate::remote::{MAX_LOST, RemoteError, lost_worker, unplaced};

/// Relocations of an episode in one request.
#[derive(Default)]
pub(super) struct Relocations {
    made: u32,
}

impl Relocations {
    /// Prepares the repetition of a request that had no result: the episode continues at another worker.
    ///
    /// # Errors
    /// If the request failed at its worker, the episode cannot continue, or no other worker has a place for it.
    pub(super) async fn next(
        &mut self,
        shared: &SessionContext,
        state: &mut SessionState,
        error: RemoteError,
    ) -> Result<(), ServeError> {
        let lost = lost_worker(error)?;
        self.made += 1;
        if self.made > MAX_LOST {
            let why = format!("{lost}, as {MAX_LOST} others did in the same request");
            return Err(state.lose(shared, &why).await);
        }
        state.recover(shared, &lost).await
    }
}

impl SessionState {
    /// The place of the session, which it takes if it has none.
    ///
    /// # Errors
    /// If none becomes free in time.
    pub(super) async fn take_place(&mut self, shared: &SessionContext) -> Result<&LivePlace, ServeError> {
        if self.place.is_none() {
            self.place = Some(shared.places.acquire(&shared.guests, shared.is_closing()).await?);
        }
        self.place.as_ref().ok_or_else(|| ServeError::host(ErrorKind::Failed, "the session has no place"))
    }

    /// Makes a parked episode live again.
    ///
    /// # Errors
    /// If no place becomes free in time, a plugin cannot read its snapshot, or workers are lost; the episode stays parked.
    pub(super) async fn unpark(&mut self, shared: &SessionContext) -> Result<(), ServeError> {
        let mut lost_workers = 0;
        loop {
            let Play::Parked(parked) = &self.play else { return Ok(()) };
            let (facts, plugins) = (parked.facts.clone(), Arc::clone(&parked.saved.plugins));
            let data = parked.data()?;
            let served = Arc::clone(&self.served);
            let place = self.take_place(shared).await?;
            match EpisodeLocation::restore(place, &served, data, &plugins, facts.seed).await {
                Ok(player) => {
                    self.play = Play::Live(Box::new(ActiveEpisode { player, facts }));
                    return Ok(());
                }
                Err(error) => {
                    let lost = lost_worker(error)?;
                    tracing::warn!("an episode was not restored: {lost}");
                    self.place = None;
                    lost_workers += 1;
                    if lost_workers > MAX_LOST {
                        return Err(unplaced(&lost));
                    }
                }
            }
        }
    }

    /// Continues the episode of a lost worker at another one.
    async fn recover(&mut self, shared: &SessionContext, lost: &str) -> Result<(), ServeError> {
        // The front has the state of the plugins, so that parking asks no worker.
        if !self.park().await {
            return Err(self.lose(shared, &format!("{lost}, and the episode has no snapshot")).await);
        }
        shared.metrics.moved();
        tracing::warn!("an episode moves to another worker: {lost}");
        self.unpark(shared).await
    }

    /// Ends an episode that cannot continue, with the record that is known. Returns the error that says so.
    async fn lose(&mut self, shared: &SessionContext, why: &str) -> ServeError {
        tracing::warn!("an episode is lost: {why}");
        // The loss is the reason.
        let _ = self.give_up(shared, why).await;
        ServeError::host(ErrorKind::Failed, format!("the episode is lost: {why}\nhint: reset the session"))
    }

    /// Stores the record that is known of a running episode, as dropped by a fault of the host.
    ///
    /// # Errors
    /// If it is not written in time.
    pub(super) async fn give_up(&mut self, shared: &SessionContext, why: &str) -> Result<(), ServeError> {
        self.place = None;
        let (record, facts) = match std::mem::replace(&mut self.play, Play::Waiting) {
            Play::Live(live) => (live.facts.dropped(live.data(), why), live.facts.clone()),
            Play::Parked(parked) => match parked.data() {
                Ok(data) => (parked.facts.dropped(&data, why), parked.facts.clone()),
                Err(_) => return Ok(()),
            },
            other => {
                self.play = other;
                return Ok(());
            }
        };
        shared.metrics.lost();
        let stored = shared.records.store(&Arc::clone(&self.served), &shared.catalog, &record).await;
        self.play = Play::Ended(Box::new(EndedEpisode { record, facts }));
        stored
    }
}
