//! Trajectories and their turns: which action is a repetition, and which session it belongs to.
//!
//! Nothing numbers the turns of a trajectory, and a client repeats a request whose answer it did not get. A repetition of
//! the last action is therefore answered again exactly if the last answer is still being made, or was not handed to the
//! connection; otherwise it is another turn. An answer is kept until it is handed over, within limits of bytes for each
//! client and for all; of an action only its digest is kept. A trajectory without a session is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use gymkhana_chat::ThoughtMarks;
use gymkhana_driver::Reply;
use gymkhana_http::{Client, CountedBytes, KeptBytes};
use gymkhana_record::Seed;
use gymkhana_registry::Digest;
use serde_json::{Map, Value as Json, json};
use tokio::sync::{OnceCell, watch};

use super::answer::TrajectoryAnswer;
use super::delivery::{Delivered, Turns};
use super::request::Wanted;
use super::tags::{ActionTags, TagError};
use crate::config::VerlToolSection;
use crate::endpoints::Protocol;
use crate::error::{ErrorKind, Owner, ServeError};
use crate::session::{ClientSession, NextEpisode, SessionTable, SessionTarget, TurnAnswer, TurnRequest};

/// Number of trajectories below which closed ones are not looked for.
const SWEEP_FROM: usize = 1024;

/// Largest size in bytes of the answers that are kept for repetitions.
const MAX_ANSWERS: usize = 256 << 20;
/// Of these, those of one client.
const MAX_ANSWERS_OF_CLIENT: usize = 64 << 20;

/// The trajectories of an endpoint.
pub(super) struct Trajectories {
    sessions: SessionTable,
    tags: ActionTags,
    environment: Option<String>,
    done_if_invalid: bool,
    open: Mutex<OpenTrajectories>,
    answers: Arc<KeptBytes<Client>>,
}

struct OpenTrajectories {
    by_id: HashMap<(Client, String), Arc<OpenTrajectory>>,
    /// Number of trajectories at which those whose session is closed are removed.
    sweep_at: usize,
}

/// One trajectory.
struct OpenTrajectory {
    /// ResetResult by the first action.
    session: OnceCell<ClientSession>,
    last: Mutex<Option<Arc<TrajectoryTurn>>>,
}

/// One action and its answer.
pub(super) struct TrajectoryTurn {
    action: Digest,
    answer: watch::Receiver<Option<TrajectoryAnswer>>,
    delivered: Arc<Delivered>,
    /// The answer's share of the bytes that are kept, once it is made.
    kept: OnceLock<CountedBytes<Client>>,
}

impl TrajectoryTurn {
    /// The answer, once it is made.
    pub(super) async fn answer(&self) -> TrajectoryAnswer {
        let mut answer = self.answer.clone();
        let made = answer.wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        let lost = || {
            let error = ServeError::host(ErrorKind::Failed, "the action failed: the host panicked");
            TrajectoryAnswer::failed(&error, true)
        };
        TrajectoryAnswer { delivered: Some(Arc::clone(&self.delivered)), ..made.unwrap_or_else(lost) }
    }

    /// Whether this action repeats the turn.
    fn is_repeated_by(&self, action: &Digest) -> bool {
        let is_made = self.answer.borrow().is_some();
        self.action == *action && !(is_made && self.delivered.is_set())
    }
}

impl Trajectories {
    /// No trajectories yet.
    ///
    /// # Errors
    /// If the section names an environment, a function or an argument that does not exist.
    pub(super) fn new(sessions: &SessionTable, section: &VerlToolSection) -> Result<Self, TagError> {
        Ok(Self {
            tags: ActionTags::new(section, sessions)?,
            sessions: sessions.clone(),
            environment: section.environment.clone(),
            done_if_invalid: section.done_if_invalid,
            open: Mutex::new(OpenTrajectories { by_id: HashMap::new(), sweep_at: SWEEP_FROM }),
            answers: KeptBytes::new(MAX_ANSWERS, MAX_ANSWERS_OF_CLIENT),
        })
    }

    /// Begins a turn, which then runs to its end whether or not the client waits; or finds the one that is repeated.
    pub(super) fn turn(self: &Arc<Self>, client: &Client, wanted: Wanted) -> Arc<TrajectoryTurn> {
        let key = (client.clone(), wanted.trajectory.clone());
        let action = Digest::of(wanted.action.as_bytes());
        let trajectory = if wanted.finish { self.leave(&key) } else { self.enter(key.clone()) };
        let mut last = trajectory.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repeated) = last.as_ref().filter(|last| last.is_repeated_by(&action)) {
            return Arc::clone(repeated);
        }
        let (sender, answer) = watch::channel(None);
        let delivered = Arc::new(Delivered::of(Arc::downgrade(&trajectory) as Weak<dyn Turns>));
        let turn = Arc::new(TrajectoryTurn { action, answer, delivered, kept: OnceLock::new() });
        *last = Some(Arc::clone(&turn));
        drop(last);
        let (endpoint, client, made) = (Arc::clone(self), client.clone(), Arc::clone(&turn));
        tokio::spawn(async move {
            let answer = endpoint.perform(&client, &trajectory, wanted).await;
            match endpoint.answers.try_keep(client, answer.bytes()) {
                Some(kept) => drop(made.kept.set(kept)),
                None => trajectory.forget(&made.delivered),
            }
            // No request may wait any more; the answer is kept for a repetition.
            let _ = sender.send(Some(answer));
            if trajectory.session.get().is_none() {
                endpoint.remove(&key, &trajectory);
            }
        });
        turn
    }

    /// The trajectory of an id, which begins if it is new.
    fn enter(&self, key: (Client, String)) -> Arc<OpenTrajectory> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_id.len() >= open.sweep_at {
            // A trajectory whose session is being opened is removed by its turn, if it has none in the end.
            open.by_id.retain(|_, trajectory| trajectory.session.get().is_none_or(ClientSession::is_open));
            open.sweep_at = SWEEP_FROM.max(2 * open.by_id.len());
        }
        Arc::clone(open.by_id.entry(key).or_default())
    }

    /// The trajectory of an id that ends, or an empty one.
    fn leave(&self, key: &(Client, String)) -> Arc<OpenTrajectory> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.by_id.remove(key).unwrap_or_default()
    }

    /// Removes a trajectory that has no session.
    fn remove(&self, key: &(Client, String), trajectory: &Arc<OpenTrajectory>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_id.get(key).is_some_and(|known| Arc::ptr_eq(known, trajectory)) {
            open.by_id.remove(key);
        }
    }

    async fn perform(&self, client: &Client, trajectory: &OpenTrajectory, wanted: Wanted) -> TrajectoryAnswer {
        if wanted.finish {
            if let Some(session) = trajectory.session.get() {
                // It may have expired.
                let _ = session.close().await;
            }
            return TrajectoryAnswer::finished();
        }
        let opened = trajectory.session.get_or_try_init(|| self.open(client, &wanted.extra)).await;
        let call = self.tags.call(ThoughtMarks::split_any(&wanted.action).message);
        let result = match (opened, call) {
            (Err(error), _) => Err(error),
            (Ok(_), None) if self.environment.is_none() => {
                let reason = format!("the text calls no function; write {}", self.tags.forms());
                return TrajectoryAnswer::invalid(&reason, Owner::Agent, &reason, self.done_if_invalid);
            }
            (Ok(session), call) => {
                let reply = match call {
                    Some(call) => Reply { thoughts: None, message: String::new(), calls: vec![call] },
                    None => Reply { thoughts: None, message: wanted.action.clone(), calls: vec![] },
                };
                session.act(TurnRequest { seat: None, reply, turn: None }).await
            }
        };
        match result {
            Ok(step) => self.observed(&step),
            Err(error) => TrajectoryAnswer::failed(&error, true),
        }
    }

    /// Opens the session of a trajectory. `seed`, `split` and `index` of the data row select the task.
    async fn open(&self, client: &Client, extra: &Map<String, Json>) -> Result<ClientSession, ServeError> {
        let seed = extra.get("seed").and_then(Json::as_u64);
        let Some(name) = &self.environment else {
            return self.sessions.open(client, Protocol::VerlTool, SessionTarget::Tools { seed }).await;
        };
        let what = SessionTarget::Environment { name: Some(name.clone()), options: vec![] };
        let split = extra.get("split").and_then(Json::as_str).map(ToOwned::to_owned);
        let index = extra.get("index").and_then(Json::as_u64);
        Ok(self
            .sessions
            .begin(client, Protocol::VerlTool, what, NextEpisode { split, task: index, seed: seed.map(Seed) })
            .await?
            .0)
    }

    /// What the agent sees after a turn.
    fn observed(&self, step: &TurnAnswer) -> TrajectoryAnswer {
        if let Some(error) = step.fatal() {
            return TrajectoryAnswer::failed(&error, true);
        }
        let text = step.text(step.seat);
        let failed = step.answers.iter().find_map(|answer| answer.failed.map(|owner| (owner, answer.text())));
        match failed {
            Some((owner, reason)) => TrajectoryAnswer::invalid(&text, owner, &reason, step.done()),
            None if self.environment.is_some() => {
                let observation = json!({ "obs": text, "reward": step.reward(step.seat) });
                TrajectoryAnswer { observation, done: step.done(), valid: true, delivered: None }
            }
            None => TrajectoryAnswer { observation: Json::from(text), done: step.done(), valid: true, delivered: None },
        }
    }
}

impl Turns for OpenTrajectory {
    fn forget(&self, delivered: &Delivered) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| std::ptr::eq(&*last.delivered, delivered)) {
            *last = None;
        }
    }
}

impl Default for OpenTrajectory {
    fn default() -> Self {
        Self { session: OnceCell::new(), last: Mutex::new(None) }
    }
}
