//! The sessions of harnesses that run elsewhere: opened, watched and closed.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

use futures::future::BoxFuture;
use gymkhana_http::{Client, ClientTokens};
use gymkhana_record::{EpisodeId, TaskRef};
use gymkhana_waits::sync::{Arc, Mutex, MutexGuard, PoisonError};
use gymkhana_waits::{Counterpart, within};
use serde::Serialize;
use tokio::sync::{Notify, oneshot, watch};

use super::{ExternalPrograms, SessionOffer};
use crate::dialect::{ApiError, ErrorClass};
use crate::program::{ProgramEnd, ProgramStartError};
use crate::session::SessionJournal;

/// Ended sessions whose results are kept for repeated requests.
const KEPT_RESULTS: usize = 4096;
/// Time between two looks at the idleness of a session.
const IDLE_CHECK: Duration = Duration::from_millis(200);

/// Request for a new session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionRequest {
    /// The task; the next one of the run if there is none.
    pub task: Option<TaskRef>,
    /// The seed of the episode.
    pub seed: Option<u64>,
}

/// The result of a session, as its harness gets it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HarnessResult {
    /// Id of the episode in the records.
    pub episode: String,
    /// The reason why the episode ended.
    pub ending: String,
    /// The reward; none if the episode was not scored.
    pub reward: Option<f64>,
    /// Whether the success rule holds.
    pub success: bool,
    /// Number of the policy's replies.
    pub turns: usize,
    /// All failures.
    pub failures: Vec<String>,
}

/// The episodes of a run, one for each session.
pub trait Episodes: Send + Sync {
    /// The id of the next episode.
    ///
    /// # Errors
    /// If the task is unknown.
    fn next(&self, wanted: &SessionRequest) -> Result<EpisodeId, ApiError>;

    /// Plays an episode to its end, and stores its record.
    fn play(&self, id: EpisodeId, wanted: SessionRequest) -> BoxFuture<'static, Result<HarnessResult, ApiError>>;
}

/// Bounds of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlLimits {
    /// Open sessions of all clients. One more is refused.
    pub sessions: usize,
    /// Time without a request after which a session ends.
    pub idle: Duration,
}

/// The result of a session, once it has ended.
pub(super) type SessionResult = Option<Result<HarnessResult, ApiError>>;

/// A session, open or ended.
struct SessionEntry {
    client: Client,
    /// Ends the session; taken when it is closed.
    end: Option<oneshot::Sender<ProgramEnd>>,
    result: watch::Receiver<SessionResult>,
}

#[derive(Default)]
struct ControlState {
    /// Requests that wait for the session of their episode.
    waiting: HashMap<EpisodeId, oneshot::Sender<OfferedSession>>,
    sessions: HashMap<String, SessionEntry>,
    /// Ids of all sessions in the order of their opening.
    opened: VecDeque<String>,
    /// Episodes that are not stored yet.
    live: usize,
}

impl ControlState {
    fn insert(&mut self, session: String, entry: SessionEntry) {
        self.opened.push_back(session.clone());
        self.sessions.insert(session, entry);
        while self.sessions.len() > self.live + KEPT_RESULTS {
            let has_ended = |id: &String| self.sessions.get(id).is_none_or(|entry| entry.result.borrow().is_some());
            let oldest = self.opened.iter().position(has_ended).and_then(|oldest| self.opened.remove(oldest));
            let Some(oldest) = oldest else { return };
            self.sessions.remove(&oldest);
        }
    }
}

/// A session that was offered to a request.
struct OfferedSession {
    offer: SessionOffer,
    end: oneshot::Sender<ProgramEnd>,
}

/// Opens, watches and closes sessions.
pub struct Control {
    limits: ControlLimits,
    pub(super) tokens: ClientTokens,
    episodes: OnceLock<Arc<dyn Episodes>>,
    journal: OnceLock<Arc<dyn SessionJournal>>,
    state: Mutex<ControlState>,
    /// Notified when an episode is stored.
    stored: Notify,
    stopping: watch::Sender<Stopping>,
}

/// The end of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// It goes on.
    No,
    /// No further session is opened.
    Draining,
    /// Open sessions end.
    Now,
}

impl Control {
    /// Sessions within these bounds for these clients. [`Control::set_episodes`] gives them episodes.
    #[must_use]
    pub fn new(limits: ControlLimits, tokens: ClientTokens) -> Self {
        Self {
            limits,
            tokens,
            episodes: OnceLock::new(),
            journal: OnceLock::new(),
            state: Mutex::default(),
            stored: Notify::new(),
            stopping: watch::channel(Stopping::No).0,
        }
    }

    /// Plays these episodes in the sessions from now on. Later calls change nothing.
    pub fn set_episodes(&self, episodes: Arc<dyn Episodes>) {
        let _ = self.episodes.set(episodes);
    }

    /// Writes the turns of later sessions to this journal. Later calls change nothing.
    pub fn set_journal(&self, journal: Arc<dyn SessionJournal>) {
        let _ = self.journal.set(journal);
    }

    /// Why records cannot be written now, in one line.
    pub(super) fn unwritable(&self) -> Option<String> {
        let problem = self.journal.get()?.problem()?;
        Some(problem.lines().next().unwrap_or_default().to_owned())
    }

    /// Number of episodes that are not stored yet.
    #[must_use]
    pub fn live(&self) -> usize {
        self.state().live
    }

    /// Refuses further sessions, waits until all have ended, and ends those that are open after `grace`. Their last calls
    /// and scores may take as long as `most`. Returns the number of those that have not ended then.
    pub async fn drain(&self, grace: Duration, most: Duration) -> usize {
        self.stopping.send_replace(Stopping::Draining);
        if within(Counterpart::Client, grace, self.all_stored()).await.is_err() {
            self.stopping.send_replace(Stopping::Now);
            // The number of those that are left is the result.
            let _ = within(Counterpart::Client, most, self.all_stored()).await;
        }
        self.live()
    }

    async fn all_stored(&self) {
        loop {
            let stored = self.stored.notified();
            if self.live() == 0 {
                return;
            }
            stored.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session.
    pub(super) async fn open(
        self: &Arc<Self>,
        client: Client,
        wanted: SessionRequest,
    ) -> Result<SessionOffer, ApiError> {
        let unavailable = |message: &str| ApiError::new(ErrorClass::Unavailable, message);
        let Some(episodes) = self.episodes.get() else { return Err(unavailable("the gateway is starting")) };
        if let Some(why) = self.unwritable() {
            let message = format!("no session can be recorded: {why}\nhint: free space on the disk of --out");
            return Err(unavailable(&message));
        }
        let episode = episodes.next(&wanted)?;
        let (offer, offered) = oneshot::channel();
        {
            let mut state = self.state();
            // Under the lock: the end waits for every session that was counted before it.
            if *self.stopping.borrow() != Stopping::No {
                return Err(unavailable("the gateway is ending and opens no further session"));
            }
            if state.live >= self.limits.sessions {
                let message = format!(
                    "all {} sessions are open\nhint: close one, or raise gateway.sessions",
                    self.limits.sessions
                );
                return Err(unavailable(&message));
            }
            state.live += 1;
            state.waiting.insert(episode, offer);
        }
        let (ends, result) = watch::channel(None);
        let mut early = result.clone();
        tokio::spawn(Arc::clone(self).run(episode, episodes.play(episode, wanted), ends));
        tokio::select! {
            biased;
            Ok(OfferedSession { offer, end }) = offered => {
                let entry = SessionEntry { client, end: Some(end), result };
                self.state().insert(offer.session.clone(), entry);
                Ok(offer)
            }
            _ = early.wait_for(Option::is_some) => Err(never_offered(&result)),
        }
    }

    /// Plays an episode, and keeps its result.
    async fn run(
        self: Arc<Self>,
        episode: EpisodeId,
        play: BoxFuture<'static, Result<HarnessResult, ApiError>>,
        ends: watch::Sender<SessionResult>,
    ) {
        let _live = LiveEpisode { control: self, episode };
        let result = play.await;
        ends.send_replace(Some(result));
    }

    /// Closes a session of this client, and waits for its result. A repeated request gets the same one.
    pub(super) async fn close(
        &self,
        client: &Client,
        session: &str,
        end: ProgramEnd,
    ) -> Result<HarnessResult, ApiError> {
        let mut result = {
            let mut state = self.state();
            let entry = state.sessions.get_mut(session).filter(|entry| entry.client == *client);
            let entry = entry.ok_or_else(no_session)?;
            if let Some(sender) = entry.end.take() {
                // The session may have ended by itself.
                let _ = sender.send(end);
            }
            entry.result.clone()
        };
        let ended = result.wait_for(Option::is_some).await.map(|ended| ended.clone());
        ended.ok().flatten().unwrap_or_else(|| Err(no_session()))
    }

    /// The result of a session of this client; `None` while it is open.
    pub(super) fn result(&self, client: &Client, session: &str) -> Result<SessionResult, ApiError> {
        let state = self.state();
        let entry = state.sessions.get(session).filter(|entry| entry.client == *client).ok_or_else(no_session)?;
        Ok(entry.result.borrow().clone())
    }
}

/// An episode that is played: dropping it, also by a panic, frees its place.
struct LiveEpisode {
    control: Arc<Control>,
    episode: EpisodeId,
}

impl Drop for LiveEpisode {
    fn drop(&mut self) {
        let mut state = self.control.state();
        state.waiting.remove(&self.episode);
        state.live -= 1;
        drop(state);
        self.control.stored.notify_waiters();
    }
}

impl ExternalPrograms for Control {
    fn play(&self, offer: SessionOffer) -> BoxFuture<'_, Result<ProgramEnd, ProgramStartError>> {
        Box::pin(async move {
            let (end, mut ended) = oneshot::channel();
            let activity = offer.activity.clone();
            let gone = || ProgramStartError::Stopped("the harness has disconnected".to_owned());
            let waiting = self.state().waiting.remove(&offer.episode).ok_or_else(gone)?;
            waiting.send(OfferedSession { offer, end }).map_err(|_| gone())?;
            let mut stopping = self.stopping.subscribe();
            loop {
                tokio::select! {
                    ended = &mut ended => return ended.map_err(|_| gone()),
                    _ = stopping.wait_for(|stopping| *stopping == Stopping::Now) => {
                        return Err(ProgramStartError::Stopped("the gateway has ended".to_owned()));
                    }
                    () = tokio::time::sleep(IDLE_CHECK.min(self.limits.idle)) => {
                        if activity.idle() >= self.limits.idle {
                            return Ok(failed(format!("no request for {} seconds", self.limits.idle.as_secs_f64())));
                        }
                    }
                }
            }
        })
    }

    fn given_up(&self, episode: EpisodeId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.state().waiting.get(&episode).is_some_and(|waiting| !waiting.is_closed()) {
                tokio::time::sleep(IDLE_CHECK).await;
            }
        })
    }

    fn journal(&self) -> Option<Arc<dyn SessionJournal>> {
        self.journal.get().cloned()
    }
}

/// The error of an episode that ended before its session was offered.
fn never_offered(result: &watch::Receiver<SessionResult>) -> ApiError {
    match result.borrow().clone() {
        Some(Err(error)) => error,
        Some(Ok(ended)) => {
            let why = ended.failures.first().cloned().unwrap_or(ended.ending);
            ApiError::new(ErrorClass::Invalid, format!("the episode did not start: {why}"))
        }
        None => ApiError::new(ErrorClass::Policy, "the episode did not start"),
    }
}

/// The error of a session that does not exist, or is another client's.
fn no_session() -> ApiError {
    ApiError::new(ErrorClass::NotFound, "there is no such session\nhint: open one with POST /sessions")
}

/// The end of a harness that gave this answer; without one, the policy's last reply is the answer.
pub(super) fn answered(answer: Option<String>) -> ProgramEnd {
    let output = answer.unwrap_or_default().into_bytes();
    ProgramEnd { status: Some(0), signal: None, output, overflowed: false, stderr: String::new() }
}

/// The end of a harness that failed.
pub(super) fn failed(why: String) -> ProgramEnd {
    ProgramEnd { status: Some(1), signal: None, output: vec![], overflowed: false, stderr: why }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
