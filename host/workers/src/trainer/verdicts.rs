//! Results of workers: admitted by their headers, read in tasks, and judged.

use async_nats::Message;
use gymkhana_orchestration::RunError;
use gymkhana_record::EpisodeRecord;
use gymkhana_rollout::FailedForks;

use super::dispatch::{DispatchEvent, DispatchLoop};
use super::results::{self, ExpectedRecords, RecordRefusal, Unread};
use crate::limits::{HeaderRefusal, check_header};
use crate::messages::{JobEnd, ResultHeader, Verdict};
use crate::publication::Publication;
use crate::reply::ReplyTo;
use crate::signature::SignatureRefusal;
use crate::signed::{SignedMessage, decode_signed};

impl DispatchLoop {
    /// Reads a result in a task, since it may be large, if its header belongs to a job that waits.
    pub(super) fn read(&mut self, message: &Message) {
        let Some(signed) = decode_signed::<ResultHeader>(&message.payload) else {
            return self.dropped.add("a result", "it is malformed");
        };
        let reply = ReplyTo::of(message);
        let key = match signed.key(&self.keys, &self.streams.publication.names.results()) {
            Ok(key) => key,
            Err(wrong @ SignatureRefusal::Wrong) => return self.dropped.add("a result", &wrong.to_string()),
            // The header of a stranger says nothing: no job fails by it.
            Err(refusal) => return self.refuse(&signed.header, refusal.to_string(), reply),
        };
        if let Err(refusal) = self.admit(&signed.header) {
            return self.refuse(&signed.header, refusal.to_string(), reply);
        }
        if !self.is_own("a result", &signed.header.worker, key) {
            return;
        }
        let SignedMessage { header, body: inline, .. } = signed;
        if self.ledger.get(header.job).is_none() {
            self.ledger.seen.not_wanted += 1;
            return self.answer(&Verdict::NotWanted, reply);
        }
        // The loop takes a result only while there is room.
        let Some(room) = self.reading.take(header.object.unwrap_or(inline.len() as u64)) else { return };
        let (streams, report) = (self.streams.clone(), self.report.clone());
        let records = message.payload.slice_ref(inline);
        self.tasks.spawn(async move {
            let room = room.await;
            let records = match &header.end {
                JobEnd::Fault(_) | JobEnd::Failed(_) => Ok(vec![]),
                JobEnd::Played => results::read(&streams, &header, &records).await,
            };
            let _ = report.send(DispatchEvent::Read { header: Box::new(header), records, reply, room });
        });
    }

    /// Compares a header with the limits and the run.
    fn admit(&self, header: &ResultHeader) -> Result<(), HeaderRefusal> {
        check_header(header)?;
        if let Some(difference) = header.versions.difference("the worker") {
            return Err(HeaderRefusal::Versions(difference));
        }
        if header.lock == self.lock { Ok(()) } else { Err(HeaderRefusal::Plugins) }
    }

    /// Answers to a result that was read.
    pub(super) fn result(
        &mut self,
        header: &ResultHeader,
        records: Result<Vec<EpisodeRecord>, Unread>,
        reply: Option<ReplyTo>,
    ) {
        let records = match records {
            Ok(records) => records,
            Err(Unread::Refused(why)) => return self.refuse_records(header, &why, reply),
            // Without a verdict the worker offers the result again.
            Err(Unread::Unreachable(why)) => return tracing::warn!("a result cannot be fetched: {why}"),
        };
        let verdict = match &header.end {
            JobEnd::Played => match self.compare(header, &records) {
                Err(why) => return self.refuse_records(header, &why, reply),
                Ok(()) => self.settle(header, Ok(records)),
            },
            JobEnd::Fault(why) => {
                self.settle(header, Err(RunError::internal(format!("worker {}: {why}", header.worker))))
            }
            JobEnd::Failed(why) => {
                self.ledger.seen.failed += 1;
                self.reporter.warn(&format!("worker {} failed to play a group: {why}", header.worker));
                self.fail(header, why);
                Verdict::Elsewhere
            }
        };
        self.answer(&verdict, reply);
    }

    /// Compares records with their job, if it waits.
    fn compare(&self, header: &ResultHeader, records: &[EpisodeRecord]) -> Result<(), RecordRefusal> {
        let Some(waiting) = self.ledger.get(header.job) else { return Ok(()) };
        let rollout = self.rollouts.get(waiting.job.group.environment);
        let asked = ExpectedRecords {
            job: &waiting.job,
            environment: rollout.and_then(|rollout| rollout.environment()),
            seats: &self.streams.publication.description.seats,
            sampled: &waiting.sampled,
        };
        asked.check(records)
    }

    /// Gives the run the result of a job.
    fn settle(&mut self, header: &ResultHeader, played: Result<Vec<EpisodeRecord>, RunError>) -> Verdict {
        let Some(settled) = self.ledger.settle(header.job) else { return Verdict::NotWanted };
        self.record_heartbeat(&header.worker);
        self.ledger.seen.workers.insert(header.worker.clone());
        self.end(header.job, settled.sequence);
        let (count, last) = header.failed_forks.clone();
        if let Some(rollout) = self.rollouts.get(settled.job.group.environment) {
            rollout.add_failed_forks(FailedForks { count, last });
        }
        // The run may have given the job up meanwhile.
        let _ = settled.answer.send(played);
        Verdict::Accepted
    }

    fn refuse_records(&mut self, header: &ResultHeader, why: &RecordRefusal, reply: Option<ReplyTo>) {
        let why = gymkhana_registry::ErrorChain(why).to_string();
        self.fail(header, &why);
        self.refuse(header, why, reply);
    }

    fn refuse(&mut self, header: &ResultHeader, why: String, reply: Option<ReplyTo>) {
        self.ledger.seen.refused += 1;
        let worker: String = header.worker.chars().take(128).collect();
        self.reporter.warn(&format!("a result of worker {worker} was refused: {why}"));
        self.answer(&Verdict::Refused(why), reply);
    }

    /// Notes that a worker failed at a job, which ends the run if other workers have failed at it too.
    fn fail(&mut self, header: &ResultHeader, why: &str) {
        let Some(failed) = self.ledger.fail(header.job, &header.worker) else { return };
        self.end(header.job, failed.sequence);
        let group = failed.job.group.group.id;
        let error = RunError::user(format!(
            "no worker can play group {group}: several workers failed at it, the last of them {}: {why}",
            header.worker
        ));
        let _ = failed.answer.send(Err(error.with_hint("correct the failure at the workers, then use --resume")));
    }

    /// Ends the calls and the queue's entry of a job that waits no longer.
    fn end(&mut self, number: u64, sequence: Option<u64>) {
        self.policies.end_before(number, u64::MAX);
        sequence.into_iter().for_each(|sequence| self.remove(sequence));
    }

    fn answer(&mut self, verdict: &Verdict, reply: Option<ReplyTo>) {
        let Some(reply) = reply else { return };
        let Publication { bus, signer, .. } = &self.streams.publication;
        let text = match serde_json::to_vec(verdict) {
            Ok(text) => text,
            Err(error) => return tracing::warn!("a verdict was not sent: {error}"),
        };
        let Some(answer) = reply.sign(signer, &text) else { return };
        let client = bus.client.clone();
        self.verdicts.spawn(async move { reply.send(&client, answer).await });
    }
}
