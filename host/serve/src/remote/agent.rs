//! Episodes of agent programs whose plugin instances are at workers.
//!
//! The program's transcript, the policy's tokens and the rewards stay with the front; a worker plays the environment and
//! the tools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use gymkhana_driver::{CallRefusal, EpisodeData, Reply};
use gymkhana_orchestration::is_tools_only;
use gymkhana_record::{Boundary, Call, CallSite, Ending, EpisodeRecord, Failure, FailureKind, Seed, TaskRef};
use gymkhana_rollout::{AgentInstances, AgentPlaces, InstancesLost, PlaceError, PluginSet};

use super::away::{AskError, AwayEpisode, StartError};
use super::messages::{EpisodeOrigin, FinishOrder, ProgramCall};
use super::places::{MOST_LOST, PlaceLost, SessionWorkers, WorkerPlace, awaited_place};

/// Places of agents' episodes at workers.
#[derive(Clone)]
pub struct AgentWorkers {
    workers: Arc<dyn SessionWorkers>,
    /// Name of the environment; `None` for tools without one.
    environment: Option<String>,
    /// Time for which an episode waits for a place.
    wait: Duration,
}

impl AgentWorkers {
    /// Places for episodes of the environment of these plugins, or of the tools if they have none. An episode waits for a
    /// place as long as `wait`.
    #[must_use]
    pub fn new(workers: Arc<dyn SessionWorkers>, plugins: &PluginSet, wait: Duration) -> Self {
        let plugin = plugins.environment().plugin.innermost();
        let has_environment = !is_tools_only(&plugin.manifest().name.to_string());
        Self { workers, environment: has_environment.then(|| plugin.name().to_owned()), wait }
    }

    fn origin(&self, seed: Seed) -> EpisodeOrigin {
        EpisodeOrigin { environment: self.environment.clone(), options: vec![], seed }
    }

    /// A place that becomes free in time.
    async fn place(&self) -> Option<Arc<dyn WorkerPlace>> {
        awaited_place(&*self.workers, tokio::time::Instant::now() + self.wait).await
    }

    fn full(&self) -> String {
        let (counts, seconds) = (self.workers.counts(), self.wait.as_secs_f64());
        match counts.workers {
            0 => format!("no worker joined for {seconds} s\nhint: start `host worker` with the address of the bus"),
            _ => format!(
                "all {} places of workers stayed in use for {seconds} s\nhint: close sessions, or start more workers",
                counts.places
            ),
        }
    }
}

impl AgentPlaces for AgentWorkers {
    fn start(&self, task: TaskRef, seed: Seed) -> BoxFuture<'_, Result<Box<dyn AgentInstances>, PlaceError>> {
        Box::pin(async move {
            let mut lost_workers = 0;
            loop {
                let place = self.place().await.ok_or_else(|| PlaceError::NoPlace(self.full()))?;
                match AwayEpisode::start(place, self.origin(seed), 1, task.clone()).await {
                    Ok(away) => {
                        let data = away.data.clone();
                        let instances = WorkerInstances { places: self.clone(), seed, away: Some(away), data };
                        return Ok(Box::new(instances) as Box<dyn AgentInstances>);
                    }
                    Err(StartError::Environment(failed)) => return Err(PlaceError::Environment(failed)),
                    Err(StartError::Failed(error)) => return Err(PlaceError::NoPlace(error.to_string())),
                    Err(StartError::Lost(lost)) => {
                        lost_workers += 1;
                        if lost_workers > MOST_LOST {
                            return Err(PlaceError::NoPlace(lost.unplaced().to_string()));
                        }
                    }
                }
            }
        })
    }
}

/// The instances of one episode.
struct WorkerInstances {
    places: AgentWorkers,
    seed: Seed,
    /// The episode as its worker knows it; `None` if it is lost.
    away: Option<AwayEpisode>,
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
    /// Asks the worker, and another one with the state before the request if it is lost.
    ///
    /// # Errors
    /// If the episode cannot continue.
    async fn ask<T>(
        &mut self,
        mut ask: impl for<'e> FnMut(&'e mut AwayEpisode) -> BoxFuture<'e, Result<T, AskError>> + Send,
    ) -> Result<T, InstancesLost> {
        let mut lost_workers = 0;
        loop {
            let Some(away) = &mut self.away else {
                return Err(InstancesLost("its plugins are gone".to_owned()));
            };
            let known = Known::of(&away.data);
            match ask(away).await {
                Ok(answer) => {
                    self.adopt(known);
                    return Ok(answer);
                }
                Err(AskError::Failed(error)) => return Err(self.lose(error.to_string())),
                Err(AskError::Lost(lost)) => self.recover(lost, &mut lost_workers).await?,
            }
        }
    }

    /// Takes over what the worker's last answer added.
    fn adopt(&mut self, known: Known) {
        let Some(away) = &self.away else { return };
        let mut data = away.data.clone();
        let own = &mut self.data;
        data.turns = std::mem::take(&mut own.turns).into_iter().chain(data.turns.drain(known.turns..)).collect();
        let failures = data.failures.drain(known.failures..);
        data.failures = std::mem::take(&mut own.failures).into_iter().chain(failures).collect();
        data.timing.policy_ms = own.timing.policy_ms;
        *own = data;
    }

    /// Continues the episode of a lost worker at another one.
    async fn recover(&mut self, mut lost: PlaceLost, lost_workers: &mut u32) -> Result<(), InstancesLost> {
        let state = self.away.take().and_then(AwayEpisode::into_state);
        let Some((data, plugins)) = state else {
            return Err(self.lose(format!("{lost}, and the episode has no snapshot")));
        };
        tracing::warn!("an episode moves to another worker: {lost}");
        loop {
            *lost_workers += 1;
            if *lost_workers > MOST_LOST {
                return Err(self.lose(format!("{lost}, as {MOST_LOST} others did in the same request")));
            }
            let Some(place) = self.places.place().await else {
                return Err(self.lose(format!("{lost}, and {}", self.places.full())));
            };
            let (data, plugins) = (data.clone(), Arc::clone(&plugins));
            match AwayEpisode::restore(place, self.places.origin(self.seed), data, plugins).await {
                Ok(away) => {
                    self.away = Some(away);
                    return Ok(());
                }
                Err(AskError::Failed(error)) => return Err(self.lose(error.to_string())),
                Err(AskError::Lost(next)) => lost = next,
            }
        }
    }

    /// Gives the episode up, with a failure of the host that says why.
    fn lose(&mut self, why: String) -> InstancesLost {
        tracing::warn!("an episode is lost: {why}");
        self.away = None;
        self.data.failures.push(Failure {
            at: Boundary::Host,
            kind: FailureKind::Fault,
            call_site: CallSite::Step(self.data.steps),
            message: why.clone(),
        });
        InstancesLost(why)
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
        let known = self.away.as_ref().map(|away| Known::of(&away.data));
        let viewed = self.ask(|away| Box::pin(away.finish(order.clone()))).await;
        let (Ok(mut viewed), Some(known)) = (viewed, known) else {
            return self.data.into_record(Ending::Dropped, begun, record);
        };
        self.data.failures.extend(viewed.failures.drain(known.failures.min(viewed.failures.len())..));
        let EpisodeRecord { ending, privileged, views, hint, costs, exchanges, logs, .. } = *viewed;
        let record = self.data.into_record(ending, begun, EpisodeRecord { privileged, views, hint, ..record });
        EpisodeRecord { costs, exchanges, logs, ..record }
    }
}

impl AgentInstances for WorkerInstances {
    fn data(&self) -> &EpisodeData {
        &self.data
    }

    fn data_mut(&mut self) -> &mut EpisodeData {
        &mut self.data
    }

    fn call(
        &mut self,
        call: Call,
        listed: bool,
        most: u32,
    ) -> BoxFuture<'_, Result<Result<Option<Ending>, CallRefusal>, InstancesLost>> {
        let call = ProgramCall { call, listed, most };
        Box::pin(async move { self.ask(|away| Box::pin(away.call(call.clone()))).await })
    }

    fn act(&mut self, reply: Reply, _most: u32) -> BoxFuture<'_, Result<Option<Ending>, InstancesLost>> {
        Box::pin(async move { self.ask(|away| Box::pin(away.turn(reply.clone()))).await })
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
