//! The episodes that a worker holds for a front.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use gymkhana_driver::{Episode, EpisodeSeeds, NoHooks, StartFailure};
use gymkhana_record::TaskRef;
use gymkhana_rules::Limits;
use gymkhana_store::encode_episodes;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, watch};

use super::instances;
use super::ledger::{RequestDecision, RequestLedger};
use super::messages::{
    EpisodeOrigin, EpisodeOutcome, EpisodeRequest, FinishOrder, MAX_PLUGIN_STATE, PlaceAnswer, PlaceId, PlaceRequest,
    ProgramCall,
};
use crate::catalog::{Catalog, ServedEnvironment};
use crate::config::ServeFile;
use crate::error::{ErrorKind, ServeError};

/// Plugin calls for each core that run at the same time.
const RUNNING_PER_CORE: usize = 2;

/// Episodes of a front at this worker. Each request of a place is performed once, however often it comes.
pub struct EpisodeHost {
    catalog: Catalog,
    limits: Limits,
    /// Threads of plugin calls.
    guests: Handle,
    /// Permits of plugin calls that run at the same time.
    running: Semaphore,
    places: usize,
    held: std::sync::Mutex<Held>,
}

#[derive(Default)]
struct Held {
    ledger: RequestLedger,
    slots: HashMap<PlaceId, HostedPlace>,
}

/// One place.
struct HostedPlace {
    /// Answer to the last request, when it is there.
    answer: watch::Receiver<Option<Arc<PlaceAnswer>>>,
    episode: Arc<Mutex<Option<HostedEpisode>>>,
}

/// What becomes of a request that came.
enum Admitted {
    /// It is performed, or was.
    Performed(watch::Receiver<Option<Arc<PlaceAnswer>>>),
    /// It needs no plugin.
    Answered(Box<EpisodeOutcome>),
    /// It is not answered.
    Ignored,
}

struct HostedEpisode {
    episode: Episode,
    served: Arc<ServedEnvironment>,
}

impl EpisodeHost {
    /// A host of episodes with these plugins. `guests` are the threads of plugin calls.
    #[must_use]
    pub fn new(catalog: Catalog, config: &ServeFile, guests: Handle) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let running = config.sessions.running.unwrap_or(RUNNING_PER_CORE * cores);
        let places = config.sessions.live.unwrap_or_else(|| instances::default_live(&catalog, running));
        let (limits, running) = ((&config.rules.limits).into(), Semaphore::new(running));
        Self { catalog, limits, guests, running, places, held: std::sync::Mutex::default() }
    }

    /// Number of episodes that it can hold.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places
    }

    /// Number of places that fronts hold.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.lock().ledger.len()
    }

    /// Answers a request. `None` for one that is older than the last of its place.
    pub async fn answer(
        self: &Arc<Self>,
        place: PlaceId,
        number: u64,
        request: PlaceRequest,
    ) -> Option<Arc<PlaceAnswer>> {
        match self.admit(place, number, request) {
            Admitted::Performed(mut answer) => Some(awaited(&mut answer).await),
            Admitted::Answered(outcome) => Some(Arc::new((*outcome).into())),
            Admitted::Ignored => None,
        }
    }

    /// The answer to a request that is performed or being performed already; `None` for any other.
    pub async fn repeated(&self, place: PlaceId, number: u64) -> Option<Arc<PlaceAnswer>> {
        let mut answer = {
            let held = self.lock();
            let slot = held.slots.get(&place).filter(|_| held.ledger.is_last(place, number))?;
            slot.answer.clone()
        };
        Some(awaited(&mut answer).await)
    }

    /// Forgets all episodes.
    pub fn clear(&self) {
        let held = std::mem::take(&mut *self.lock());
        self.end(held.slots.into_values());
    }

    /// Begins a request, or returns the answer of one that needs no plugin.
    fn admit(self: &Arc<Self>, place: PlaceId, number: u64, request: PlaceRequest) -> Admitted {
        let answered = |outcome| Admitted::Answered(Box::new(outcome));
        let mut held = self.lock();
        if request.request == EpisodeRequest::Release {
            held.ledger.release(place);
            self.end(held.slots.remove(&place));
            return answered(EpisodeOutcome::Released);
        }
        let opens = matches!(request.request, EpisodeRequest::Start(..) | EpisodeRequest::Restore(_));
        match held.ledger.judge(place, number, opens, self.places) {
            RequestDecision::Perform => {
                let (sender, answer) = watch::channel(None);
                let new = || HostedPlace { answer: answer.clone(), episode: Arc::default() };
                let slot = held.slots.entry(place).or_insert_with(new);
                slot.answer = answer.clone();
                // Its end does not depend on those who wait for the answer.
                self.guests.spawn(Arc::clone(self).perform(Arc::clone(&slot.episode), request, sender));
                Admitted::Performed(answer)
            }
            RequestDecision::Repeat => match held.slots.get(&place) {
                Some(slot) => Admitted::Performed(slot.answer.clone()),
                None => Admitted::Ignored,
            },
            RequestDecision::Old => Admitted::Ignored,
            RequestDecision::Unknown => answered(EpisodeOutcome::Unknown),
            RequestDecision::Full => {
                let message =
                    "the session cannot continue: its worker has no place left\nhint: repeat the request later";
                answered(EpisodeOutcome::Failed(ServeError::host(ErrorKind::Full, message)))
            }
        }
    }

    /// Drops episodes on the threads of plugin calls.
    fn end(&self, slots: impl IntoIterator<Item = HostedPlace>) {
        let slots: Vec<HostedPlace> = slots.into_iter().collect();
        self.guests.spawn(async move { drop(slots) });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn perform(
        self: Arc<Self>,
        episode: Arc<Mutex<Option<HostedEpisode>>>,
        request: PlaceRequest,
        answer: watch::Sender<Option<Arc<PlaceAnswer>>>,
    ) {
        let mut held = episode.lock().await;
        // The semaphore is never closed.
        let _permit = self.running.acquire().await.ok();
        let performed = self.run(&mut held, request).await;
        answer.send_replace(Some(Arc::new(performed)));
    }

    async fn run(&self, held: &mut Option<HostedEpisode>, request: PlaceRequest) -> PlaceAnswer {
        let PlaceRequest { request, data, plugins } = request;
        match (request, held) {
            (EpisodeRequest::Start(origin, task), held) => self.start(held, &origin, task).await,
            (EpisodeRequest::Restore(origin), held) => match self.restore(&origin, &data, &plugins).await {
                Ok(hosted) => {
                    *held = Some(hosted);
                    EpisodeOutcome::Restored.into()
                }
                Err(error) => EpisodeOutcome::Failed(error).into(),
            },
            (EpisodeRequest::Finish(order), held) => match held.take() {
                Some(hosted) => finish(hosted, order).await,
                None => EpisodeOutcome::Unknown.into(),
            },
            (EpisodeRequest::Turn(reply), Some(hosted)) => {
                let ending = hosted.episode.take_turn(&mut NoHooks, reply, u32::MAX).await;
                with_state(EpisodeOutcome::Turn(ending), hosted).await
            }
            (EpisodeRequest::Call(ProgramCall { call, listed, most }), Some(hosted)) => {
                match hosted.episode.answer_call(&mut NoHooks, call, listed, most).await {
                    Ok(ending) => with_state(EpisodeOutcome::Called(Ok(ending)), hosted).await,
                    // Nothing has changed.
                    Err(refusal) => EpisodeOutcome::Called(Err(refusal)).into(),
                }
            }
            (EpisodeRequest::Privileged, Some(hosted)) => {
                match hosted.episode.privileged().await.map_err(ServeError::from) {
                    // The reading is in the record's costs.
                    Ok(view) => with_state(EpisodeOutcome::Privileged(view), hosted).await,
                    Err(error) => with_state(EpisodeOutcome::Failed(error), hosted).await,
                }
            }
            (EpisodeRequest::Render, Some(hosted)) => match hosted.episode.render().await.map_err(ServeError::from) {
                Ok(image) => with_state(EpisodeOutcome::Rendered(image), hosted).await,
                Err(error) => with_state(EpisodeOutcome::Failed(error), hosted).await,
            },
            (EpisodeRequest::Release, _) => EpisodeOutcome::Released.into(),
            (
                EpisodeRequest::Turn(_) | EpisodeRequest::Call(_) | EpisodeRequest::Privileged | EpisodeRequest::Render,
                None,
            ) => EpisodeOutcome::Unknown.into(),
        }
    }

    async fn start(&self, held: &mut Option<HostedEpisode>, origin: &EpisodeOrigin, task: TaskRef) -> PlaceAnswer {
        *held = None;
        let served = match self.served(origin).await {
            Ok(served) => served,
            Err(error) => return EpisodeOutcome::Failed(error).into(),
        };
        match served.described().open(task, EpisodeSeeds::of(origin.seed), self.limits.episode_bytes).await {
            Ok(episode) => with_state(EpisodeOutcome::Started, held.insert(HostedEpisode { episode, served })).await,
            Err(StartFailure { failure, exchanges, logs }) => {
                EpisodeOutcome::NotStarted { failure, exchanges, logs }.into()
            }
        }
    }

    async fn restore(&self, origin: &EpisodeOrigin, data: &[u8], plugins: &[u8]) -> Result<HostedEpisode, ServeError> {
        let served = self.served(origin).await?;
        let data = serde_json::from_slice(data).map_err(|error| {
            ServeError::host(ErrorKind::Failed, format!("the session cannot continue: its state is malformed: {error}"))
        })?;
        let episode = instances::restore(&served, data, plugins, origin.seed).await?;
        Ok(HostedEpisode { episode, served })
    }

    async fn served(&self, origin: &EpisodeOrigin) -> Result<Arc<ServedEnvironment>, ServeError> {
        match &origin.environment {
            None => self.catalog.tools_only().cloned(),
            Some(name) => {
                let environment = self.catalog.environment(Some(name))?;
                self.catalog.with_options(environment, origin.options.clone(), None).await
            }
        }
    }
}

/// An answer, when it is there.
async fn awaited(answer: &mut watch::Receiver<Option<Arc<PlaceAnswer>>>) -> Arc<PlaceAnswer> {
    let answered = answer.wait_for(Option::is_some).await.ok().and_then(|answered| answered.clone());
    // Without a sender the request has panicked, and the episode is in no known state.
    answered.unwrap_or_else(|| Arc::new(EpisodeOutcome::Unknown.into()))
}

/// The outcome with the state after it.
async fn with_state(outcome: EpisodeOutcome, hosted: &mut HostedEpisode) -> PlaceAnswer {
    let plugins = instances::save(&mut hosted.episode).await.filter(|state| state.len() <= MAX_PLUGIN_STATE);
    match serde_json::to_vec(&hosted.episode.data) {
        Ok(data) => PlaceAnswer { outcome, data: data.into(), plugins: plugins.unwrap_or_default().into() },
        // The front does not know this state, and continues from the one before.
        Err(error) => {
            tracing::error!(%error, "an episode cannot be written");
            EpisodeOutcome::Unknown.into()
        }
    }
}

async fn finish(hosted: HostedEpisode, order: FinishOrder) -> PlaceAnswer {
    let age = Duration::try_from_secs_f64(order.age_ms / 1e3).unwrap_or_default();
    let begun = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
    let record = instances::finish(&hosted.served, hosted.episode, begun, order).await;
    match encode_episodes(std::slice::from_ref(&record)) {
        Ok(data) => PlaceAnswer { data: data.into(), ..EpisodeOutcome::Finished.into() },
        Err(error) => {
            let message = format!("the session failed: its worker cannot write the record: {error}");
            EpisodeOutcome::Failed(ServeError::host(ErrorKind::Failed, message)).into()
        }
    }
}
