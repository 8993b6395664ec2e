//! Jobs that wait for a result. Deliveries may repeat and arrive in any order; each job gets one result.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::messages::WorkerJob;

/// Workers at which a job fails before it ends the run.
const MAX_FAILURES: usize = 3;

/// What the dispatcher has seen so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dispatched {
    /// Groups with a result.
    pub groups: u64,
    /// Further deliveries of jobs whose worker was lost or left.
    pub delivered_again: u64,
    /// Results of jobs that had one already, or were given up.
    pub not_wanted: u64,
    /// Results that were refused.
    pub refused: u64,
    /// Groups that a worker failed to play.
    pub failed: u64,
    /// Messages that were damaged on the bus, or came from another program.
    pub dropped: u64,
    /// Names of the workers.
    pub workers: BTreeSet<String>,
}

/// Whether a message belongs to the newest delivery of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryStatus {
    /// The newest delivery, as before.
    Newest,
    /// The newest delivery, for the first time: what earlier ones began is obsolete.
    First,
    /// The job was delivered again.
    Superseded,
    /// The job has a result, or was given up.
    Settled,
}

/// A job without a result.
pub(crate) struct WaitingJob<A> {
    pub job: WorkerJob,
    /// Newest delivery from which something came; 0 before the first.
    delivery: u64,
    /// Where the result goes.
    pub answer: A,
    /// Its place in the stream, once the bus has taken it.
    pub sequence: Option<u64>,
    /// Number of times that it was lost from the stream.
    pub losses: u64,
    /// Weight versions of the tokens that were sampled for it, by seat.
    pub sampled: SampledVersions,
    /// Workers that failed to play it, or whose result of it was refused.
    failed: BTreeSet<String>,
}

/// Oldest and newest weight version of sampled tokens, by seat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SampledVersions(BTreeMap<u32, RangeInclusive<u32>>);

impl SampledVersions {
    /// Adds tokens that a seat's model sampled.
    pub fn add(&mut self, seat: u32, versions: &[u32]) {
        let (Some(&oldest), Some(&newest)) = (versions.iter().min(), versions.iter().max()) else { return };
        let known = self.0.entry(seat).or_insert(oldest..=newest);
        *known = oldest.min(*known.start())..=newest.max(*known.end());
    }

    /// The versions of a seat; `None` if its model sampled nothing.
    pub fn of(&self, seat: u32) -> Option<&RangeInclusive<u32>> {
        self.0.get(&seat)
    }
}

/// The jobs by their numbers.
pub(crate) struct Ledger<A> {
    waiting: BTreeMap<u64, WaitingJob<A>>,
    pub seen: Dispatched,
}

impl<A> Ledger<A> {
    pub fn new() -> Self {
        Self { waiting: BTreeMap::new(), seen: Dispatched::default() }
    }

    pub fn add(&mut self, job: WorkerJob, answer: A) {
        let (sampled, failed) = (SampledVersions::default(), BTreeSet::new());
        let waiting = WaitingJob { job, delivery: 0, answer, sequence: None, losses: 0, sampled, failed };
        self.waiting.insert(waiting.job.number, waiting);
    }

    pub fn get(&self, number: u64) -> Option<&WaitingJob<A>> {
        self.waiting.get(&number)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut WaitingJob<A>> {
        self.waiting.get_mut(&number)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut WaitingJob<A>> {
        self.waiting.values_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets the deliveries of a queue that was lost; returns the numbers of all jobs.
    pub fn renew(&mut self) -> Vec<u64> {
        for waiting in self.waiting.values_mut() {
            (waiting.sequence, waiting.delivery) = (None, 0);
        }
        self.waiting.keys().copied().collect()
    }

    /// Forgets the places of jobs that are not in the queue; returns the numbers of those that wait. Their next delivery
    /// is the first one again.
    pub fn requeue(&mut self, missing: &[u64]) -> Vec<u64> {
        let is_missing = |waiting: &&mut WaitingJob<A>| waiting.sequence.is_some_and(|place| missing.contains(&place));
        let lost = self.waiting.values_mut().filter(is_missing).map(|waiting| {
            (waiting.sequence, waiting.delivery) = (None, 0);
            waiting.losses += 1;
            waiting.job.number
        });
        lost.collect()
    }

    /// Notes a policy call of a worker.
    pub fn record_heartbeat(&mut self, worker: &str, number: u64, delivery: u64) -> DeliveryStatus {
        if !self.seen.workers.contains(worker) {
            self.seen.workers.insert(worker.to_owned());
        }
        let Some(waiting) = self.waiting.get_mut(&number) else { return DeliveryStatus::Settled };
        if delivery < waiting.delivery {
            return DeliveryStatus::Superseded;
        }
        if delivery == waiting.delivery {
            return DeliveryStatus::Newest;
        }
        if delivery > 1 {
            self.seen.delivered_again += 1;
        }
        waiting.delivery = delivery;
        DeliveryStatus::First
    }

    /// Takes a job out for its result, of whichever delivery; `None` if it has one or was given up.
    pub fn settle(&mut self, number: u64) -> Option<WaitingJob<A>> {
        let settled = self.waiting.remove(&number);
        match settled {
            Some(_) => self.seen.groups += 1,
            None => self.seen.not_wanted += 1,
        }
        settled
    }

    /// Notes that a worker failed at a job. Takes the job out if as many workers failed as end the run.
    pub fn fail(&mut self, number: u64, worker: &str) -> Option<WaitingJob<A>> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.failed.insert(worker.to_owned());
        let is_hopeless = waiting.failed.len() >= MAX_FAILURES;
        if is_hopeless { self.waiting.remove(&number) } else { None }
    }

    /// Takes a job out that is not needed.
    pub fn give_up(&mut self, number: u64) -> Option<WaitingJob<A>> {
        self.waiting.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::tests::job;

    #[test]
    fn a_later_delivery_makes_the_earlier_one_obsolete() {
        let mut ledger = Ledger::new();
        ledger.add(job(7, 1), ());
        assert_eq!(ledger.record_heartbeat("a", 7, 1), DeliveryStatus::First);
        assert_eq!(ledger.record_heartbeat("a", 7, 1), DeliveryStatus::Newest);
        assert_eq!(ledger.record_heartbeat("b", 7, 2), DeliveryStatus::First);
        assert_eq!(ledger.record_heartbeat("a", 7, 1), DeliveryStatus::Superseded);
        assert_eq!(ledger.record_heartbeat("a", 8, 1), DeliveryStatus::Settled);
        // The result of the obsolete delivery is the same episodes, and may come first.
        assert!(ledger.settle(7).is_some());
        assert!(ledger.settle(7).is_none());
        let Dispatched { groups, delivered_again, not_wanted, refused, failed, workers, .. } = ledger.seen;
        assert_eq!((groups, delivered_again, not_wanted, refused, failed, workers.len()), (1, 1, 1, 0, 0, 2));
    }

    #[test]
    fn jobs_that_the_queue_lost_are_queued_again() {
        let mut ledger = Ledger::new();
        for (number, sequence) in [(7, Some(1)), (8, Some(2)), (9, None)] {
            ledger.add(job(number, 1), ());
            ledger.get_mut(number).unwrap().sequence = sequence;
        }
        assert_eq!(ledger.record_heartbeat("a", 8, 3), DeliveryStatus::First);
        assert_eq!(ledger.requeue(&[2, 3]), [8]);
        let places = |ledger: &Ledger<()>| [7, 8, 9].map(|number| ledger.get(number).unwrap().sequence);
        assert_eq!((places(&ledger), ledger.get(8).unwrap().losses), ([Some(1), None, None], 1));
        assert_eq!(ledger.record_heartbeat("b", 8, 1), DeliveryStatus::First);
    }

    #[test]
    fn the_third_worker_that_fails_ends_a_job() {
        let mut ledger = Ledger::new();
        ledger.add(job(7, 1), ());
        for worker in ["a", "b", "a", "b"] {
            assert!(ledger.fail(7, worker).is_none(), "{worker}");
        }
        assert!(ledger.fail(8, "c").is_none(), "an unknown job");
        assert!(ledger.fail(7, "c").is_some());
        assert!(ledger.get(7).is_none());
    }

    #[test]
    fn sampled_versions_are_kept_by_seat() {
        let mut sampled = SampledVersions::default();
        sampled.add(0, &[]);
        assert_eq!(sampled.of(0), None);
        sampled.add(0, &[4, 5]);
        sampled.add(0, &[3]);
        sampled.add(1, &[9]);
        assert_eq!((sampled.of(0), sampled.of(1)), (Some(&(3..=5)), Some(&(9..=9))));
    }

    /// Whatever order deliveries, calls, results and losses come in, each job settles once or is given up.
    #[test]
    fn every_job_settles_once() {
        for seed in 0..200_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut draw = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            let (mut ledger, mut settled, mut given_up) = (Ledger::new(), BTreeMap::<u64, u32>::new(), BTreeSet::new());
            (0..8).for_each(|number| ledger.add(job(number, 1), ()));
            for _ in 0..200 {
                let (number, delivery) = (draw(9), 1 + draw(3));
                match draw(4) {
                    0 if ledger.settle(number).is_some() => *settled.entry(number).or_default() += 1,
                    1 if draw(10) == 0 && ledger.give_up(number).is_some() => {
                        given_up.insert(number);
                    }
                    _ => {
                        let standing = ledger.record_heartbeat("worker", number, delivery);
                        let is_over = settled.contains_key(&number) || given_up.contains(&number) || number == 8;
                        assert_eq!(standing == DeliveryStatus::Settled, is_over);
                    }
                }
            }
            assert!(settled.values().all(|count| *count == 1), "{settled:?}");
            assert!(settled.keys().all(|number| !given_up.contains(number)));
            assert_eq!(ledger.seen.groups, settled.len() as u64);
        }
    }
}
