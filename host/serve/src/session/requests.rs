//! The requests of one session.

use std::pin::Pin;
use std::sync::Arc;

use gymkhana_driver::NextEpisode;
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Function, NamedValue, Seed, TaskRef, stored_bytes};
use gymkhana_sandbox::Image;
use gymkhana_waits::{Counterpart, until};
use serde_json::Value as Json;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tracing::{Instrument, info_span};

use super::ended::check_scored;
use super::entry::Entry;
use super::episode::{ActiveEpisode, EndedEpisode, not_started};
use super::id::SessionId;
use super::relocations::Relocations;
use super::shared::{SessionContext, unknown};
use super::state::{Play, SessionState};
use super::types::{CallAnswer, Closed, EpisodeScore, LastObservation, ResetResult, Status, TurnAnswer, TurnRequest};
use crate::catalog::ServedEnvironment;
use crate::error::{ErrorKind, Owner, ServeError};
use crate::protocol::Protocol;
use crate::remote::{MAX_LOST, RemoteError, lost_worker, unplaced};

/// A session of one client. Clones are the same session; dropping them closes nothing.
#[derive(Clone)]
pub struct ClientSession {
    pub(super) shared: Arc<SessionContext>,
    pub(super) entry: Arc<Entry>,
}

/// Whether a request needs live plugin instances.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Instances {
    /// It reads what the host holds.
    None,
    /// A parked episode becomes live.
    Present,
    /// An episode begins.
    New,
    /// The session ends: a parked episode becomes live if it can.
    Last,
}

type SessionFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ServeError>> + Send + 'a>>;

impl ClientSession {
    /// Its id, which only this client may use.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.entry.id
    }

    /// The protocol that opened it.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.entry.protocol
    }

    /// Whether it is open: neither closed nor expired.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.holds(&self.entry.id)
    }

    /// Begins an episode and ends the one before.
    ///
    /// # Errors
    /// If the split or the task does not exist, the environment fails, or no place becomes free in time.
    pub async fn reset(&self, begin: NextEpisode) -> Result<ResetResult, ServeError> {
        self.run(Instances::New, |shared, state| {
            Box::pin(async move {
                shared.records.check()?;
                end_episode(shared, state, Ending::EarlyStopped).await?;
                let (task, seed) = state.next(begin)?;
                let served = Arc::clone(&state.served);
                let record = shared.records.next_id(&served, &shared.catalog).await?;
                let (live, opened) = start(shared, state, (record, task, seed)).await?;
                let began = shared.records.began(served.folder(), &live.known()).await;
                state.play = Play::Live(Box::new(live));
                began.map(|()| opened)
            })
        })
        .await
    }

    /// Takes a turn of the seat to move. A failure of the environment ends the episode and is in the step.
    ///
    /// # Errors
    /// If no episode is running, another seat or turn is meant, or a deadline passes.
    pub async fn act(&self, action: TurnRequest) -> Result<TurnAnswer, ServeError> {
        self.run(Instances::Present, |shared, state| {
            Box::pin(async move {
                // An answer that is given again may not be written yet either.
                shared.records.check()?;
                if let Play::Ended(ended) = &state.play
                    && let Some(again) = ended.facts.repeated(&action.reply, action.turn)?
                {
                    return Ok(again);
                }
                state.live()?;
                state.texts.add(&action.reply)?;
                let served = Arc::clone(&state.served);
                let (before, mut moves) = (state.live()?.data().extent(), Relocations::default());
                let step = loop {
                    match state.live()?.act(&shared.episode, action.clone()).await {
                        Ok(step) => break step,
                        Err(error) => moves.next(shared, state, error).await?,
                    }
                };
                let live = state.live()?;
                let added = live.data().since(before);
                let noted = shared.records.added(served.folder(), live.facts.record, &added).await;
                let Some(ending) = step.ending else { return noted.map(|()| step) };
                let stored = end_episode(shared, state, ending).await;
                let Play::Ended(ended) = &mut state.play else { return Ok(step) };
                let step = step.with_score(&ended.record);
                ended.remember(&step);
                noted.and(stored).map(|()| step)
            })
        })
        .await
    }

    /// Calls one function: of a tool, or of the environment.
    ///
    /// # Errors
    /// As [`ClientSession::act`].
    pub async fn call(&self, name: &str, arguments: &Json) -> Result<(CallAnswer, TurnAnswer), ServeError> {
        let mut step = self.act(TurnRequest::call(name, arguments)).await?;
        match step.answers.pop() {
            Some(answer) => Ok((answer, step)),
            // An environment that fails in a call answers none.
            None => Err(step.fatal().unwrap_or_else(|| {
                ServeError::host(ErrorKind::Failed, format!("function `{name}` was called and gave no answer"))
            })),
        }
    }

    /// Functions of a seat, or of the seat to move. Before the first episode, those of the first task.
    ///
    /// # Errors
    /// If the environment fails.
    pub async fn functions(&self, seat: Option<u32>) -> Result<Vec<Function>, ServeError> {
        self.run(Instances::Present, move |_, state| {
            Box::pin(async move {
                match &state.play {
                    Play::Live(live) => {
                        let data = live.data();
                        Ok(data.functions(seat.unwrap_or(data.seat)).to_vec())
                    }
                    Play::Ended(ended) => {
                        let offered = &ended.record.opening.functions;
                        let offered = offered.iter().find(|offered| offered.seat == seat.unwrap_or(0));
                        Ok(offered.map(|offered| offered.functions.clone()).unwrap_or_default())
                    }
                    Play::Waiting | Play::Parked(_) => Ok(state.served.described().first_functions().await?.to_vec()),
                }
            })
        })
        .await
    }

    /// The state of the session and its episode.
    ///
    /// # Errors
    /// If the session is closed, or a deadline passes.
    pub async fn status(&self) -> Result<Status, ServeError> {
        self.run(Instances::Present, |_, state| {
            Box::pin(async move {
                let environment = state.served.name().to_owned();
                Ok(Status { environment, episodes: state.episodes, episode: state.episode() })
            })
        })
        .await
    }

    /// What the seat to move saw last. It does not count as a turn and changes nothing.
    ///
    /// # Errors
    /// If no episode has begun, the session is closed, or a deadline passes.
    pub async fn observed(&self) -> Result<LastObservation, ServeError> {
        self.run(Instances::Present, |_, state| Box::pin(async move { state.observed() })).await
    }

    /// The environment's values for rewards and teachers. Agents must not see them.
    ///
    /// # Errors
    /// If the environment does not offer it or fails, or no episode has begun.
    pub async fn privileged(&self) -> Result<Vec<NamedValue>, ServeError> {
        self.run(Instances::Present, |shared, state| {
            Box::pin(async move {
                if let Play::Ended(ended) = &state.play {
                    return Ok(ended.record.privileged.clone());
                }
                let mut moves = Relocations::default();
                loop {
                    match state.live()?.player.privileged().await {
                        Ok(view) => return Ok(view),
                        Err(error) => moves.next(shared, state, error).await?,
                    }
                }
            })
        })
        .await
    }

    /// A picture of the state, as text or SVG.
    ///
    /// # Errors
    /// If the environment does not offer it or fails, or no episode is running.
    pub async fn render(&self) -> Result<Image, ServeError> {
        self.run(Instances::Present, |shared, state| {
            Box::pin(async move {
                let mut moves = Relocations::default();
                loop {
                    match state.live()?.player.render().await {
                        Ok(image) => return Ok(image),
                        Err(error) => moves.next(shared, state, error).await?,
                    }
                }
            })
        })
        .await
    }

    /// Scores of the episode, which has ended.
    ///
    /// # Errors
    /// If it has not.
    pub async fn score(&self) -> Result<EpisodeScore, ServeError> {
        self.ended(None).await.map(|(record, ..)| EpisodeScore::of(&record))
    }

    /// The environment that it plays; that of tool sessions for a session of tools.
    ///
    /// # Errors
    /// If the session is closed, or a deadline passes.
    pub async fn environment(&self) -> Result<Arc<ServedEnvironment>, ServeError> {
        self.run(Instances::None, |_, state| Box::pin(async move { Ok(Arc::clone(&state.served)) })).await
    }

    /// Keeps the session from expiring.
    pub fn ping(&self) {
        self.shared.touch(&self.entry);
    }

    /// Ends the episode and closes the session. Returns what is left of the last episode; `None` if none has begun.
    ///
    /// # Errors
    /// If the session is closed already, or a deadline passes: the session is then closed after its present request.
    pub async fn close(&self) -> Result<Option<Closed>, ServeError> {
        self.shared.remove(&self.entry);
        self.run(Instances::Last, |shared, state| Box::pin(close(shared, state, Ending::EarlyStopped))).await
    }

    /// Closes the session for a reason of the server.
    pub(super) async fn end(&self, ending: Ending) {
        self.shared.remove(&self.entry);
        let closed = self.run(Instances::Last, move |shared, state| Box::pin(close(shared, state, ending))).await;
        if let Err(error) = closed {
            tracing::warn!(session = %self.entry.id, %error, "a session could not be closed in time");
        }
    }

    /// The record of the ended episode, its environment, and its size as JSON. `before` is the size of the records that are
    /// scored together with it, if it is to be scored again.
    pub(super) async fn ended(
        &self,
        before: Option<u64>,
    ) -> Result<(EpisodeRecord, Arc<ServedEnvironment>, u64), ServeError> {
        self.run(Instances::None, move |_, state| {
            Box::pin(async move {
                let Play::Ended(ended) = &state.play else {
                    let message = "the episode cannot be scored: it has not ended";
                    return Err(ServeError::agent(ErrorKind::OutOfOrder, message));
                };
                let bytes = stored_bytes(&ended.record);
                if let Some(before) = before {
                    check_scored(&state.served, before.saturating_add(bytes))?;
                }
                Ok((ended.record.clone(), Arc::clone(&state.served), bytes))
            })
        })
        .await
    }

    /// Runs a request after those before it. While the server is shutting down, only the last request of a session runs.
    async fn run<T: Send + 'static>(
        &self,
        instances: Instances,
        work: impl for<'a> FnOnce(&'a SessionContext, &'a mut SessionState) -> SessionFuture<'a, T> + Send + 'static,
    ) -> Result<T, ServeError> {
        if instances != Instances::Last {
            self.shared.check_open()?;
        }
        let since = Instant::now();
        let result = async {
            let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry));
            shared.touch(&entry);
            let deadline = since + shared.limits.request();
            let state = until(Counterpart::Place, deadline, Arc::clone(&entry.state).lock_owned()).await;
            let mut state = state.map_err(|_| busy())?;
            if state.closed {
                return Err(unknown(&entry.id));
            }
            if instances == Instances::New || instances == Instances::Present && state.is_parked() {
                state.take_place(&shared).await?;
            }
            let span =
                info_span!("session", id = %entry.id, protocol = entry.protocol.label(), client = entry.client.name());
            let owner = if state.served.is_tools_only() { Owner::Tool } else { Owner::Environment };
            let task = async move {
                let result = async {
                    make_live(&shared, &mut state, instances).await?;
                    work(&shared, &mut state).await
                };
                let result = result.await;
                settle(&shared, &entry, &mut state);
                result
            };
            self.shared.call_until(deadline, owner, task.instrument(span)).await
        };
        let result = result.await;
        self.shared.metrics.finished(self.entry.protocol, result.as_ref().err(), since.elapsed());
        result
    }
}

/// Makes a parked episode live again, if the request needs instances. Most requests find a live episode, and their
/// futures stay small.
async fn make_live(shared: &SessionContext, state: &mut SessionState, instances: Instances) -> Result<(), ServeError> {
    match instances {
        Instances::None => {}
        _ if !state.is_parked() => {}
        Instances::Present | Instances::New => Box::pin(state.unpark(shared)).await?,
        // Without instances, the record is what the host knows.
        Instances::Last => drop(Box::pin(state.unpark(shared)).await),
    }
    Ok(())
}

/// Returns the place of a session without a live episode, and notes the use of one with.
fn settle(shared: &SessionContext, entry: &Arc<Entry>, state: &mut OwnedMutexGuard<SessionState>) {
    shared.touch(entry);
    if state.play.is_live() {
        shared.places.used(entry);
    } else {
        shared.places.unused(entry);
        state.place = None;
    }
}

impl SessionContext {
    /// Runs a task on the threads of plugin calls, within the limit of calls that run at the same time. Its end does not
    /// depend on the caller.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, ServeError>> + Send + 'static,
    ) -> Result<T, ServeError> {
        self.call_until(Instant::now() + self.limits.request(), Owner::Reward, task).await
    }

    /// As [`SessionContext::call`]. After the deadline, `owner` is the party whose call still runs.
    async fn call_until<T: Send + 'static>(
        &self,
        deadline: Instant,
        owner: Owner,
        task: impl Future<Output = Result<T, ServeError>> + Send + 'static,
    ) -> Result<T, ServeError> {
        let permit = until(Counterpart::Place, deadline, Arc::clone(&self.running).acquire_owned()).await;
        // The semaphore is never closed.
        let Ok(Ok(permit)) = permit else {
            let message = "the request cannot run: all threads of plugins stayed in use\nhint: repeat it later";
            return Err(ServeError::host(ErrorKind::Full, message));
        };
        let running = self.guests.spawn(async move {
            let result = task.await;
            drop(permit);
            result
        });
        match until(Counterpart::Place, deadline, running).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ServeError::host(ErrorKind::Failed, "the request failed: the host panicked")),
            Err(_) => {
                let seconds = self.limits.request_seconds;
                let message = format!("the request took longer than {seconds} s\nhint: raise sessions.request_seconds");
                Err(ServeError::new(owner, ErrorKind::Deadline, message))
            }
        }
    }
}

fn busy() -> ServeError {
    let message = "the request cannot run: another request of the session is running\nhint: wait for its answer";
    ServeError::agent(ErrorKind::Busy, message)
}

/// Starts an episode at the place of the session, or at another one if its worker is lost.
async fn start(
    shared: &SessionContext,
    state: &mut SessionState,
    what: (EpisodeId, TaskRef, Seed),
) -> Result<(ActiveEpisode, ResetResult), ServeError> {
    let served = Arc::clone(&state.served);
    state.play = Play::Waiting;
    let mut lost_workers = 0;
    loop {
        let place = state.take_place(shared).await?;
        match ActiveEpisode::start(&served, &shared.episode, place, what.clone()).await {
            Ok(started) => return Ok(started),
            Err(RemoteError::NotStarted(failed)) => {
                let (record, error) = not_started(what, failed);
                // The first error is the reason.
                let _ = shared.records.store(&served, &shared.catalog, &record).await;
                return Err(error);
            }
            Err(error) => {
                let lost = lost_worker(error)?;
                tracing::warn!("an episode starts at another worker: {lost}");
                state.place = None;
                lost_workers += 1;
                if lost_workers > MAX_LOST {
                    return Err(unplaced(&lost));
                }
            }
        }
    }
}

/// Ends a running episode and stores its record.
///
/// # Errors
/// If the record is not written in time.
async fn end_episode(shared: &SessionContext, state: &mut SessionState, ending: Ending) -> Result<(), ServeError> {
    let (served, mut moves) = (Arc::clone(&state.served), Relocations::default());
    loop {
        match std::mem::replace(&mut state.play, Play::Waiting) {
            Play::Live(live) => match live.finish(&served, ending).await {
                Ok(ended) => {
                    let stored = shared.records.store(&served, &shared.catalog, &ended.record).await;
                    state.play = Play::Ended(Box::new(ended));
                    return stored;
                }
                Err((live, error)) => {
                    state.play = Play::Live(live);
                    if let Err(error) = moves.next(shared, state, error).await {
                        return state.give_up(shared, &error.message).await;
                    }
                }
            },
            Play::Parked(parked) => {
                state.play = Play::Parked(parked);
                return state.give_up(shared, "the episode could not be continued for its end").await;
            }
            other => {
                state.play = other;
                return Ok(());
            }
        }
    }
}

/// Ends the episode and marks the session as closed.
async fn close(
    shared: &SessionContext,
    state: &mut SessionState,
    ending: Ending,
) -> Result<Option<Closed>, ServeError> {
    state.closed = true;
    let stored = end_episode(shared, state, ending).await;
    match std::mem::replace(&mut state.play, Play::Waiting) {
        Play::Ended(ended) => {
            stored?;
            let EndedEpisode { record, facts } = *ended;
            Ok(Some(Closed { record: facts.record, ending: record.ending, score: EpisodeScore::of(&record) }))
        }
        Play::Waiting | Play::Live(_) | Play::Parked(_) => Ok(None),
    }
}
