//! The loop of the trainer's side: one task owns the ledger and the calls, so that nothing is locked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Message, Subject, Subscriber};
use futures::StreamExt;
use gymkhana_orchestration::remote::GroupJob;
use gymkhana_orchestration::scheduler::SeatPlayers;
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_record::EpisodeRecord;
use gymkhana_registry::{Digest, LOCK_FILE};
use gymkhana_rollout::{FailedForks, Rollout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::RunOnBus;
use super::ledger::{Dispatched, Ledger, Standing};
use super::policies::{Answered, PolicyCalls};
use super::results::{self, Unread};
use super::streams::Streams;
use crate::messages::{Job, JobEnd, PolicyAnswer, PolicyCall, ResultHeader, Verdict, decode, decode_result};

/// Time between two looks at the bus.
const LOOK: Duration = Duration::from_secs(2);
/// Time without a sign of life of a worker after which the user is warned.
const SILENCE: Duration = Duration::from_secs(30);

type Answer = oneshot::Sender<RunResult<Vec<EpisodeRecord>>>;

/// What the run asks for.
pub(crate) enum Command {
    Play { number: u64, group: Box<GroupJob>, answer: Answer },
    GiveUp(u64),
    Close,
}

/// What a task of the loop has done.
enum Event {
    /// A job is in the queue of this making, or the bus did not take it.
    Queued { number: u64, making: u64, sequence: Result<u64, String> },
    /// A result was read.
    Read { header: Box<ResultHeader>, records: Result<Vec<EpisodeRecord>, String>, reply: Option<Subject> },
    /// The queue was looked for, and made again if it was lost.
    Looked { made: Option<Box<Made>> },
}

/// A queue that was made again, and the messages of its workers.
struct Made {
    streams: Streams,
    results: Subscriber,
    calls: Subscriber,
}

impl Made {
    /// Makes the queue as that of a new life of the trainer: acknowledgements and calls of the lost one are then none of
    /// its own.
    async fn again(streams: &Streams) -> RunResult<Self> {
        let streams = streams.renewed()?;
        let client = &streams.bus.client;
        let results = client.subscribe(streams.names.results()).await.user_error()?;
        let calls = client.subscribe(streams.names.policy()).await.user_error()?;
        streams.make().await?;
        Ok(Self { streams, results, calls })
    }
}

/// State of the trainer's side.
pub(crate) struct DispatchLoop<S> {
    streams: Streams,
    rollouts: Vec<Arc<Rollout>>,
    reporter: Arc<dyn Reporter>,
    lock: Digest,
    ledger: Ledger<Answer>,
    policies: PolicyCalls<S>,
    results: Subscriber,
    calls: Subscriber,
    events: UnboundedReceiver<Event>,
    report: UnboundedSender<Event>,
    answered: UnboundedReceiver<Answered>,
    tasks: JoinSet<()>,
    /// Number of times that the queue was made.
    making: u64,
    is_looking: bool,
    /// Time of the last sign of life of a worker.
    heard: Instant,
    has_warned: bool,
}

impl<S: SeatPlayers> DispatchLoop<S> {
    /// Subscribes to the messages of workers.
    pub async fn open(streams: Streams, run: RunOnBus<S>) -> RunResult<Self> {
        let (client, names) = (&streams.bus.client, &streams.names);
        let results = client.subscribe(names.results()).await.user_error()?;
        let calls = client.subscribe(names.policy()).await.user_error()?;
        let (report, events) = unbounded_channel();
        let (finished, answered) = unbounded_channel();
        let lock = streams.description.files.iter().find(|file| file.path == LOCK_FILE);
        let lock = lock.ok_or_else(|| RunError::internal("the run has no lock"))?.digest;
        let first = run.rollouts.first().ok_or_else(|| RunError::internal("a run without environments"))?;
        let policies = PolicyCalls::new(run.seats, Arc::clone(first), client.clone(), finished);
        Ok(Self {
            streams,
            rollouts: run.rollouts,
            reporter: run.reporter,
            lock,
            ledger: Ledger::new(),
            policies,
            results,
            calls,
            events,
            report,
            answered,
            tasks: JoinSet::new(),
            making: 0,
            is_looking: false,
            heard: Instant::now(),
            has_warned: false,
        })
    }

    /// Serves until the run closes.
    pub async fn work(mut self, mut commands: UnboundedReceiver<Command>) -> Dispatched {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            while self.tasks.try_join_next().is_some() {}
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Play { number, group, answer }) => {
                        if self.ledger.is_empty() {
                            self.heard = Instant::now();
                        }
                        self.ledger.add(Job { number, group: *group }, answer);
                        self.queue(number);
                    }
                    Some(Command::GiveUp(number)) => self.give_up(number),
                    Some(Command::Close) | None => return self.ledger.seen,
                },
                Some(message) = self.calls.next() => self.call(message),
                Some(message) = self.results.next() => self.read(message),
                Some(answered) = self.answered.recv() => self.policies.finish(answered),
                Some(event) = self.events.recv() => self.event(event),
                _ = looks.tick() => self.look(),
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Queued { number, making, sequence } => match (self.ledger.get_mut(number), sequence) {
                (Some(waiting), Ok(sequence)) if making == self.making => waiting.sequence = Some(sequence),
                (None, Ok(sequence)) => self.remove(sequence),
                // The next look tries again.
                (_, result) => drop(result.inspect_err(|why| tracing::warn!("job {number} was not queued: {why}"))),
            },
            Event::Read { header, records, reply } => self.result(&header, records, reply),
            Event::Looked { made } => {
                self.is_looking = false;
                if let Some(made) = made {
                    let Made { streams, results, calls } = *made;
                    self.making += 1;
                    self.reporter.warn("the bus had lost the run's queue, which was made again");
                    (self.streams, self.results, self.calls) = (streams, results, calls);
                    for number in self.ledger.renew() {
                        self.policies.end_before(number, u64::MAX);
                    }
                }
                let unqueued: Vec<u64> = self
                    .ledger
                    .iter_mut()
                    .filter(|waiting| waiting.sequence.is_none())
                    .map(|waiting| waiting.job.number)
                    .collect();
                unqueued.into_iter().for_each(|number| self.queue(number));
            }
        }
    }

    /// Adds a job to the queue.
    fn queue(&mut self, number: u64) {
        let Some(waiting) = self.ledger.get(number) else { return };
        let (job, streams, report, making) =
            (waiting.job.clone(), self.streams.clone(), self.report.clone(), self.making);
        self.tasks.spawn(async move {
            let sequence = streams.add(&job, making).await;
            let _ = report.send(Event::Queued { number, making, sequence });
        });
    }

    fn remove(&mut self, sequence: u64) {
        let streams = self.streams.clone();
        self.tasks.spawn(async move { streams.remove(sequence).await });
    }

    fn give_up(&mut self, number: u64) {
        let Some(waiting) = self.ledger.give_up(number) else { return };
        self.policies.end_before(number, u64::MAX);
        waiting.sequence.into_iter().for_each(|sequence| self.remove(sequence));
        let (client, subject) = (self.streams.bus.client.clone(), self.streams.names.given_up());
        self.tasks.spawn(async move {
            // A worker that misses it hears at its next call.
            let _ = client.publish(subject, number.to_string().into()).await;
        });
    }

    /// Looks whether the bus still has the queue, and makes it again if not.
    fn look(&mut self) {
        if !self.ledger.is_empty() && self.heard.elapsed() > SILENCE && !self.has_warned {
            self.has_warned = true;
            let run = &self.streams.run;
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
        self.tasks.spawn(async move {
            let made = match streams.exist().await {
                Some(false) => match Made::again(&streams).await {
                    Ok(made) => Some(Box::new(made)),
                    Err(error) => {
                        tracing::warn!("the run is not on the bus: {error}");
                        None
                    }
                },
                _ => None,
            };
            let _ = report.send(Event::Looked { made });
        });
    }

    fn call(&mut self, message: Message) {
        let Ok(call) = decode::<PolicyCall>(&message.payload) else {
            tracing::warn!("a policy call was malformed");
            return;
        };
        self.hear(&call.worker);
        match self.ledger.hear(&call.worker, call.job, call.delivery) {
            Standing::Settled => return self.policies.answer_at_once(&PolicyAnswer::Settled, message.reply),
            Standing::Superseded => return self.policies.answer_at_once(&PolicyAnswer::Superseded, message.reply),
            Standing::First => self.policies.end_before(call.job, call.delivery),
            Standing::Newest => {}
        }
        self.policies.begin(call, message.reply);
    }

    fn hear(&mut self, worker: &str) {
        self.heard = Instant::now();
        self.has_warned = false;
        if !self.ledger.seen.workers.contains(worker) {
            self.reporter.status(&format!("worker {worker} plays"));
        }
    }

    /// Reads a result in a task, since it may be large.
    fn read(&mut self, message: Message) {
        let (streams, report) = (self.streams.clone(), self.report.clone());
        self.tasks.spawn(async move {
            let Some((header, inline)) = decode_result(&message.payload) else {
                tracing::warn!("a result was malformed");
                return;
            };
            let records = match &header.end {
                JobEnd::Fault(_) => Ok(vec![]),
                JobEnd::Played => match results::read(&streams, &header, inline).await {
                    Ok(records) => Ok(records),
                    Err(Unread::Refused(why)) => Err(why),
                    // Without a verdict the worker offers the result again.
                    Err(Unread::Away(why)) => return tracing::warn!("a result cannot be fetched: {why}"),
                },
            };
            let _ = report.send(Event::Read { header: Box::new(header), records, reply: message.reply });
        });
    }

    fn result(&mut self, header: &ResultHeader, records: Result<Vec<EpisodeRecord>, String>, reply: Option<Subject>) {
        let verdict = self.judge(header, records);
        if verdict == Verdict::Accepted {
            self.hear(&header.worker);
            self.ledger.seen.workers.insert(header.worker.clone());
        }
        if let Verdict::Refused(why) = &verdict {
            self.ledger.seen.refused += 1;
            self.reporter.warn(&format!("a result of worker {} was refused: {why}", header.worker));
        }
        let Some(reply) = reply else { return };
        let client = self.streams.bus.client.clone();
        self.tasks.spawn(async move {
            match serde_json::to_vec(&verdict) {
                Ok(text) => drop(client.publish(reply, text.into()).await),
                Err(error) => tracing::warn!("a verdict was not sent: {error}"),
            }
        });
    }

    fn judge(&mut self, header: &ResultHeader, records: Result<Vec<EpisodeRecord>, String>) -> Verdict {
        let Some(waiting) = self.ledger.get(header.job) else {
            self.ledger.settle(header.job);
            return Verdict::NotWanted;
        };
        let environment = waiting.job.group.environment;
        let Some(rollout) = self.rollouts.get(environment).cloned() else {
            return Verdict::Refused("it is of an unknown environment".to_owned());
        };
        let checked = match (header.versions.difference("the worker"), header.lock == self.lock) {
            (Some(difference), _) => Err(difference),
            (None, false) => Err("the worker has other plugins".to_owned()),
            (None, true) if header.end == JobEnd::Played => records.and_then(|records| {
                results::check(&records, &waiting.job, rollout.environment())?;
                Ok(records)
            }),
            (None, true) => records,
        };
        let records = match checked {
            Ok(records) => records,
            Err(why) => return Verdict::Refused(why),
        };
        let Some(settled) = self.ledger.settle(header.job) else { return Verdict::NotWanted };
        self.policies.end_before(header.job, u64::MAX);
        settled.sequence.into_iter().for_each(|sequence| self.remove(sequence));
        let (count, last) = header.failed_forks.clone();
        rollout.add_failed_forks(FailedForks { count, last });
        let played = match &header.end {
            JobEnd::Played => Ok(records),
            JobEnd::Fault(why) => Err(RunError::internal(format!("worker {}: {why}", header.worker))),
        };
        // The run may have given the job up meanwhile.
        let _ = settled.answer.send(played);
        Verdict::Accepted
    }
}
