//! Policy calls of workers, answered by the run's models. A repeated call gets the answer of the first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use gymkhana_chat::StopTexts;
use gymkhana_orchestration::seat_players::SeatPlayers;
use gymkhana_policy::{Conversation, GenerateRequest, PolicyError, ScoreRequest, StopCondition};
use gymkhana_rollout::{Rollout, SeatPlayer};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinSet};

use crate::bus::Bus;
use crate::messages::{PolicyAnswer, PolicyCall, PolicyRequest, encode};
use crate::reply::ReplyTo;
use crate::signature::Signer;

/// First number of the conversations of workers; those of this process count from 0.
const FIRST_CONVERSATION: u64 = 1 << 63;

const TOO_LARGE: &str = "a reply is larger than a message of the bus\nhint: raise max_payload of nats-server";

/// A call by its worker and its number there.
type CallId = (String, u64);

/// Stop conditions that are kept.
const MAX_STOP_CONDITIONS: usize = 64;

/// Answer of a finished call.
pub(crate) struct FinishedCall {
    call: CallId,
    answer: Option<Bytes>,
    /// Weight versions of the tokens that were sampled.
    versions: Vec<u32>,
}

/// Tokens that a seat's model has sampled for a job.
pub(crate) struct SampledTokens {
    pub job: u64,
    pub seat: u32,
    pub versions: Vec<u32>,
}

enum CallProgress {
    Running { reply: Option<ReplyTo>, task: AbortHandle },
    Done(Bytes),
}

struct PendingCall {
    job: u64,
    delivery: u64,
    seat: u32,
    /// The conversation that it continues, and whether its task or its end came first.
    continues: Option<(CallId, Arc<Last>)>,
    progress: CallProgress,
}

/// Decides who releases a conversation whose call is ended: the call's task when it is gone, or the dispatcher if the task is
/// gone already. A model that got the release before it forgot the call would keep the conversation without end.
#[derive(Default)]
struct Last(AtomicBool);

impl Last {
    /// Whether the other side was here before.
    fn is_second(&self) -> bool {
        self.0.swap(true, Ordering::AcqRel)
    }
}

/// Releases the conversation of an ended call when the call's task is gone.
struct TaskEnd {
    seats: Arc<dyn SeatPlayers>,
    seat: u32,
    conversation: Conversation,
    last: Arc<Last>,
}

impl Drop for TaskEnd {
    fn drop(&mut self) {
        if self.last.is_second() {
            release(&*self.seats, self.seat, self.conversation);
        }
    }
}

struct Mapped {
    job: u64,
    delivery: u64,
    seat: u32,
    conversation: Conversation,
}

/// Calls in progress, and the conversations of workers in the run's models.
pub(crate) struct PolicyCalls {
    seats: Arc<dyn SeatPlayers>,
    /// An environment of the run, for its chat format.
    rollout: Arc<Rollout>,
    sender: Sender,
    finished: UnboundedSender<FinishedCall>,
    calls: HashMap<CallId, PendingCall>,
    conversations: HashMap<CallId, Mapped>,
    next_conversation: u64,
    stop_texts: BTreeMap<Vec<String>, Option<Arc<dyn StopCondition>>>,
    tasks: JoinSet<()>,
}

impl PolicyCalls {
    pub fn new(
        seats: Arc<dyn SeatPlayers>,
        rollout: Arc<Rollout>,
        (bus, signer): (Bus, Signer),
        finished: UnboundedSender<FinishedCall>,
    ) -> Self {
        Self {
            seats,
            rollout,
            sender: Sender { bus, signer, tasks: JoinSet::new() },
            finished,
            calls: HashMap::new(),
            conversations: HashMap::new(),
            next_conversation: FIRST_CONVERSATION,
            stop_texts: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Begins a call of a job's newest delivery, or answers again if it was answered.
    pub fn begin(&mut self, call: PolicyCall, reply: Option<ReplyTo>) {
        while self.tasks.try_join_next().is_some() {}
        while self.sender.tasks.try_join_next().is_some() {}
        let PolicyCall { worker, job, delivery, call: number, seat, request } = call;
        let id = (worker.clone(), number);
        if let Some(known) = self.calls.get_mut(&id) {
            match &mut known.progress {
                CallProgress::Running { reply: waiting, .. } => *waiting = reply,
                CallProgress::Done(answer) => self.sender.send(reply, answer),
            }
            return;
        }
        let seats = Arc::clone(&self.seats);
        let (finished, answered) = (self.finished.clone(), id.clone());
        let report = move |answer: PolicyAnswer| {
            let versions = match &answer {
                PolicyAnswer::Generated(generated) => generated.sampled.versions.clone(),
                _ => vec![],
            };
            // Without a receiver the run is over.
            let _ = finished.send(FinishedCall { call: answered, answer: encode(&answer).ok(), versions });
        };
        let mut continues = None;
        let task = match request {
            PolicyRequest::Release { conversation } => {
                self.end_conversation(&(worker, conversation));
                return self.answer_at_once(&PolicyAnswer::Released, reply);
            }
            PolicyRequest::Score { prefix, continuation } => self.tasks.spawn(async move {
                let request = ScoreRequest { prefix: prefix.into(), continuation: continuation.into() };
                let players = seats.players();
                report(match players.get(seat as usize) {
                    Some(SeatPlayer::Policy(policy)) => {
                        policy.score(request).await.map_or_else(PolicyAnswer::Failed, PolicyAnswer::Scored)
                    }
                    _ => no_model(seat),
                });
            }),
            PolicyRequest::Generate { conversation, place, tokens, max_tokens, stop, stop_texts, sampling, seed } => {
                let conversation_id = (worker, conversation);
                let conversation = self.conversation(conversation_id.clone(), job, delivery, seat, place);
                let last = Arc::new(Last::default());
                let end = TaskEnd { seats: Arc::clone(&seats), seat, conversation, last: Arc::clone(&last) };
                continues = Some((conversation_id, last));
                let request = GenerateRequest {
                    conversation,
                    tokens: tokens.into(),
                    max_tokens: usize::try_from(max_tokens).unwrap_or(usize::MAX),
                    stop: stop.into(),
                    stop_texts: self.stop_condition(stop_texts),
                    sampling,
                    seed,
                    token_sink: None,
                };
                self.tasks.spawn(async move {
                    // Dropped last, after the request.
                    let _end = end;
                    let players = seats.players();
                    report(match players.get(seat as usize) {
                        // Models take these values as given.
                        _ if request.tokens.is_empty() || request.max_tokens == 0 => no_tokens(),
                        Some(SeatPlayer::Policy(policy)) => match request.sampling.check() {
                            Ok(_) => {
                                let reply = policy.generate(request).await;
                                reply.map_or_else(PolicyAnswer::Failed, PolicyAnswer::Generated)
                            }
                            Err(error) => PolicyAnswer::Failed(PolicyError::Server(error.to_string())),
                        },
                        _ => no_model(seat),
                    });
                })
            }
        };
        let progress = CallProgress::Running { reply, task };
        self.calls.insert(id, PendingCall { job, delivery, seat, continues, progress });
    }

    /// Sends the answer of a call that has finished; returns what was sampled. `None` if the call was ended.
    pub fn finish(&mut self, answered: FinishedCall) -> Option<SampledTokens> {
        let call = self.calls.get_mut(&answered.call)?;
        let answer = answered.answer?;
        let before = std::mem::replace(&mut call.progress, CallProgress::Done(answer.clone()));
        if let CallProgress::Running { reply, .. } = before {
            self.sender.send(reply, &answer);
        }
        Some(SampledTokens { job: call.job, seat: call.seat, versions: answered.versions })
    }

    /// Answers a call at once.
    pub fn answer_at_once(&mut self, answer: &PolicyAnswer, reply: Option<ReplyTo>) {
        if let Ok(answer) = encode(answer) {
            self.sender.send(reply, &answer);
        }
    }

    /// Ends the calls and conversations of a job's deliveries before this one.
    pub fn end_before(&mut self, job: u64, delivery: u64) {
        let of_job = |mapped: &Mapped| mapped.job == job && mapped.delivery < delivery;
        let ended: Vec<CallId> =
            self.conversations.iter().filter(|(_, mapped)| of_job(mapped)).map(|(id, _)| id.clone()).collect();
        ended.iter().for_each(|id| self.end_conversation(id));
        self.calls.retain(|_, call| {
            let obsolete = call.job == job && call.delivery < delivery;
            if let CallProgress::Running { task, .. } = &call.progress
                && obsolete
            {
                task.abort();
            }
            !obsolete
        });
    }

    /// Ends a conversation and the call that continues it.
    fn end_conversation(&mut self, id: &CallId) {
        let Some(mapped) = self.conversations.remove(id) else { return };
        let running = self.calls.values().filter_map(|call| match (&call.continues, &call.progress) {
            (Some((continued, last)), CallProgress::Running { task, .. }) if continued == id => Some((last, task)),
            _ => None,
        });
        // Each task that is still there releases the conversation when it is gone.
        let left = running.filter(|(last, task)| {
            task.abort();
            !last.is_second()
        });
        if left.count() == 0 {
            release(&*self.seats, mapped.seat, mapped.conversation);
        }
    }

    /// The conversation in the run's models for one of a worker.
    fn conversation(&mut self, id: CallId, job: u64, delivery: u64, seat: u32, place: u32) -> Conversation {
        let next = &mut self.next_conversation;
        let mapped = self.conversations.entry(id).or_insert_with(|| {
            *next += 1;
            Mapped { job, delivery, seat, conversation: Conversation { id: *next, place } }
        });
        mapped.conversation
    }

    fn stop_condition(&mut self, texts: Vec<String>) -> Option<Arc<dyn StopCondition>> {
        if texts.is_empty() {
            return None;
        }
        if let Some(known) = self.stop_texts.get(&texts) {
            return known.clone();
        }
        if self.stop_texts.len() >= MAX_STOP_CONDITIONS {
            self.stop_texts.clear();
        }
        let made = StopTexts::new(&texts, self.rollout.chat()).map(|texts| Arc::new(texts) as Arc<dyn StopCondition>);
        self.stop_texts.insert(texts, made.clone());
        made
    }
}

fn release(seats: &dyn SeatPlayers, seat: u32, conversation: Conversation) {
    if let Some(SeatPlayer::Policy(policy)) = seats.players().get(seat as usize) {
        policy.release(conversation);
    }
}

/// Sends signed answers, each in a task.
struct Sender {
    bus: Bus,
    signer: Signer,
    tasks: JoinSet<()>,
}

impl Sender {
    fn send(&mut self, reply: Option<ReplyTo>, answer: &Bytes) {
        let Some(reply) = reply else { return };
        let too_large = || encode(&PolicyAnswer::Failed(PolicyError::Server(TOO_LARGE.to_owned()))).ok();
        let short = if answer.len() > self.bus.most_bytes() { too_large() } else { None };
        let Some(signed) = reply.sign(&self.signer, short.as_ref().unwrap_or(answer)) else { return };
        let client = self.bus.client.clone();
        self.tasks.spawn(async move { reply.send(&client, signed).await });
    }
}

fn no_model(seat: u32) -> PolicyAnswer {
    PolicyAnswer::Failed(PolicyError::Server(format!("the trainer has no model for seat {seat}")))
}

fn no_tokens() -> PolicyAnswer {
    PolicyAnswer::Failed(PolicyError::Server("a request needs tokens, and asks for at least one".to_owned()))
}
