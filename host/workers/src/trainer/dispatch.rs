//! The loop of the trainer's side: one task owns the ledger and the calls, so that nothing is locked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::Message;
use futures::StreamExt;
use gymkhana_orchestration::remote::{GroupJob, RemoteRun, RunPosition};
use gymkhana_orchestration::{Reporter, RunError, RunResult};
use gymkhana_record::EpisodeRecord;
use gymkhana_registry::{Digest, LOCK_FILE};
use gymkhana_rollout::Rollout;
use gymkhana_waits::{Counterpart, Reminder, within};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::inbox::Inbox;
use super::ledger::{DeliveryStatus, Dispatched, Ledger};
use super::liveness::Liveness;
use super::policies::{FinishedCall, PolicyCalls};
use super::reading::{ReadingPermits, Room};
use super::results::Unread;
use super::streams::{QueueState, Streams};
use crate::bus::SILENCE;
use crate::dropped::Dropped;
use crate::limits::check_call;
use crate::messages::{PolicyAnswer, PolicyCall, PolicyCallRefusal, ResultHeader, WorkerJob, decode};
use crate::publication::Publication;
use crate::reply::ReplyTo;
use crate::signature::{Senders, SignatureRefusal, WorkerKeys};
use crate::signed::decode_signed;

/// Time between two looks at the bus.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Longest time for which the end of a run waits until its verdicts are sent.
const LAST_VERDICTS: Duration = Duration::from_secs(5);

type RecordsSender = oneshot::Sender<RunResult<Vec<EpisodeRecord>>>;

/// What the run asks for.
pub(crate) enum DispatchCommand {
    Play { number: u64, group: Box<GroupJob>, answer: RecordsSender },
    Abort(u64),
    Show(RunPosition),
    Close,
}

/// What a task of the loop has done.
pub(super) enum DispatchEvent {
    /// A job is in the queue of this making, or the bus did not take it.
    Queued { number: u64, making: u64, sequence: Result<u64, String> },
    /// A result was read, or cannot be read now. Its room is free when this is handled.
    Read { header: Box<ResultHeader>, records: Result<Vec<EpisodeRecord>, Unread>, reply: Option<ReplyTo>, room: Room },
    /// The queue was looked for, and made again if it was lost. Jobs at these places are not there.
    Looked { made: Option<RunResult<Box<QueueCreated>>>, missing: Vec<u64> },
    /// The queue was looked for, and the bus did not answer.
    BusSilent,
    /// The position was written, or the bus did not take it.
    Shown,
}

/// A queue that was made again, and the messages of its workers.
pub(super) struct QueueCreated {
    streams: Streams,
    inbox: Inbox,
}

impl QueueCreated {
    /// Makes the queue as that of a new life of the trainer: acknowledgements and calls of the lost one are then none of
    /// its own.
    async fn again(streams: &Streams) -> RunResult<Self> {
        let streams = streams.renewed()?;
        let inbox = Inbox::open(&streams).await?;
        streams.make().await?;
        Ok(Self { streams, inbox })
    }
}

/// State of the trainer's side.
pub(crate) struct DispatchLoop {
    pub(super) streams: Streams,
    pub(super) rollouts: Vec<Arc<Rollout>>,
    pub(super) reporter: Arc<dyn Reporter>,
    pub(super) lock: Digest,
    pub(super) keys: WorkerKeys,
    senders: Senders,
    pub(super) dropped: Dropped,
    pub(super) ledger: Ledger<RecordsSender>,
    pub(super) policies: PolicyCalls,
    inbox: Inbox,
    pub(super) reading: ReadingPermits,
    events: UnboundedReceiver<DispatchEvent>,
    pub(super) report: UnboundedSender<DispatchEvent>,
    answered: UnboundedReceiver<FinishedCall>,
    pub(super) tasks: JoinSet<()>,
    /// Verdicts that are being sent, which the end of the run waits for.
    pub(super) verdicts: JoinSet<()>,
    /// Number of times that the queue was made.
    making: u64,
    is_looking: bool,
    liveness: Liveness,
    /// Whether the user knows that the bus does not take what it must keep.
    has_reported_bus: bool,
    /// Whether the bus answered the last look, and for how long it has been silent.
    bus_answers: bool,
    silence: Reminder,
    /// The newest position that is not written, and whether one is being written.
    position: Option<RunPosition>,
    is_showing: bool,
}

impl DispatchLoop {
    /// Subscribes to the messages of workers.
    pub async fn open(streams: Streams, run: RemoteRun, keys: WorkerKeys) -> RunResult<Self> {
        let inbox = Inbox::open(&streams).await?;
        let (report, events) = unbounded_channel();
        let (finished, answered) = unbounded_channel();
        let lock = streams.publication.description.files.iter().find(|file| file.path == LOCK_FILE);
        let lock = lock.ok_or_else(|| RunError::internal("the run has no lock"))?.digest;
        let first = run.rollouts.first().ok_or_else(|| RunError::internal("a run without environments"))?;
        let sender = (streams.publication.bus.clone(), streams.publication.signer.clone());
        let policies = PolicyCalls::new(run.seats, Arc::clone(first), sender, finished);
        let dropped = Dropped::new(&run.reporter);
        let lease = Duration::from_millis(streams.publication.description.lease_ms);
        Ok(Self {
            streams,
            rollouts: run.rollouts,
            reporter: run.reporter,
            lock,
            keys,
            senders: Senders::default(),
            dropped,
            ledger: Ledger::new(),
            policies,
            inbox,
            reading: ReadingPermits::new(),
            events,
            report,
            answered,
            tasks: JoinSet::new(),
            verdicts: JoinSet::new(),
            making: 0,
            is_looking: false,
            liveness: Liveness::new(lease, Instant::now()),
            has_reported_bus: false,
            bus_answers: true,
            silence: Reminder::new(SILENCE),
            position: None,
            is_showing: false,
        })
    }

    /// Tells whether a worker sent a message within the lease.
    pub fn plays(&self) -> watch::Receiver<bool> {
        self.liveness.plays()
    }

    /// Sends the verdicts that workers still wait for.
    async fn end_run(mut self) -> Dispatched {
        let sent = async { while self.verdicts.join_next().await.is_some() {} };
        if within(Counterpart::Bus, LAST_VERDICTS, sent).await.is_err() {
            tracing::warn!("the last verdicts were not sent: the bus takes no messages");
        }
        Dispatched { dropped: self.dropped.count(), ..self.ledger.seen }
    }

    /// Serves until the run closes.
    pub async fn work(mut self, mut commands: UnboundedReceiver<DispatchCommand>) -> Dispatched {
        let mut looks = tokio::time::interval(POLL_INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            while self.tasks.try_join_next().is_some() {}
            while self.verdicts.try_join_next().is_some() {}
            tokio::select! {
                command = commands.recv() => match command {
                    Some(DispatchCommand::Play { number, group, answer }) => {
                        if self.ledger.is_empty() {
                            self.liveness.wait(Instant::now());
                        }
                        self.ledger.add(WorkerJob { number, group: *group }, answer);
                        self.queue(number);
                    }
                    Some(DispatchCommand::Abort(number)) => self.give_up(number),
                    Some(DispatchCommand::Show(position)) => {
                        self.position = Some(position);
                        self.show();
                    }
                    Some(DispatchCommand::Close) | None => return self.end_run().await,
                },
                Some(message) = self.inbox.calls.next() => self.call(&message),
                // Results wait in the connection while as many are read as may be.
                Some(message) = self.inbox.results.next(), if self.reading.has_room() => self.read(&message),
                Some(_) = self.inbox.acknowledgements.next() => self.liveness.record_heartbeat(Instant::now()),
                Some(message) = self.inbox.questions.next() => self.live(&message),
                Some(answered) = self.answered.recv() => self.finish(answered),
                Some(event) = self.events.recv() => self.event(event),
                _ = looks.tick() => self.poll(),
            }
        }
    }

    fn event(&mut self, event: DispatchEvent) {
        match event {
            DispatchEvent::Queued { number, making, sequence } => match (self.ledger.get_mut(number), sequence) {
                (Some(waiting), Ok(sequence)) if making == self.making => {
                    waiting.sequence = Some(sequence);
                    self.has_reported_bus = false;
                }
                (None, Ok(sequence)) => self.remove(sequence),
                (_, Ok(_)) => {}
                // The next look tries again.
                (_, Err(why)) => self.report_bus(&format!("it does not take groups: {why}")),
            },
            DispatchEvent::Read { header, records, reply, room } => {
                drop(room);
                self.result(&header, records, reply);
            }
            DispatchEvent::Looked { made, missing } => self.looked(made, &missing),
            DispatchEvent::BusSilent => (self.is_looking, self.bus_answers) = (false, false),
            DispatchEvent::Shown => {
                self.is_showing = false;
                self.show();
            }
        }
    }

    /// Follows a queue that was made again, and queues the jobs that are not there.
    fn looked(&mut self, made: Option<RunResult<Box<QueueCreated>>>, missing: &[u64]) {
        self.is_looking = false;
        self.silence.answered();
        if !std::mem::replace(&mut self.bus_answers, true) {
            // Workers could not say anything meanwhile.
            self.liveness.wait(Instant::now());
        }
        match made {
            Some(Ok(made)) => {
                let QueueCreated { streams, inbox } = *made;
                self.making += 1;
                self.reporter.warn("the bus had lost the run's queue, which was made again");
                (self.streams, self.inbox) = (streams, inbox);
                for number in self.ledger.renew() {
                    self.policies.end_before(number, u64::MAX);
                }
            }
            Some(Err(error)) => self.report_bus(&format!("it lost the run, which cannot be made again: {error}")),
            None => {
                for number in self.ledger.requeue(missing) {
                    self.reporter.warn(&format!("group {number} was lost from the queue, and is queued again"));
                }
            }
        }
        let unqueued = self.ledger.iter_mut().filter(|waiting| waiting.sequence.is_none());
        let unqueued: Vec<u64> = unqueued.map(|waiting| waiting.job.number).collect();
        unqueued.into_iter().for_each(|number| self.queue(number));
    }

    /// Warns once about a bus that does not keep the run.
    fn report_bus(&mut self, why: &str) {
        if !std::mem::replace(&mut self.has_reported_bus, true) {
            self.reporter.warn(&format!(
                "the run waits for the bus: {why}\nhint: check that nats-server runs, free space on its disk, or raise \
                 the limits of its JetStream account"
            ));
        }
    }

    /// Writes the newest position, one at a time so that an older one does not come later.
    fn show(&mut self) {
        if self.is_showing {
            return;
        }
        let Some(position) = self.position.take() else { return };
        self.is_showing = true;
        let (streams, report) = (self.streams.clone(), self.report.clone());
        self.tasks.spawn(async move {
            if let Err(error) = streams.publication.show(&position).await {
                tracing::debug!("the position is not on the bus: {error}");
            }
            let _ = report.send(DispatchEvent::Shown);
        });
    }

    /// Answers whether the trainer lives.
    fn live(&mut self, question: &Message) {
        let Publication { bus, signer, .. } = &self.streams.publication;
        let Some(reply) = ReplyTo::of(question) else { return };
        let Some(answer) = reply.sign(signer, &[]) else { return };
        let client = bus.client.clone();
        self.tasks.spawn(async move { reply.send(&client, answer).await });
    }

    /// Adds a job to the queue.
    fn queue(&mut self, number: u64) {
        let Some(waiting) = self.ledger.get(number) else { return };
        let (job, streams, report, making) =
            (waiting.job.clone(), self.streams.clone(), self.report.clone(), self.making);
        let name = format!("{number}-{making}-{}", waiting.losses);
        self.tasks.spawn(async move {
            let sequence = streams.add(&job, &name).await;
            let _ = report.send(DispatchEvent::Queued { number, making, sequence });
        });
    }

    pub(super) fn remove(&mut self, sequence: u64) {
        let streams = self.streams.clone();
        self.tasks.spawn(async move { streams.remove(sequence).await });
    }

    fn give_up(&mut self, number: u64) {
        let Some(waiting) = self.ledger.give_up(number) else { return };
        self.policies.end_before(number, u64::MAX);
        waiting.sequence.into_iter().for_each(|sequence| self.remove(sequence));
        let Publication { bus, signer, names, .. } = &self.streams.publication;
        let (client, subject) = (bus.client.clone(), names.given_up());
        let Some(message) = signer.state(&Digest::of(subject.as_bytes()), number.to_string().as_bytes()) else {
            return;
        };
        self.tasks.spawn(async move {
            // A worker that misses it hears at its next call.
            let _ = client.publish(subject, message).await;
        });
    }

    /// Looks whether the bus still has the queue, and makes it again if not.
    fn poll(&mut self) {
        if !self.bus_answers
            && let Some(waited) = self.silence.due()
        {
            self.has_reported_bus = false;
            self.report_bus(&format!("it has not answered for {} s", waited.as_secs()));
        }
        if self.liveness.poll(Instant::now(), self.bus_answers && !self.ledger.is_empty()) {
            let run = &self.streams.publication.run;
            self.reporter.warn(&format!(
                "groups wait, but no worker has answered for {} s\nhint: start `host worker URL` on other machines; the \
                 run is called {run} there",
                SILENCE.as_secs()
            ));
        }
        if std::mem::replace(&mut self.is_looking, true) {
            return;
        }
        let (streams, report) = (self.streams.clone(), self.report.clone());
        let queued: Vec<u64> = self.ledger.iter_mut().filter_map(|waiting| waiting.sequence).collect();
        self.tasks.spawn(async move {
            let again = async || Some(QueueCreated::again(&streams).await.map(Box::new));
            let _ = report.send(match streams.poll(&queued).await {
                QueueState::Gone => DispatchEvent::Looked { made: again().await, missing: vec![] },
                QueueState::Stuck => {
                    streams.remove_queue().await;
                    DispatchEvent::Looked { made: again().await, missing: vec![] }
                }
                QueueState::Here { missing } => DispatchEvent::Looked { made: None, missing },
                QueueState::Unknown => DispatchEvent::BusSilent,
            });
        });
    }

    fn call(&mut self, message: &Message) {
        let Some(signed) = decode_signed::<()>(&message.payload) else {
            return self.dropped.add("a policy call", "it is malformed");
        };
        let key = match signed.key(&self.keys, &self.streams.publication.names.policy()) {
            Ok(key) => key,
            Err(wrong @ SignatureRefusal::Wrong) => return self.dropped.add("a policy call", &wrong.to_string()),
            Err(_) => {
                let refusal = PolicyCallRefusal::Key;
                self.dropped.add("a policy call", &refusal.to_string());
                return self.policies.answer_at_once(&PolicyAnswer::Refused(refusal), ReplyTo::of(message));
            }
        };
        let Ok(call) = decode::<PolicyCall>(signed.body) else {
            return self.dropped.add("a policy call", "it is malformed");
        };
        let reply = ReplyTo::of(message);
        if let Err(refusal) = check_call(&call) {
            tracing::warn!("a policy call was refused: {refusal}");
            return self.policies.answer_at_once(&PolicyAnswer::Refused(refusal), reply);
        }
        if !self.is_own("a policy call", &call.worker, key) {
            return;
        }
        self.record_heartbeat(&call.worker);
        match self.ledger.record_heartbeat(&call.worker, call.job, call.delivery) {
            DeliveryStatus::Settled => return self.policies.answer_at_once(&PolicyAnswer::Settled, reply),
            DeliveryStatus::Superseded => return self.policies.answer_at_once(&PolicyAnswer::Superseded, reply),
            DeliveryStatus::First => self.policies.end_before(call.job, call.delivery),
            DeliveryStatus::Newest => {}
        }
        self.policies.begin(call, reply);
    }

    /// Whether a message of this key may be one of the worker; others are dropped.
    pub(super) fn is_own(&mut self, what: &str, worker: &str, key: &str) -> bool {
        let is_own = self.senders.is_own(worker, key);
        if !is_own {
            self.dropped.add(what, "it has another key than the first of its worker");
        }
        is_own
    }

    /// Sends the answer of a call, and notes the versions of its tokens.
    fn finish(&mut self, answered: FinishedCall) {
        let Some(tokens) = self.policies.finish(answered) else { return };
        if let Some(waiting) = self.ledger.get_mut(tokens.job) {
            waiting.sampled.add(tokens.seat, &tokens.versions);
        }
    }

    pub(super) fn record_heartbeat(&mut self, worker: &str) {
        self.liveness.record_heartbeat(Instant::now());
        if !self.ledger.seen.workers.contains(worker) {
            self.reporter.status(&format!("worker {worker} plays"));
        }
    }
}
