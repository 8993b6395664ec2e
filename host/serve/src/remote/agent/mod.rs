//! Episodes of agent programs whose plugin instances are at workers.
//!
//! The program's transcript, the policy's tokens and the rewards stay with the front; a worker plays the environment and
//! the tools.

mod instances;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use gymkhana_driver::{BackendError, EpisodeBackend, EpisodePlace, PlacedEpisode};
use gymkhana_orchestration::is_tools_only;
use gymkhana_record::{Seed, TaskRef};
use gymkhana_rollout::PluginSet;
use gymkhana_waits::{Counterpart, until};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::episode::{RemoteEpisode, RemoteError};
use super::messages::EpisodeOrigin;
use super::places::{MAX_LOST, PlaceCounts, SessionWorkers, WorkerPlace, awaited_place};
use instances::WorkerInstances;

/// Time between two tries to restore an episode.
const AGAIN: Duration = Duration::from_millis(500);

/// Places of agents' episodes at workers. Clones are the same places.
#[derive(Clone)]
pub struct AgentWorkers(Arc<Inner>);

struct Inner {
    /// The workers, once they are known.
    workers: OnceLock<Arc<dyn SessionWorkers>>,
    /// Name of the environment; `None` for tools without one.
    environment: Option<String>,
    /// Time for which an episode waits for a place.
    wait: Duration,
    /// Time for which a request waits for its answer.
    most: Duration,
    /// New episodes take places in the order in which they came.
    queue: Mutex<()>,
    /// Whether the gateway is ending, so that no worker will come.
    ending: AtomicBool,
}

impl AgentWorkers {
    /// Places for episodes of the environment of these plugins, or of the tools if they have none. An episode waits for a
    /// place as long as `wait`, and for an answer as long as `most`, moves to other workers included.
    #[must_use]
    pub fn new(plugins: &PluginSet, wait: Duration, most: Duration) -> Self {
        let plugin = plugins.environment().plugin.innermost();
        let has_environment = !is_tools_only(&plugin.manifest().name.to_string());
        let environment = has_environment.then(|| plugin.name().to_owned());
        let (workers, queue, ending) = (OnceLock::new(), Mutex::new(()), AtomicBool::new(false));
        Self(Arc::new(Inner { workers, environment, wait, most, queue, ending }))
    }

    /// Names the workers. Later calls change nothing.
    pub fn set_workers(&self, workers: Arc<dyn SessionWorkers>) {
        let _ = self.0.workers.set(workers);
    }

    /// Gives up waiting for workers that have not joined.
    pub fn end(&self) {
        self.0.ending.store(true, Ordering::Release);
    }
}

impl Inner {
    fn counts(&self) -> PlaceCounts {
        self.workers.get().map(|workers| workers.counts()).unwrap_or_default()
    }

    fn origin(&self, seed: Seed) -> EpisodeOrigin {
        EpisodeOrigin { environment: self.environment.clone(), options: vec![], seed }
    }

    /// A place that becomes free before the deadline.
    async fn place_until(&self, deadline: Instant) -> Option<Arc<dyn WorkerPlace>> {
        let workers = self.workers.get()?;
        let in_vain = async {
            while !(self.ending.load(Ordering::Acquire) && self.counts().places == 0) {
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            place = awaited_place(&**workers, deadline) => place,
            () = in_vain => None,
        }
    }

    /// A place for a new episode.
    async fn place_in_turn(&self) -> Option<Arc<dyn WorkerPlace>> {
        let deadline = Instant::now() + self.wait;
        let _turn = until(Counterpart::Place, deadline, self.queue.lock()).await.ok()?;
        self.place_until(deadline).await
    }

    fn full(&self) -> String {
        let (counts, seconds) = (self.counts(), self.wait.as_secs_f64());
        match counts.workers {
            0 => format!("no worker joined for {seconds} s\nhint: start `host worker` with the address of the bus"),
            _ => format!(
                "all {} places of workers stayed in use for {seconds} s\nhint: close sessions, or start more workers",
                counts.places
            ),
        }
    }

    /// The moment until which a request that begins now waits.
    fn deadline(&self) -> Instant {
        Instant::now() + self.most
    }

    /// The answer to a request, or the reason why it did not come in time.
    async fn in_time<T>(&self, deadline: Instant, answer: impl Future<Output = T>) -> Result<T, String> {
        let late = |_| format!("its worker gave no answer for {} s", self.most.as_secs_f64());
        until(Counterpart::Worker, deadline, answer).await.map_err(late)
    }
}

impl EpisodeBackend for AgentWorkers {
    fn place(&self) -> BoxFuture<'_, Result<Box<dyn EpisodePlace>, BackendError>> {
        Box::pin(async move {
            let place = self.0.place_in_turn().await.ok_or_else(|| BackendError::NoPlace(self.0.full()))?;
            Ok(Box::new(TakenPlace { places: self.clone(), place }) as Box<dyn EpisodePlace>)
        })
    }
}

/// A place for one episode.
struct TakenPlace {
    places: AgentWorkers,
    place: Arc<dyn WorkerPlace>,
}

impl TakenPlace {
    async fn started(self, task: TaskRef, seed: Seed) -> Result<Box<dyn PlacedEpisode>, BackendError> {
        let Self { places, mut place } = self;
        let none = BackendError::NoPlace;
        let deadline = places.0.deadline();
        for _ in 0..=MAX_LOST {
            let starting = RemoteEpisode::start(place, places.0.origin(seed), 1, task.clone());
            match places.0.in_time(deadline, starting).await.map_err(none)? {
                Ok(remote) => return Ok(Box::new(WorkerInstances::new(places, seed, remote))),
                Err(RemoteError::NotStarted(failed)) => return Err(BackendError::NotStarted(failed)),
                Err(RemoteError::Lost(lost)) => tracing::warn!("an episode starts at another worker: {lost}"),
                Err(error) => return Err(none(error.to_string())),
            }
            place = places.0.place_in_turn().await.ok_or_else(|| none(places.0.full()))?;
        }
        Err(none(format!("{} workers were lost at its start", MAX_LOST + 1)))
    }
}

impl EpisodePlace for TakenPlace {
    fn start<'p>(
        self: Box<Self>,
        task: TaskRef,
        seed: Seed,
    ) -> BoxFuture<'p, Result<Box<dyn PlacedEpisode>, BackendError>>
    where
        Self: 'p,
    {
        Box::pin(self.started(task, seed))
    }
}
