//! The requests of one episode: answered by a policy, and ordered into turns.
//!
//! The owner of an episode calls [`AgentSession::serve`] in the task of the episode. The server hands requests over in
//! a channel, so that the policy needs no other thread, and a dropped episode cancels its generations.

mod answer;
mod calls;
mod journal;
mod prompt;
mod repeats;
mod settings;
mod transcript;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use gymkhana_chat::ChatFormat;
use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, PolicyError};
use gymkhana_record::{AgentCall, PolicyTurn, Segment, SegmentError, Turn};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::dialect::{ApiError, ErrorClass, InputMessage, PolicyReply, ReplyRequest};
use crate::graph::{HistoryKey, MessageGraph};
pub use calls::{CallPerformer, Performed, ProgramTools, ToolCallAnswer, ToolRequest};
use calls::{NoTools, ProgramCalls};
pub use journal::{SessionJournal, SessionLog};
use prompt::Prompt;
use repeats::{EarlierRequest, Repeats};
pub use settings::{AgentSessionLimits, ConversationIds, SamplingRule, SessionSettings, StopCache};
use transcript::Transcript;

/// Requests beyond the limit of turns that a session answers: token counts, side models and repeats.
const FURTHER_REQUESTS: u32 = 1024;

/// What a request asks for.
#[derive(Debug)]
pub enum Ask {
    /// A reply.
    Reply(Box<ReplyRequest>),
    /// The number of the prompt's tokens.
    Count(Box<ReplyRequest>),
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub enum ModelResponse {
    /// A reply.
    Reply(Arc<PolicyReply>),
    /// The number of tokens.
    Count(usize),
}

/// Receiver of an answer. It is gone if the program has disconnected.
pub type ResponseSender = oneshot::Sender<Result<ModelResponse, ApiError>>;

/// Identity of a request, by which repeats are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestIdentity {
    /// SHA-256 of the address and the body.
    pub digest: [u8; 32],
    /// The header `Idempotency-Key`.
    pub idempotency_key: Option<String>,
}

/// A request that the server hands over.
#[derive(Debug)]
pub struct Incoming {
    /// The request.
    pub ask: Ask,
    /// Its identity.
    pub identity: RequestIdentity,
    /// Whether the client says that it repeats the request, as SDKs do in `x-stainless-retry-count`.
    pub is_retry: bool,
    /// Receiver of the answer.
    pub reply: ResponseSender,
    /// Share of the large requests that are read at once, held until the request is refused or its reply begins.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// The reason for which [`AgentSession::serve`] returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServeEnd<T> {
    /// The program ended.
    Ended(T),
    /// The program's own time is used up. Waiting for the policy or for a tool is not its time.
    ProgramTime,
    /// The episode's time is used up.
    EpisodeTime,
    /// The run's tools are lost.
    Lost,
}

/// Numbers of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Requests that an earlier answer answered.
    pub repeats: u32,
    /// Requests that are not turns: token counts, side models, probes of one token.
    pub side: u32,
    /// Requests and calls that were refused.
    pub refused: u32,
}

/// A limit of the run that refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpentLimit {
    /// The limit of turns.
    Turns,
    /// The limit of tokens of a context.
    Context,
    /// The limit of calls.
    Calls,
}

/// What a finished session contributes to the record.
#[derive(Debug)]
pub struct SessionOutcome {
    /// Messages, calls and answers, in their order.
    pub transcript: Vec<Turn>,
    /// The turns of the policy; `transcript` counts from the session's first entry.
    pub policy_turns: Vec<PolicyTurn>,
    /// The tokens.
    pub segments: Vec<Segment>,
    /// Calls of the run's tools; `begin` counts from the session's first entry.
    pub calls: Vec<AgentCall>,
    /// Text of the last reply that the program received.
    pub last_text: Option<String>,
    /// Numbers of requests.
    pub counts: RequestCounts,
    /// The limit that refused a request, if any did.
    pub spent: Option<SpentLimit>,
    /// The policy's last failure, if no reply came after it.
    pub fault: Option<String>,
    /// Time in which a request waited for the policy.
    pub policy_time: Duration,
}

/// A generation that has ended.
struct FinishedGeneration {
    request: Box<ReplyRequest>,
    identity: RequestIdentity,
    prompt: Prompt,
    is_turn: bool,
    generated: Result<Generated, PolicyError>,
}

/// The requests of one episode.
pub struct AgentSession<'a> {
    chat: &'a ChatFormat,
    policy: &'a dyn Policy,
    settings: SessionSettings,
    graph: MessageGraph,
    transcript: Transcript,
    repeats: Repeats,
    /// Histories that a later request may continue by the id of the reply.
    stored: HashMap<String, Vec<InputMessage>>,
    counts: RequestCounts,
    /// Number of generations begun, turns and others.
    turns_begun: u32,
    requests: u32,
    spent: Option<SpentLimit>,
    fault: Option<String>,
    last_text: Option<String>,
    running: FuturesUnordered<BoxFuture<'a, FinishedGeneration>>,
    /// Conversations of the running generations.
    busy: BTreeSet<Conversation>,
    policy_time: Duration,
    /// Time in which only a call of a tool was waited for.
    tool_time: Duration,
    calls: ProgramCalls,
    log: Option<SessionLog>,
}

impl<'a> AgentSession<'a> {
    /// A session without requests.
    #[must_use]
    pub fn new(chat: &'a ChatFormat, policy: &'a dyn Policy, settings: SessionSettings) -> Self {
        Self {
            chat,
            policy,
            repeats: Repeats::new(settings.retry_window),
            settings,
            graph: MessageGraph::default(),
            transcript: Transcript::default(),
            stored: HashMap::new(),
            counts: RequestCounts::default(),
            turns_begun: 0,
            requests: 0,
            spent: None,
            fault: None,
            last_text: None,
            running: FuturesUnordered::new(),
            busy: BTreeSet::new(),
            policy_time: Duration::ZERO,
            tool_time: Duration::ZERO,
            calls: ProgramCalls::default(),
            log: None,
        }
    }

    /// Answers requests until the program ends or a time is used up.
    pub async fn serve<T>(
        &mut self,
        incoming: &mut mpsc::Receiver<Incoming>,
        program: impl Future<Output = T>,
    ) -> ServeEnd<T> {
        // Without a sender there is nothing to wait for.
        let (_sender, mut requests) = mpsc::channel(1);
        let tools = ProgramTools { requests: &mut requests, toolbox: &mut NoTools };
        self.serve_with(incoming, tools, program).await
    }

    /// Answers requests and calls of the run's tools until the program ends or a time is used up. A call that has begun
    /// is performed to its end.
    pub async fn serve_with<T>(
        &mut self,
        incoming: &mut mpsc::Receiver<Incoming>,
        tools: ProgramTools<'_>,
        program: impl Future<Output = T>,
    ) -> ServeEnd<T> {
        let ProgramTools { requests, toolbox } = tools;
        let (begin, begun) = mpsc::unbounded_channel();
        let (done, mut performed) = mpsc::unbounded_channel();
        let mut performing = std::pin::pin!(calls::perform(toolbox, begun, done));
        let since = Instant::now();
        let mut program = std::pin::pin!(program);
        let (mut open, mut calls_open) = (true, true);
        let served = loop {
            let (generating, calling) = (!self.running.is_empty(), self.calls.is_busy());
            let (own, all) = self.time_left(since);
            let waited = Instant::now();
            let step = tokio::select! {
                biased;
                ended = &mut program => break ServeEnd::Ended(ended),
                () = tokio::time::sleep(all) => break ServeEnd::EpisodeTime,
                () = tokio::time::sleep(own), if !generating && !calling => break ServeEnd::ProgramTime,
                Some(finished) = self.running.next(), if generating => ServeEvent::Finished(Box::new(finished)),
                never = &mut performing => match never {},
                Some(outcome) = performed.recv() => ServeEvent::Performed(outcome),
                next = incoming.recv(), if open => next.map_or(ServeEvent::Closed, ServeEvent::Incoming),
                next = requests.recv(), if calls_open && !calling => {
                    next.map_or(ServeEvent::CallsClosed, ServeEvent::Call)
                }
            };
            self.count_wait(generating, calling, waited.elapsed());
            match step {
                ServeEvent::Finished(finished) => self.finish(*finished).await,
                ServeEvent::Incoming(request) => self.accept(request).await,
                ServeEvent::Call(request) => drop(begin.send(self.calls.begin(request, &mut self.transcript))),
                ServeEvent::Performed(outcome) => {
                    if !self.performed(outcome).await {
                        break ServeEnd::Lost;
                    }
                }
                ServeEvent::Closed => open = false,
                ServeEvent::CallsClosed => calls_open = false,
            }
        };
        if self.calls.is_busy() {
            tokio::select! {
                Some(outcome) = performed.recv() => {
                    if !self.performed(outcome).await {
                        return ServeEnd::Lost;
                    }
                }
                never = &mut performing => match never {},
            }
        }
        served
    }

    /// Time left of the program's own and of the episode's.
    fn time_left(&self, since: Instant) -> (Duration, Duration) {
        let (limits, elapsed) = (self.settings.limits, since.elapsed());
        let own = elapsed.saturating_sub(self.policy_time).saturating_sub(self.tool_time);
        (limits.program_time.saturating_sub(own), limits.episode_time.saturating_sub(elapsed))
    }

    /// Counts a wait that was not the program's.
    fn count_wait(&mut self, generating: bool, calling: bool, wait: Duration) {
        if generating {
            self.policy_time += wait;
        } else if calling {
            self.tool_time += wait;
        }
    }

    /// Ends the session: releases the policy's caches, and returns what belongs into the record.
    ///
    /// # Errors
    /// If a reply of the policy has columns of different length.
    pub fn into_outcome(mut self) -> Result<SessionOutcome, SegmentError> {
        self.running.clear();
        let mut conversations = std::mem::take(&mut self.busy);
        conversations.extend(self.graph.turns().iter().map(|turn| turn.conversation));
        conversations.into_iter().for_each(|conversation| self.policy.release(conversation));
        let segments = self.graph.segments(0)?;
        let (transcript, policy_turns) = self.transcript.into_parts();
        Ok(SessionOutcome {
            transcript,
            policy_turns,
            segments,
            calls: self.calls.into_performed(),
            last_text: self.last_text,
            counts: self.counts,
            spent: self.spent,
            fault: self.fault,
            policy_time: self.policy_time,
        })
    }

    /// Answers a request at once, or begins a generation.
    async fn accept(&mut self, incoming: Incoming) {
        let Incoming { ask, identity, is_retry, reply, permit: _permit } = incoming;
        self.requests = self.requests.saturating_add(1);
        if self.requests > self.settings.limits.turns.saturating_add(FURTHER_REQUESTS) {
            return self.refuse(reply, ApiError::new(ErrorClass::BudgetSpent, TOO_MANY));
        }
        match ask {
            Ask::Count(request) => {
                self.counts.side += 1;
                let counted = self.complete(*request).and_then(|request| {
                    self.check_length(&request)?;
                    let keys = request.messages.iter().map(HistoryKey::of_message).collect::<Vec<_>>();
                    self.transcript.bytes_with(&request.messages, &keys, self.settings.limits.bytes)?;
                    Ok(self.prompt(&request, keys)?.tokens.len())
                });
                let _ = reply.send(counted.map(ModelResponse::Count));
            }
            Ask::Reply(request) => match self.repeats.find(&identity, is_retry) {
                Some(EarlierRequest::Answered(answer, turn)) => {
                    self.counts.repeats += 1;
                    let received = reply.send(Ok(ModelResponse::Reply(answer.clone()))).is_ok();
                    let turn = turn.filter(|_| received);
                    if let Some(turn) = turn {
                        self.log_delivery(turn).await;
                    }
                    self.deliver(&answer, turn);
                }
                Some(EarlierRequest::InFlight(waiting)) => {
                    self.counts.repeats += 1;
                    waiting.push(reply);
                }
                None => match self.begin(*request, &identity) {
                    Ok(()) => self.repeats.begin(identity, reply),
                    Err(error) => self.refuse(reply, error),
                },
            },
        }
    }

    /// The program has received the reply of a turn.
    fn deliver(&mut self, reply: &PolicyReply, turn: Option<usize>) {
        if let Some(turn) = turn {
            self.graph.deliver(turn);
            self.last_text = Some(reply.text.clone());
        }
    }

    fn refuse(&mut self, reply: ResponseSender, error: ApiError) {
        self.counts.refused += 1;
        let _ = reply.send(Err(error));
    }

    /// Begins a generation.
    fn begin(&mut self, request: ReplyRequest, identity: &RequestIdentity) -> Result<(), ApiError> {
        let is_turn = self.settings.is_turn(&request)?;
        let request = self.complete(request)?;
        let sampling = self.settings.sampling.for_request(request.sampling)?;
        let limits = self.settings.limits;
        if self.turns_begun >= limits.turns {
            self.spent.get_or_insert(SpentLimit::Turns);
            let message = format!("the episode's {} turns are used up\nhint: answer without the model", limits.turns);
            return Err(ApiError::new(ErrorClass::BudgetSpent, message));
        }
        let context = self.check_length(&request).inspect_err(|_| {
            self.spent.get_or_insert(SpentLimit::Context);
        })?;
        let keys: Vec<HistoryKey> = request.messages.iter().map(HistoryKey::of_message).collect();
        let bytes = self.transcript.bytes_with(&request.messages, &keys, limits.bytes)?;
        let prompt = self.prompt(&request, keys)?;
        if prompt.tokens.len() >= context {
            self.spent.get_or_insert(SpentLimit::Context);
            return Err(context_full(prompt.tokens.len(), context));
        }
        let room = context - prompt.tokens.len();
        let most = limits.reply_tokens.min(room).min(request.max_tokens.unwrap_or(usize::MAX));
        let generate = GenerateRequest {
            conversation: prompt.conversation,
            tokens: prompt.tokens.clone(),
            max_tokens: most,
            stop: self.chat.stop().into(),
            stop_texts: self.settings.stop_condition(&request.stop, self.chat, prompt.rendered.begun()),
            sampling,
            seed: self.settings.seed.child(self.turns_begun),
            token_sink: None,
        };
        self.transcript.charge(bytes);
        self.turns_begun += 1;
        self.busy.insert(prompt.conversation);
        let (policy, identity, request) = (self.policy, identity.clone(), Box::new(request));
        self.running.push(Box::pin(async move {
            let generated = policy.generate(generate).await;
            FinishedGeneration { request, identity, prompt, is_turn, generated }
        }));
        Ok(())
    }

    /// Answers the requests that waited for a generation.
    async fn finish(&mut self, finished: FinishedGeneration) {
        let FinishedGeneration { request, identity, prompt, is_turn, generated } = finished;
        let conversation = prompt.conversation;
        self.busy.remove(&conversation);
        let answer = match generated {
            Ok(generated) => {
                self.fault = None;
                self.take(&request, prompt, is_turn, generated)
            }
            Err(PolicyError::ContextFull { tokens, context }) => {
                self.spent.get_or_insert(SpentLimit::Context);
                Err(context_full(tokens, context))
            }
            Err(error) => {
                // The agent is not told how the policy is reached, nor what its server said.
                self.fault = Some(error.to_string());
                Err(policy_failed())
            }
        };
        if !self.graph.turns().iter().any(|turn| turn.conversation == conversation) {
            self.policy.release(conversation);
        }
        let waiting = self.repeats.end(&identity);
        match answer {
            Ok((reply, turn)) => {
                self.repeats.remember(identity, &reply, turn);
                if let Some(turn) = turn {
                    self.log_reply(turn, waiting.iter().any(|to| !to.is_closed())).await;
                }
                let received =
                    waiting.into_iter().filter_map(|to| to.send(Ok(ModelResponse::Reply(reply.clone()))).ok());
                let received = received.count() > 0;
                self.deliver(&reply, turn.filter(|_| received));
            }
            Err(error) => waiting.into_iter().for_each(|to| drop(to.send(Err(error.clone())))),
        }
    }
}

/// An event of [`AgentSession::serve_with`].
enum ServeEvent {
    /// A generation has ended.
    Finished(Box<FinishedGeneration>),
    /// The program asks the policy.
    Incoming(Incoming),
    /// The program calls a tool.
    Call(ToolRequest),
    /// A call was performed.
    Performed(Performed),
    /// No further request comes.
    Closed,
    /// No further call comes.
    CallsClosed,
}

const TOO_MANY: &str = "the episode's requests are used up";

fn policy_failed() -> ApiError {
    let message =
        "the policy failed\nhint: repeat the request; the host's messages and the episode's record have the reason";
    ApiError::new(ErrorClass::Policy, message)
}

fn context_full(tokens: usize, context: usize) -> ApiError {
    too_long(&format!("{tokens} tokens leave no room for a reply in the context of {context}"))
}

fn too_long(why: &str) -> ApiError {
    ApiError::new(ErrorClass::ContextFull, format!("prompt is too long: {why}\nhint: shorten the messages"))
}

#[cfg(test)]
mod tests;
