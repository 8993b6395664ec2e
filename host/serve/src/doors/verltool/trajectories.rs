//! Trajectories and their turns: which action is a repetition, and which session it belongs to.
//!
//! Nothing numbers the turns of a trajectory, and a client repeats a request whose answer it did not get. A repetition of
//! the last action is therefore answered again exactly if the last answer is still being made, or was not handed to the
//! connection; otherwise it is another turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_driver::Reply;
use serde_json::{Map, Value as Json, json};
use tokio::sync::{OnceCell, watch};

use super::answer::Answer;
use super::delivery::Delivered;
use super::request::Wanted;
use super::tags::{TagError, Tags};
use crate::config::VerlToolSection;
use crate::doors::Door;
use crate::error::{ErrorKind, Owner, ServeError};
use crate::session::{Action, Begin, OpenSession, Session, SessionTable, Step};
use gymkhana_http::Client;

/// Number of trajectories below which closed ones are not looked for.
const SWEEP_FROM: usize = 1024;

/// The trajectories of a door.
pub(super) struct Trajectories {
    sessions: SessionTable,
    tags: Tags,
    environment: Option<String>,
    done_if_invalid: bool,
    open: Mutex<Open>,
}

struct Open {
    by_id: HashMap<(Client, String), Arc<Trajectory>>,
    /// Number of trajectories at which those whose session is closed are removed.
    sweep_at: usize,
}

/// One trajectory.
struct Trajectory {
    /// Opened by the first action.
    session: OnceCell<Session>,
    last: Mutex<Option<Arc<Turn>>>,
}

/// One action and its answer.
pub(super) struct Turn {
    action: String,
    answer: watch::Receiver<Option<Answer>>,
    delivered: Arc<Delivered>,
}

impl Turn {
    /// The answer, once it is made.
    pub(super) async fn answer(&self) -> Answer {
        let mut answer = self.answer.clone();
        let made = answer.wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
        let lost = || {
            let error = ServeError::host(ErrorKind::Failed, "the action failed: the host panicked");
            Answer::failed(&error, true)
        };
        Answer { delivered: Some(Arc::clone(&self.delivered)), ..made.unwrap_or_else(lost) }
    }

    /// Whether this action repeats the turn.
    fn is_repeated_by(&self, action: &str) -> bool {
        let is_made = self.answer.borrow().is_some();
        self.action == action && !(is_made && self.delivered.is_set())
    }
}

impl Trajectories {
    /// No trajectories yet.
    ///
    /// # Errors
    /// If the section names an environment, a function or an argument that does not exist.
    pub(super) fn new(sessions: &SessionTable, section: &VerlToolSection) -> Result<Self, TagError> {
        Ok(Self {
            tags: Tags::new(section, sessions)?,
            sessions: sessions.clone(),
            environment: section.environment.clone(),
            done_if_invalid: section.done_if_invalid,
            open: Mutex::new(Open { by_id: HashMap::new(), sweep_at: SWEEP_FROM }),
        })
    }

    /// Begins a turn, which then runs to its end whether or not the client waits; or finds the one that is repeated.
    pub(super) fn turn(self: &Arc<Self>, client: &Client, wanted: Wanted) -> Arc<Turn> {
        let key = (client.clone(), wanted.trajectory.clone());
        let trajectory = if wanted.finish { self.leave(&key) } else { self.enter(key) };
        let mut last = trajectory.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repeated) = last.as_ref().filter(|last| last.is_repeated_by(&wanted.action)) {
            return Arc::clone(repeated);
        }
        let (sender, answer) = watch::channel(None);
        let turn = Arc::new(Turn { action: wanted.action.clone(), answer, delivered: Arc::default() });
        *last = Some(Arc::clone(&turn));
        drop(last);
        let (door, client) = (Arc::clone(self), client.clone());
        tokio::spawn(async move {
            let answer = door.perform(&client, &trajectory, wanted).await;
            // Nobody may wait any more; the answer is kept for a repetition.
            let _ = sender.send(Some(answer));
        });
        turn
    }

    /// The trajectory of an id, which begins if it is new.
    fn enter(&self, key: (Client, String)) -> Arc<Trajectory> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_id.len() >= open.sweep_at {
            open.by_id.retain(|_, trajectory| trajectory.session.get().is_none_or(Session::is_open));
            open.sweep_at = SWEEP_FROM.max(2 * open.by_id.len());
        }
        Arc::clone(open.by_id.entry(key).or_default())
    }

    /// The trajectory of an id that ends, or an empty one.
    fn leave(&self, key: &(Client, String)) -> Arc<Trajectory> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.by_id.remove(key).unwrap_or_default()
    }

    async fn perform(&self, client: &Client, trajectory: &Trajectory, wanted: Wanted) -> Answer {
        if wanted.finish {
            if let Some(session) = trajectory.session.get() {
                // It may have expired.
                let _ = session.close().await;
            }
            return Answer::finished();
        }
        let opened = trajectory.session.get_or_try_init(|| self.open(client, &wanted.extra)).await;
        let call = self.tags.call(&wanted.action);
        let result = match (opened, call) {
            (Err(error), _) => Err(error),
            (Ok(_), None) if self.environment.is_none() => {
                let reason = format!("the text calls no function; write {}", self.tags.forms());
                return Answer::invalid(&reason, Owner::Agent, &reason, self.done_if_invalid);
            }
            (Ok(session), call) => {
                let reply = match call {
                    Some(call) => Reply { message: String::new(), calls: vec![call] },
                    None => Reply { message: wanted.action.clone(), calls: vec![] },
                };
                session.act(Action { seat: None, reply, turn: None }).await
            }
        };
        match result {
            Ok(step) => self.observed(&step),
            Err(error) => Answer::failed(&error, true),
        }
    }

    /// Opens the session of a trajectory. `seed`, `split` and `index` of the data row select the task.
    async fn open(&self, client: &Client, extra: &Map<String, Json>) -> Result<Session, ServeError> {
        let seed = extra.get("seed").and_then(Json::as_u64);
        let Some(name) = &self.environment else {
            return self.sessions.open(client, Door::VerlTool, OpenSession::Tools { seed }).await;
        };
        let what = OpenSession::Environment { name: Some(name.clone()), options: vec![] };
        let split = extra.get("split").and_then(Json::as_str).map(ToOwned::to_owned);
        let index = extra.get("index").and_then(Json::as_u64);
        Ok(self.sessions.begin(client, Door::VerlTool, what, Begin { split, index, seed }).await?.0)
    }

    /// What the agent sees after a turn.
    fn observed(&self, step: &Step) -> Answer {
        if let Some(error) = step.fatal() {
            return Answer::failed(&error, true);
        }
        let text = step.text(step.seat);
        let failed = step.answers.iter().find_map(|answer| answer.failed.map(|owner| (owner, answer.text())));
        match failed {
            Some((owner, reason)) => Answer::invalid(&text, owner, &reason, step.done()),
            None if self.environment.is_some() => {
                let observation = json!({ "obs": text, "reward": step.reward(step.seat) });
                Answer { observation, done: step.done(), valid: true, delivered: None }
            }
            None => Answer { observation: Json::from(text), done: step.done(), valid: true, delivered: None },
        }
    }
}

impl Default for Trajectory {
    fn default() -> Self {
        Self { session: OnceCell::new(), last: Mutex::new(None) }
    }
}
