//! One job at a worker: plays its group, brings the result to the trainer and acknowledges the job.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_nats::Request;
use async_nats::jetstream::{AckKind, Message};
use gymkhana_orchestration::{RunError, RunResult};
use gymkhana_record::{EpisodeRecord, Phase};
use gymkhana_registry::Digest;
use gymkhana_rollout::{Actor, FailedForks, SeatPlayer};
use gymkhana_sandbox::run_on;
use gymkhana_store::encode_episodes;
use tokio::sync::watch;

use super::policy::{BusPolicy, Ends};
use super::session::Session;
use crate::description::SeatKind;
use crate::messages::{Job, JobEnd, ResultHeader, Verdict, encode_result};

/// Deliveries after which a job is a fault: it ends every worker that takes it.
const MOST_DELIVERIES: u64 = 32;
/// Time in which the trainer answers to a result.
const JUDGED: Duration = Duration::from_secs(10);
/// Longest time of an acknowledgement.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
/// Time between two tries while the trainer or the bus is away.
const AWAY: Duration = Duration::from_millis(500);
/// Tries to bring a result. The job goes back to the queue after the last.
const TRIES: u32 = 120;

/// What became of a job.
enum Outcome {
    Played(Result<Vec<EpisodeRecord>, String>),
    /// It ended without a result.
    Ended(Ends),
}

impl Session {
    /// Plays a job.
    ///
    /// # Errors
    /// If the trainer refuses the result.
    pub async fn job(self: Arc<Self>, message: Message) -> RunResult<()> {
        let delivery = message.info().map_or(1, |info| u64::try_from(info.delivered).unwrap_or(1));
        let Ok(job) = serde_json::from_slice::<Job>(&message.payload) else {
            self.reporter.warn("a job was malformed and is left out");
            acknowledge(&message, AckKind::Term).await;
            return Ok(());
        };
        let (ends, ended) = watch::channel(None);
        let ends = Arc::new(ends);
        let mut until_ended = std::pin::pin!(until_ended(ended, self.leaves.subscribe()));
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).insert(job.number, Arc::clone(&ends));
        let outcome = if delivery > MOST_DELIVERIES {
            let why = format!("its group was given to {MOST_DELIVERIES} workers, and none finished it");
            Outcome::Played(Err(why))
        } else {
            let played = Arc::clone(&self).group(job.clone(), delivery, Arc::clone(&ends));
            tokio::select! {
                played = played => Outcome::Played(played),
                why = &mut until_ended => Outcome::Ended(why),
                () = self.keep_alive(&message) => Outcome::Ended(Ends::Leaves),
            }
        };
        let brought = match outcome {
            Outcome::Played(played) => tokio::select! {
                brought = self.bring(&job, delivery, played, &message) => brought,
                () = self.keep_alive(&message) => Ok(()),
                why = &mut until_ended => {
                    end(&message, why).await;
                    Ok(())
                }
            },
            Outcome::Ended(why) => {
                end(&message, why).await;
                Ok(())
            }
        };
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.number);
        brought
    }

    /// Renews the lease of a job, without end.
    async fn keep_alive(&self, message: &Message) {
        let third = Duration::from_millis((self.description.lease_ms / 3).max(100));
        loop {
            tokio::time::sleep(third).await;
            acknowledge(message, AckKind::Progress).await;
        }
    }

    /// Plays the group on the threads of guests.
    async fn group(
        self: Arc<Self>,
        job: Job,
        delivery: u64,
        ends: Arc<watch::Sender<Option<Ends>>>,
    ) -> Result<Vec<EpisodeRecord>, String> {
        let Job { number, group } = job;
        let rollout = self.rollouts.get(group.environment).cloned();
        let rollout = rollout.ok_or_else(|| format!("the run has no environment {}", group.environment))?;
        let members = group.plan.members(group.group.size).min(self.most_episodes);
        let _permits = self.episodes.acquire_many(members).await.map_err(|error| error.to_string())?;
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
            rollout.run_plan(&group.group, &group.plan, actor).await.map_err(|error| describe(&error))
        };
        run_on(self.guests.handle(), played).await
    }

    /// Brings a result to the trainer until it answers, and acknowledges the job.
    async fn bring(
        &self,
        job: &Job,
        delivery: u64,
        played: Result<Vec<EpisodeRecord>, String>,
        message: &Message,
    ) -> RunResult<()> {
        let played = played.and_then(|records| encode_episodes(&records).map_err(|error| describe(&error)));
        let (end, records) = match played {
            Ok(records) => (JobEnd::Played, records),
            Err(why) => (JobEnd::Fault(why), vec![]),
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
            failed_forks: (count, last),
            records: Digest::of(&records),
            object: None,
        };
        for _ in 0..TRIES {
            match self.offer(&header, &records).await {
                Some(Verdict::Accepted) => {
                    self.done.fetch_add(1, Ordering::Relaxed);
                    acknowledge(message, AckKind::Ack).await;
                    return Ok(());
                }
                Some(Verdict::NotWanted) => {
                    acknowledge(message, AckKind::Ack).await;
                    return Ok(());
                }
                Some(Verdict::Refused(why)) => {
                    acknowledge(message, AckKind::Nak(None)).await;
                    let refused = format!("the trainer refused a result of this worker: {why}");
                    return Err(RunError::user(refused).with_hint("use the trainer's version of `host`"));
                }
                None => tokio::time::sleep(AWAY).await,
            }
        }
        acknowledge(message, AckKind::Nak(None)).await;
        Ok(())
    }

    /// Offers a result once; `None` if the trainer or the bus is away.
    async fn offer(&self, header: &ResultHeader, records: &[u8]) -> Option<Verdict> {
        let mut header = header.clone();
        let mut inline = records;
        if records.len() > self.bus.most_bytes() {
            let name = ResultHeader::object_name(&header.worker, header.job, header.delivery);
            let bucket = self.bus.jetstream.get_object_store(self.names.files_bucket()).await.ok()?;
            bucket.put(name.as_str(), &mut &records[..]).await.ok()?;
            header.object = Some(records.len() as u64);
            inline = &[];
        }
        let message = encode_result(&header, inline).ok()?;
        let request = Request::new().payload(message).timeout(Some(JUDGED));
        let answer = self.bus.client.send_request(self.names.results(), request).await.ok()?;
        serde_json::from_slice(&answer.payload).ok()
    }
}

/// The reason for which a job ends, when it does.
async fn until_ended(mut ended: watch::Receiver<Option<Ends>>, mut leaves: watch::Receiver<bool>) -> Ends {
    let told = async { ended.wait_for(Option::is_some).await.ok().and_then(|why| *why) };
    let leaves = async { leaves.wait_for(|leaves| *leaves).await.is_ok() };
    tokio::select! {
        why = told => why.unwrap_or(Ends::Leaves),
        _ = leaves => Ends::Leaves,
    }
}

/// Tells the queue about a job without a result.
async fn end(message: &Message, why: Ends) {
    match why {
        Ends::Settled => acknowledge(message, AckKind::Ack).await,
        Ends::Leaves => acknowledge(message, AckKind::Nak(None)).await,
        // The queue waits for the other worker.
        Ends::Superseded => {}
    }
}

/// Acknowledges a delivery. If the bus does not hear it, it delivers the job again.
async fn acknowledge(message: &Message, kind: AckKind) {
    match tokio::time::timeout(ACKNOWLEDGED, message.ack_with(kind)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a job was not acknowledged: {error}"),
        Err(_) => tracing::debug!("a job was not acknowledged in time"),
    }
}

/// An error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    gymkhana_registry::ErrorChain(error).to_string()
}
