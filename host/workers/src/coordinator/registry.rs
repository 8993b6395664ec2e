//! The workers that a server knows: their places, and the time of their last heartbeat.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gymkhana_serve::remote::PlaceCounts;
use tokio::sync::watch;

use super::heartbeat::{Heartbeat, HeartbeatAnswer};

/// Reason why a worker is gone, once it is.
pub(crate) type Gone = Option<String>;

/// Workers by their id.
pub(crate) struct WorkerRegistry {
    /// Time without a heartbeat after which a worker is lost.
    lease: Duration,
    workers: BTreeMap<String, KnownWorker>,
    /// Time of the last look at the clock.
    looked: Instant,
}

struct KnownWorker {
    name: String,
    /// Public key of its first heartbeat.
    key: String,
    places: usize,
    taken: usize,
    last_heartbeat: Instant,
    /// Number of the last heartbeat.
    heartbeat: u64,
    gone: watch::Sender<Gone>,
}

/// A place at a worker.
pub(crate) struct ReservedPlace {
    pub worker: String,
    pub name: String,
    /// Public key that its answers have.
    pub key: String,
    pub gone: watch::Receiver<Gone>,
}

/// A worker that is gone, with the places that were taken there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GoneWorker {
    pub name: String,
    pub taken: usize,
}

/// What a heartbeat changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MembershipChange {
    Nothing,
    Joined,
    Left(GoneWorker),
}

impl WorkerRegistry {
    pub fn new(lease: Duration, now: Instant) -> Self {
        Self { lease, workers: BTreeMap::new(), looked: now }
    }

    /// Notes a heartbeat of a sound worker, signed with this key. A copy of an earlier one is ignored. `None` if the worker has
    /// another key.
    pub fn record_heartbeat(
        &mut self,
        heartbeat: &Heartbeat,
        key: &str,
        now: Instant,
    ) -> Option<(HeartbeatAnswer, MembershipChange)> {
        let Some(known) = self.workers.get_mut(&heartbeat.worker) else {
            // The first heartbeat of an id joins; a later one is of a worker that was lost.
            if heartbeat.number > 1 || heartbeat.leaves {
                return Some((HeartbeatAnswer::Lost, MembershipChange::Nothing));
            }
            let known = KnownWorker {
                name: heartbeat.name.clone(),
                key: key.to_owned(),
                places: heartbeat.places as usize,
                taken: 0,
                last_heartbeat: now,
                heartbeat: heartbeat.number,
                gone: watch::Sender::new(None),
            };
            self.workers.insert(heartbeat.worker.clone(), known);
            return Some((HeartbeatAnswer::Known, MembershipChange::Joined));
        };
        if known.key != key {
            return None;
        }
        if heartbeat.number <= known.heartbeat {
            return Some((HeartbeatAnswer::Known, MembershipChange::Nothing));
        }
        (known.heartbeat, known.last_heartbeat) = (heartbeat.number, now);
        let left = if heartbeat.leaves { self.remove(&heartbeat.worker, "has left") } else { None };
        Some((HeartbeatAnswer::Known, left.map_or(MembershipChange::Nothing, MembershipChange::Left)))
    }

    /// Removes workers without a heartbeat. Time in which this process did not run, or had no connection, does not count.
    pub fn poll(&mut self, now: Instant, is_connected: bool) -> Vec<GoneWorker> {
        let paused = now.saturating_duration_since(self.looked) > self.lease / 2;
        self.looked = now;
        if paused || !is_connected {
            self.workers.values_mut().for_each(|worker| worker.last_heartbeat = now);
            return vec![];
        }
        let is_silent = |worker: &KnownWorker| now.saturating_duration_since(worker.last_heartbeat) >= self.lease;
        let silent: Vec<String> =
            self.workers.iter().filter(|(_, worker)| is_silent(worker)).map(|(id, _)| id.clone()).collect();
        silent.iter().filter_map(|id| self.remove(id, "stopped answering")).collect()
    }

    /// Removes a worker; its places are lost.
    pub fn remove(&mut self, id: &str, why: &str) -> Option<GoneWorker> {
        let KnownWorker { name, taken, gone, .. } = self.workers.remove(id)?;
        gone.send_replace(Some(why.to_owned()));
        Some(GoneWorker { name, taken })
    }

    /// Takes a place at the worker with the most free ones.
    pub fn take(&mut self) -> Option<ReservedPlace> {
        let free = |worker: &KnownWorker| worker.places.saturating_sub(worker.taken);
        // Of equal workers the first one.
        let (id, worker) = self.workers.iter_mut().rev().max_by_key(|(_, worker)| free(worker))?;
        if free(worker) == 0 {
            return None;
        }
        worker.taken += 1;
        let KnownWorker { name, key, gone, .. } = worker;
        Some(ReservedPlace { worker: id.clone(), name: name.clone(), key: key.clone(), gone: gone.subscribe() })
    }

    /// Returns a place.
    pub fn free(&mut self, id: &str) {
        if let Some(worker) = self.workers.get_mut(id) {
            worker.taken = worker.taken.saturating_sub(1);
        }
    }

    pub fn counts(&self) -> PlaceCounts {
        let sum = |number: fn(&KnownWorker) -> usize| self.workers.values().map(number).sum();
        PlaceCounts { workers: self.workers.len(), places: sum(|one| one.places), taken: sum(|one| one.taken) }
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;
    use crate::coordinator::heartbeat::tests::heartbeat;

    const SECOND: Duration = Duration::from_secs(1);
    const KEY: &str = "UKEY";

    fn members(workers: &[(&str, u32)]) -> (WorkerRegistry, Instant) {
        let now = Instant::now();
        let mut members = WorkerRegistry::new(4 * SECOND, now);
        for (id, places) in workers {
            assert_eq!(
                members.record_heartbeat(&heartbeat(id, *places, 1), KEY, now),
                Some((HeartbeatAnswer::Known, MembershipChange::Joined))
            );
        }
        (members, now)
    }

    #[test]
    fn places_go_to_the_worker_with_the_most_free_ones() {
        let (mut members, _) = members(&[("a", 2), ("b", 3)]);
        let taken: Vec<String> = std::iter::from_fn(|| members.take()).map(|place| place.worker).collect();
        assert_eq!(taken, ["b", "a", "b", "a", "b"]);
        assert_eq!(members.counts(), PlaceCounts { workers: 2, places: 5, taken: 5 });
        members.free("a");
        assert_eq!(members.take().unwrap().worker, "a");
        assert!(WorkerRegistry::new(SECOND, Instant::now()).take().is_none());
    }

    #[test]
    fn a_silent_worker_is_lost_and_must_begin_anew() {
        let (mut members, begun) = members(&[("a", 2), ("b", 2)]);
        let place = members.take().unwrap();
        assert_eq!(place.worker, "a");
        for second in 1..=3 {
            let recorded =
                members.record_heartbeat(&heartbeat("b", 2, 1 + u64::from(second)), KEY, begun + second * SECOND);
            assert_eq!(recorded.unwrap().1, MembershipChange::Nothing);
            assert_eq!(members.poll(begun + second * SECOND, true), vec![]);
        }
        assert_eq!(members.poll(begun + 4 * SECOND, true), [GoneWorker { name: "machine-a".to_owned(), taken: 1 }]);
        assert_eq!(place.gone.borrow().as_deref(), Some("stopped answering"));
        assert_eq!(members.take().unwrap().worker, "b");
        // It wakes up.
        assert_eq!(
            members.record_heartbeat(&heartbeat("a", 2, 2), KEY, begun + 5 * SECOND).unwrap().0,
            HeartbeatAnswer::Lost
        );
        // A place that is returned late belongs to no worker.
        members.free("a");
        assert_eq!(members.counts(), PlaceCounts { workers: 1, places: 2, taken: 1 });
    }

    #[test]
    fn a_repeated_heartbeat_is_not_counted() {
        let (mut members, begun) = members(&[("a", 2)]);
        for second in 1..4 {
            members.record_heartbeat(&heartbeat("a", 2, 1), KEY, begun + second * SECOND);
            members.poll(begun + second * SECOND, true);
        }
        assert_eq!(members.poll(begun + 4 * SECOND, true).len(), 1);
    }

    #[test]
    fn a_worker_that_leaves_gets_no_more_places() {
        let (mut members, now) = members(&[("a", 2)]);
        let place = members.take().unwrap();
        let leaves = Heartbeat { leaves: true, ..heartbeat("a", 2, 2) };
        let left = MembershipChange::Left(GoneWorker { name: "machine-a".to_owned(), taken: 1 });
        assert_eq!(members.record_heartbeat(&leaves, "UOTHER", now), None, "a heartbeat of another program");
        assert_eq!(members.counts().workers, 1);
        assert_eq!(members.record_heartbeat(&leaves, KEY, now), Some((HeartbeatAnswer::Known, left)));
        assert_eq!(place.gone.borrow().as_deref(), Some("has left"));
        assert!(members.take().is_none());
    }

    #[test]
    fn a_pause_of_the_server_loses_no_worker() {
        let (mut members, begun) = members(&[("a", 2)]);
        assert_eq!(members.poll(begun + 60 * SECOND, true), vec![], "it was stopped for a minute");
        for second in 61..100 {
            assert_eq!(members.poll(begun + second * SECOND, false), vec![], "no connection");
        }
        for second in 100..103 {
            assert_eq!(members.poll(begun + second * SECOND, true), vec![]);
        }
        assert_eq!(members.poll(begun + 103 * SECOND, true).len(), 1);
    }

    /// However workers come and go, no worker holds more episodes than it has places, and every taken place is counted.
    #[test]
    fn no_worker_holds_more_than_it_can() {
        for round in 0..200 {
            let mut random = Seed(11).child(round).stream();
            let (mut members, mut now) = members(&[]);
            let (mut held, mut heartbeats, mut ids) =
                (Vec::<ReservedPlace>::new(), BTreeMap::<String, u64>::new(), 0_u32);
            for _ in 0..200 {
                match random.below(6) {
                    0 => {
                        ids += 1;
                        let id = format!("w{ids}");
                        members.record_heartbeat(&heartbeat(&id, 1 + random.below(4) as u32, 1), KEY, now);
                        heartbeats.insert(id, 1);
                    }
                    1 => {
                        now += SECOND;
                        members.poll(now, true);
                    }
                    2 => {
                        for (id, number) in heartbeats.iter_mut().filter(|_| random.below(2) == 0) {
                            *number += 1;
                            members.record_heartbeat(&heartbeat(id, 1, *number), KEY, now);
                        }
                    }
                    3 if !held.is_empty() => {
                        let place = held.swap_remove(random.below(held.len() as u64) as usize);
                        members.free(&place.worker);
                    }
                    _ => held.extend(members.take()),
                }
                let alive = held.iter().filter(|place| place.gone.borrow().is_none()).count();
                assert_eq!(members.counts().taken, alive);
                for (id, worker) in &members.workers {
                    let own = held.iter().filter(|place| place.worker == *id).count();
                    assert!(own == worker.taken && own <= worker.places, "{id}: {own} of {}", worker.places);
                }
            }
        }
    }
}
