//! Liveness of workers: policy calls, results, and the acknowledgements that they send to the queue.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::bus::SILENCE;

/// Time of the last message of each worker.
pub(crate) struct Liveness {
    /// Time after which a silent worker has lost its jobs.
    lease: Duration,
    /// The last sign; absent before the first.
    last_message: Option<Instant>,
    /// Time since which jobs wait.
    waiting: Instant,
    has_warned: bool,
    /// Whether a worker sent a message within the lease.
    plays: watch::Sender<bool>,
}

impl Liveness {
    pub fn new(lease: Duration, now: Instant) -> Self {
        Self { lease, last_message: None, waiting: now, has_warned: false, plays: watch::Sender::new(false) }
    }

    /// Tells whether a worker sent a message within the lease.
    pub fn plays(&self) -> watch::Receiver<bool> {
        self.plays.subscribe()
    }

    /// Notes the first of the jobs that wait.
    pub fn wait(&mut self, now: Instant) {
        self.waiting = now;
    }

    /// Notes a sign from the worker.
    pub fn record_heartbeat(&mut self, now: Instant) {
        (self.last_message, self.has_warned) = (Some(now), false);
        self.set_plays(true);
    }

    /// Compares the clock with the lease. Returns whether the user must be warned that jobs wait without a worker.
    pub fn poll(&mut self, now: Instant, jobs_wait: bool) -> bool {
        let since = |then: Instant| now.saturating_duration_since(then);
        self.set_plays(self.last_message.is_some_and(|last_message| since(last_message) < self.lease));
        let silence = since(self.last_message.map_or(self.waiting, |last_message| last_message.max(self.waiting)));
        jobs_wait && silence >= SILENCE && !std::mem::replace(&mut self.has_warned, true)
    }

    fn set_plays(&self, plays: bool) {
        self.plays.send_if_modified(|known| std::mem::replace(known, plays) != plays);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_plays_for_a_lease_after_each_sign() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let mut liveness = Liveness::new(10 * second, begun);
        let plays = liveness.plays();
        assert!(!*plays.borrow(), "no message has come");
        liveness.record_heartbeat(begun + second);
        liveness.poll(begun + 10 * second, true);
        assert!(*plays.borrow());
        liveness.poll(begun + 11 * second, true);
        assert!(!*plays.borrow());
    }

    #[test]
    fn the_user_is_warned_once_about_jobs_without_signs() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let mut liveness = Liveness::new(10 * second, begun);
        assert!(!liveness.poll(begun + 100 * second, false), "without jobs");
        liveness.wait(begun + 100 * second);
        assert!(!liveness.poll(begun + 129 * second, true));
        // A long turn: its worker only renews its lease.
        for time in [129_u32, 150, 170] {
            liveness.record_heartbeat(begun + time * second);
            assert!(!liveness.poll(begun + (time + 15) * second, true));
        }
        assert!(liveness.poll(begun + 200 * second, true));
        assert!(!liveness.poll(begun + 300 * second, true), "once");
        liveness.record_heartbeat(begun + 301 * second);
        assert!(liveness.poll(begun + 331 * second, true), "again after a sign");
    }
}
