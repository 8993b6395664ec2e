//! One job at a worker: plays its group, brings the result to the trainer and acknowledges the job.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use futures::FutureExt;
use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{EpisodeRecord, Phase};
use gymkhana_registry::Digest;
use gymkhana_rollout::{Actor, FailedForks, SeatPlayer};
use gymkhana_sandbox::run_on;
use gymkhana_store::encode_episodes;
use gymkhana_waits::{Counterpart, within};
use tokio::sync::watch;

use super::ends::{Ends, until_ended};
use super::policy::BusPolicy;
use super::session::WorkerSession;
use crate::description::SeatKind;
use crate::limits::{MAX_DELIVERIES, cut_reason};
use crate::messages::{JobEnd, ResultHeader, Verdict, WorkerJob};
use crate::objects::{self, PutError};
use crate::reply::SendOutcome;
use crate::signed::encode_signed;

/// Time in which the trainer answers to a result.
const JUDGED: Duration = Duration::from_secs(10);
/// Longest time of an acknowledgement.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
/// Time between two tries while the trainer or the bus is away.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Tries to bring a result. The job goes back to the queue after the last.
const TRIES: u32 = 120;
/// Time between two tries while the bus has no space for a result. Their number has no limit.
const FULL: Duration = Duration::from_secs(2);
/// Longest time between two renewals of a lease, which also show the trainer that the worker plays.
const RENEWAL: Duration = Duration::from_secs(10);

/// What became of a job.
enum JobOutcome {
    Played(Result<Vec<EpisodeRecord>, JobEnd>),
    /// It ended without a result.
    Ended(Ends),
}

impl WorkerSession {
    /// Plays a job.
    ///
    /// # Errors
    /// If this worker fails to play it, or the trainer refuses a call or the result.
    pub async fn job(self: Arc<Self>, message: Message) -> RunResult<()> {
        let delivery = message.info().map_or(1, |info| u64::try_from(info.delivered).unwrap_or(1));
        let about = Digest::of(self.names.jobs().as_bytes());
        let job =
            self.owner.key.read(&about, &message.payload).and_then(|job| serde_json::from_slice::<WorkerJob>(job).ok());
        let Some(job) = job else {
            // The trainer queues a job again that is not in the queue.
            self.owner.dropped.add("a job", "it is not one that the trainer signed");
            acknowledge(&message, AckKind::Term).await;
            return Ok(());
        };
        let (ends, ended) = watch::channel(None);
        let ends = Arc::new(ends);
        let mut until_ended = std::pin::pin!(until_ended(ended, self.leaves.subscribe()));
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).insert(job.number, Arc::clone(&ends));
        let outcome = if delivery > MAX_DELIVERIES {
            let why = format!("its group was delivered {MAX_DELIVERIES} times, and no worker finished it");
            JobOutcome::Played(Err(JobEnd::Fault(why)))
        } else {
            let played = Arc::clone(&self).group(job.clone(), delivery, Arc::clone(&ends));
            tokio::select! {
                played = AssertUnwindSafe(played).catch_unwind() => JobOutcome::Played(played.unwrap_or_else(|_| {
                    Err(JobEnd::Failed("the program panicked while it played the group".to_owned()))
                })),
                why = &mut until_ended => JobOutcome::Ended(why),
                () = self.keep_alive(&message) => JobOutcome::Ended(Ends::Leaves),
            }
        };
        let brought = match outcome {
            JobOutcome::Played(played) => tokio::select! {
                brought = self.bring(&job, delivery, played, &message) => brought,
                () = self.keep_alive(&message) => Ok(()),
                why = &mut until_ended => end(&message, why).await,
            },
            JobOutcome::Ended(why) => end(&message, why).await,
        };
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.number);
        brought
    }

    /// Renews the lease of a job, without end.
    async fn keep_alive(&self, message: &Message) {
        let third = Duration::from_millis((self.description.lease_ms / 3).max(100));
        loop {
            acknowledge(message, AckKind::Progress).await;
            tokio::time::sleep(third.min(RENEWAL)).await;
        }
    }

    /// Plays the group on the threads of guests.
    async fn group(
        self: Arc<Self>,
        job: WorkerJob,
        delivery: u64,
        ends: Arc<watch::Sender<Option<Ends>>>,
    ) -> Result<Vec<EpisodeRecord>, JobEnd> {
        let WorkerJob { number, group } = job;
        let rollout = self.rollouts.get(group.environment).cloned();
        let none = || JobEnd::Failed(format!("this worker has no environment {}", group.environment));
        let rollout = rollout.ok_or_else(none)?;
        let members = group.plan.members(group.group.size).min(self.most_episodes);
        let permits = self.episodes.acquire_many(members).await;
        let _permits = permits.map_err(|error| JobEnd::Failed(error.to_string()))?;
        let policies: Vec<Option<BusPolicy>> = (0..)
            .zip(&self.description.seats)
            .map(|(seat, kind)| match kind {
                SeatKind::Oracle => None,
                SeatKind::Model { context, can_score } => Some(BusPolicy {
                    caller: Arc::clone(&self.caller),
                    job: number,
                    delivery,
                    seat,
                    context: *context,
                    can_score: *can_score,
                    ends: Arc::clone(&ends),
                }),
            })
            .collect();
        let played = async move {
            let players: Vec<SeatPlayer<'_>> = policies
                .iter()
                .map(|policy| policy.as_ref().map_or(SeatPlayer::Oracle, |policy| SeatPlayer::Policy(policy)))
                .collect();
            let actor = match group.group.id.phase {
                Phase::Demonstration => Actor::Oracle,
                _ => Actor::Seats(&players),
            };
            // It depends on the run's files and tokens, which every worker has.
            rollout.run_plan(&group.group, &group.plan, actor).await.map_err(|error| JobEnd::Fault(describe(&error)))
        };
        run_on(self.guests.handle(), played).await
    }

    /// Brings a result to the trainer until it answers, and acknowledges the job.
    async fn bring(
        &self,
        job: &WorkerJob,
        delivery: u64,
        played: Result<Vec<EpisodeRecord>, JobEnd>,
        message: &Message,
    ) -> RunResult<()> {
        let encode =
            |records: Vec<EpisodeRecord>| encode_episodes(&records).map_err(|error| JobEnd::Fault(describe(&error)));
        let (end, records) = match played.and_then(encode) {
            Ok(records) => (JobEnd::Played, records),
            Err(JobEnd::Fault(why)) => (JobEnd::Fault(cut_reason(why)), vec![]),
            Err(JobEnd::Failed(why)) => (JobEnd::Failed(cut_reason(why)), vec![]),
            Err(JobEnd::Played) => (JobEnd::Played, vec![]),
        };
        let rollout = self.rollouts.get(job.group.environment);
        let FailedForks { count, last } = rollout.map(|rollout| rollout.take_failed_forks()).unwrap_or_default();
        let header = ResultHeader {
            worker: self.caller.worker.clone(),
            versions: self.versions.clone(),
            lock: self.lock,
            job: job.number,
            delivery,
            end,
            failed_forks: (count, cut_reason(last)),
            records: Digest::of(&records),
            object: None,
        };
        let records = records.into();
        let verdict = self.offer_until_judged(&header, &records).await;
        if self.is_object(&records) && !matches!(verdict, Some(Verdict::Accepted)) {
            self.remove_object(&header).await;
        }
        let kind = match &verdict {
            Some(Verdict::Accepted | Verdict::NotWanted) => AckKind::Ack,
            Some(Verdict::Refused(_) | Verdict::Elsewhere) | None => AckKind::Nak(None),
        };
        acknowledge(message, kind).await;
        match (verdict, header.end) {
            (Some(Verdict::Refused(why)), _) => {
                Err(refused(&format!("the trainer refused a result of this worker: {why}"), "the trainer's"))
            }
            (_, JobEnd::Failed(why)) => Err(RunError::internal(format!("a group was not played: {why}"))),
            (Some(Verdict::Accepted), _) => {
                self.done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Offers a result until the trainer answers; `None` if it does not.
    async fn offer_until_judged(&self, header: &ResultHeader, records: &Bytes) -> Option<Verdict> {
        let (mut tries, mut has_warned) = (0, false);
        while tries < TRIES {
            match self.offer(header, records).await {
                Ok(Some(verdict)) => return Some(verdict),
                Ok(None) | Err(PutError::Unreachable(_)) => {
                    tries += 1;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(PutError::Refused(why)) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        self.reporter.warn(&format!(
                            "the bus does not take a result of {} bytes, which is offered again: {why}\nhint: free \
                             space at the bus, or raise the limits of its JetStream account",
                            records.len()
                        ));
                    }
                    tokio::time::sleep(FULL).await;
                }
            }
        }
        None
    }

    /// Whether records are larger than a message.
    fn is_object(&self, records: &Bytes) -> bool {
        records.len() > self.bus.most_bytes()
    }

    /// Removes records that the trainer does not fetch.
    async fn remove_object(&self, header: &ResultHeader) {
        let name = ResultHeader::object_name(&header.worker, header.job, header.delivery);
        if let Ok(bucket) = self.bus.jetstream.get_object_store(self.names.files_bucket()).await {
            // What stays there ends with the run.
            let _ = bucket.delete(&name).await;
        }
    }

    /// Offers a result once; `None` if the trainer does not answer.
    async fn offer(&self, header: &ResultHeader, records: &Bytes) -> Result<Option<Verdict>, PutError> {
        let mut header = header.clone();
        let mut inline: &[u8] = records;
        if self.is_object(records) {
            let name = ResultHeader::object_name(&header.worker, header.job, header.delivery);
            objects::put(&self.bus, &self.names.files_bucket(), &name, records.clone()).await?;
            header.object = Some(records.len() as u64);
            inline = &[];
        }
        let subject = self.names.results();
        let Ok(message) = encode_signed(&subject, &header, inline, &self.signer) else { return Ok(None) };
        Ok(match self.owner.ask(subject, message, JUDGED).await {
            SendOutcome::Answered(verdict) => serde_json::from_slice(&verdict).ok(),
            SendOutcome::Unreachable | SendOutcome::Silent | SendOutcome::TooLarge => None,
        })
    }
}

/// Tells the queue about a job without a result.
///
/// # Errors
/// If the trainer refused a call of the job.
async fn end(message: &Message, why: Ends) -> RunResult<()> {
    match why {
        Ends::Settled => acknowledge(message, AckKind::Ack).await,
        Ends::Leaves => acknowledge(message, AckKind::Nak(None)).await,
        // The queue waits for the other worker.
        Ends::Superseded => {}
        Ends::Refused(refusal) => {
            acknowledge(message, AckKind::Nak(None)).await;
            let refused = format!("the trainer refused a policy call of this worker: {refusal}");
            return Err(RunError::user(refused).with_hint(refusal.hint()));
        }
    }
    Ok(())
}

/// Acknowledges a delivery. If the bus does not hear it, it delivers the job again.
async fn acknowledge(message: &Message, kind: AckKind) {
    match within(Counterpart::Bus, ACKNOWLEDGED, message.ack_with(kind)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a job was not acknowledged: {error}"),
        Err(silent) => tracing::debug!("a job was not acknowledged: {silent}"),
    }
}

/// The error of a worker that its trainer or server refused. The reason may have a hint; without one, whose `host` it should
/// use.
pub(super) fn refused(why: &str, whose: &str) -> RunError {
    let error = RunError::user(why);
    if error.hint().is_some() { error } else { error.with_hint(format!("use {whose} version of `host`")) }
}

/// An error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    gymkhana_registry::ErrorChain(error).to_string()
}
