//! Back-pressure: while the records of all live episodes hold more than a budget, turns and starts wait.
//!
//! A wait is bounded. Episodes that hold much can wait for one that cannot end without them, such as another one of their
//! group, and a run must not stop for that.

use std::time::{Duration, Instant};

use gymkhana_waits::sync::Arc;
use gymkhana_waits::sync::atomic::{AtomicU64, Ordering};
use gymkhana_waits::{Counterpart, within};
use tokio::sync::Notify;

/// Bound of the wait before a turn.
pub(crate) const TURN_WAIT: Duration = Duration::from_secs(5);

/// Bound of the wait before a start. A live episode can take several turns in this time, and end.
pub(crate) const START_WAIT: Duration = Duration::from_secs(60);

/// Bytes that the records of all live episodes of a rollout hold.
#[derive(Debug)]
pub(crate) struct LiveBytes {
    held: AtomicU64,
    limit: u64,
    freed: Notify,
}

impl LiveBytes {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { held: AtomicU64::new(0), limit, freed: Notify::new() })
    }

    /// The share of an episode that begins.
    pub(crate) fn share(self: &Arc<Self>) -> HeldBytes {
        HeldBytes { all: Arc::clone(self), own: 0 }
    }

    /// Waits until the episodes hold at most the limit, but not longer than `most`. Returns the time of the wait.
    pub(crate) async fn room(&self, most: Duration) -> Duration {
        if self.has_room() {
            return Duration::ZERO;
        }
        let since = Instant::now();
        let wait = async {
            loop {
                let freed = self.freed.notified();
                if self.has_room() {
                    return;
                }
                freed.await;
            }
        };
        // After the bound the episode continues, as the module says.
        let _ = within(Counterpart::Place, most, wait).await;
        since.elapsed()
    }

    fn has_room(&self) -> bool {
        self.held.load(Ordering::Relaxed) <= self.limit
    }
}

/// Bytes that one live episode's record holds. Dropping it frees them.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    all: Arc<LiveBytes>,
    own: u64,
}

impl HeldBytes {
    /// Sets the size of the record, which only grows.
    pub(crate) fn grow_to(&mut self, bytes: u64) {
        self.all.held.fetch_add(bytes.saturating_sub(self.own), Ordering::Relaxed);
        self.own = self.own.max(bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.held.fetch_sub(self.own, Ordering::Relaxed);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Long enough that a test that waits for it would be noticed.
    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn a_turn_waits_until_another_episode_ends() {
        let live = LiveBytes::new(10);
        let (mut first, mut second) = (live.share(), live.share());
        first.grow_to(6);
        second.grow_to(4);
        assert_eq!(live.room(LONG).now_or_never(), Some(Duration::ZERO), "10 bytes of 10 leave room");
        second.grow_to(5);
        let mut waiting = Box::pin(live.room(LONG));
        assert!((&mut waiting).now_or_never().is_none(), "11 bytes of 10 leave none");
        drop(first);
        waiting.await;
        assert_eq!(live.room(LONG).now_or_never(), Some(Duration::ZERO));
    }

    #[tokio::test]
    async fn a_wait_is_bounded() {
        let live = LiveBytes::new(10);
        let mut only = live.share();
        only.grow_to(11);
        live.room(Duration::from_millis(1)).await;
        assert!(!live.has_room());
    }
}
