//! The plugin instances of one agent's episode at a worker, and its moves to other workers.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use gymkhana_driver::{BackendError, EpisodeData, PlacedEpisode, Reply};
use gymkhana_record::{Boundary, Call, CallSite, Ending, EpisodeRecord, Failure, FailureKind, Seed};

use super::{AGAIN, AgentWorkers};
use crate::remote::episode::{RemoteEpisode, RemoteError};
use crate::remote::messages::{FinishOrder, ProgramCall};
use crate::remote::places::MAX_LOST;

/// The instances of one episode.
pub(super) struct WorkerInstances {
    places: AgentWorkers,
    seed: Seed,
    /// The episode as its worker knows it; `None` if it is lost.
    remote: Option<RemoteEpisode>,
    /// The host's part with the transcript and the failures of the agent.
    data: EpisodeData,
}

/// Lengths of what a worker's part of an episode only appends to.
#[derive(Clone, Copy)]
struct Known {
    turns: usize,
    failures: usize,
}

impl Known {
    fn of(data: &EpisodeData) -> Self {
        Self { turns: data.turns.len(), failures: data.failures.len() }
    }
}

impl WorkerInstances {
    /// Those of an episode that has started.
    pub(super) fn new(places: AgentWorkers, seed: Seed, remote: RemoteEpisode) -> Self {
        let data = remote.data.clone();
        Self { places, seed, remote: Some(remote), data }
    }

    /// Asks the worker, and another one with the state before the request if it is lost.
    ///
    /// # Errors
    /// If the request was not performed, or the episode cannot continue.
    async fn ask<T>(
        &mut self,
        mut ask: impl for<'e> FnMut(&'e mut RemoteEpisode) -> BoxFuture<'e, Result<T, RemoteError>> + Send,
    ) -> Result<T, BackendError> {
        let (mut lost_workers, deadline) = (0, self.places.0.deadline());
        loop {
            let Some(remote) = &mut self.remote else {
                return Err(BackendError::Lost("its plugins are gone".to_owned()));
            };
            let known = Known::of(&remote.data);
            match self.places.0.in_time(deadline, ask(remote)).await {
                Ok(Ok(answer)) => {
                    self.adopt(known);
                    return Ok(answer);
                }
                Ok(Err(RemoteError::Lost(lost))) => self.recover(&lost, &mut lost_workers, deadline).await?,
                Ok(Err(error)) => return Err(BackendError::Failed(error.to_string())),
                Err(late) => return Err(self.lose(late)),
            }
        }
    }

    /// As [`WorkerInstances::ask`], for a request without which the episode cannot continue.
    async fn insist<T>(
        &mut self,
        ask: impl for<'e> FnMut(&'e mut RemoteEpisode) -> BoxFuture<'e, Result<T, RemoteError>> + Send,
    ) -> Result<T, BackendError> {
        match self.ask(ask).await {
            Err(BackendError::Failed(why)) => Err(self.lose(why)),
            answered => answered,
        }
    }

    /// Takes over what the worker's last answer added.
    fn adopt(&mut self, known: Known) {
        let Some(remote) = &self.remote else { return };
        let mut data = remote.data.clone();
        let own = &mut self.data;
        data.turns = std::mem::take(&mut own.turns).into_iter().chain(data.turns.drain(known.turns..)).collect();
        let failures = data.failures.drain(known.failures..);
        data.failures = std::mem::take(&mut own.failures).into_iter().chain(failures).collect();
        data.timing.policy_ms = own.timing.policy_ms;
        *own = data;
    }

    /// Continues the episode of a lost worker at another one before the deadline. `why` says how it was lost.
    async fn recover(
        &mut self,
        why: &str,
        lost_workers: &mut u32,
        deadline: tokio::time::Instant,
    ) -> Result<(), BackendError> {
        let state = self.remote.take().and_then(RemoteEpisode::into_state);
        let Some((data, plugins)) = state else {
            return Err(self.lose(format!("{why}, and the episode has no snapshot")));
        };
        tracing::warn!("an episode moves to another worker: {why}");
        let (places, mut why) = (self.places.clone(), why.to_owned());
        let for_place = deadline.min(tokio::time::Instant::now() + places.0.wait);
        loop {
            *lost_workers += 1;
            if *lost_workers > MAX_LOST {
                return Err(self.lose(format!("{why}, after {MAX_LOST} others in the same request")));
            }
            let Some(place) = places.0.place_until(for_place).await else {
                return Err(self.lose(format!("{why}, and {}", places.0.full())));
            };
            let (data, plugins) = (data.clone(), Arc::clone(&plugins));
            let restoring = RemoteEpisode::restore(place, places.0.origin(self.seed), data, plugins);
            match places.0.in_time(deadline, restoring).await {
                Ok(Ok(remote)) => {
                    self.remote = Some(remote);
                    return Ok(());
                }
                Ok(Err(RemoteError::Lost(next))) => why = next,
                Ok(Err(error)) => {
                    why = error.to_string();
                    tokio::time::sleep(AGAIN).await;
                }
                Err(late) => return Err(self.lose(late)),
            }
        }
    }

    /// Gives the episode up, with a failure of the host that says why.
    fn lose(&mut self, why: String) -> BackendError {
        tracing::warn!("an episode is lost: {why}");
        self.remote = None;
        self.data.failures.push(Failure {
            at: Boundary::Host,
            kind: FailureKind::Fault,
            call_site: CallSite::Step(self.data.steps),
            message: why.clone(),
        });
        BackendError::Lost(why)
    }

    /// Reads the final views; the record has everything that the host knows of the episode.
    async fn record(mut self, ending: Ending, begun: Instant, record: EpisodeRecord) -> EpisodeRecord {
        let order = FinishOrder {
            record: record.id,
            task: record.task.clone(),
            seed: record.seed,
            ending,
            age_ms: begun.elapsed().as_secs_f64() * 1e3,
            scored: false,
        };
        let known = self.remote.as_ref().map(|remote| Known::of(&remote.data));
        let viewed = self.insist(|remote| Box::pin(remote.finish(order.clone()))).await;
        let (Ok(viewed), Some(known)) = (viewed, known) else {
            return self.data.into_record(Ending::Dropped, begun, record);
        };
        let EpisodeRecord { ending, privileged, views, hint, failures, costs, exchanges, logs, .. } = *viewed;
        self.data.failures.extend(failures.into_iter().skip(known.failures));
        let record = self.data.into_record(ending, begun, EpisodeRecord { privileged, views, hint, ..record });
        EpisodeRecord { costs, exchanges, logs, ..record }
    }
}

impl PlacedEpisode for WorkerInstances {
    fn data(&self) -> &EpisodeData {
        &self.data
    }

    fn data_mut(&mut self) -> &mut EpisodeData {
        &mut self.data
    }

    fn call(&mut self, call: Call, listed: bool, most: u32) -> BoxFuture<'_, Result<Option<Ending>, BackendError>> {
        let call = ProgramCall { call, listed, most };
        Box::pin(async move {
            match self.ask(|remote| Box::pin(remote.call(call.clone()))).await {
                Ok(called) => Ok(called?),
                Err(error) => Err(error),
            }
        })
    }

    fn act(&mut self, reply: Reply) -> BoxFuture<'_, Result<Option<Ending>, BackendError>> {
        Box::pin(async move { self.insist(|remote| Box::pin(remote.turn(reply.clone()))).await })
    }

    fn finish<'i>(
        self: Box<Self>,
        ending: Ending,
        begun: Instant,
        record: EpisodeRecord,
    ) -> BoxFuture<'i, EpisodeRecord>
    where
        Self: 'i,
    {
        Box::pin(self.record(ending, begun, record))
    }
}
