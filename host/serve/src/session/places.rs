//! Places for live episodes: when none is free, the session that was idle for the longest time is parked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::entry::Entry;
use super::place::Place;
use crate::error::{ErrorKind, ServeError};

/// Time after which a request that waits for a place looks again for an idle session.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The places of a table.
pub(super) struct Places {
    free: Arc<Semaphore>,
    total: usize,
    wait: Duration,
    clock: AtomicU64,
    /// Sessions with live episodes that may be parked, by the time of their last use.
    idle: Mutex<BTreeMap<u64, Weak<Entry>>>,
    parked: AtomicU64,
}

impl Places {
    /// This number of places. A request waits for one as long as `wait`.
    pub(super) fn new(total: usize, wait: Duration) -> Self {
        let total = total.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(total)),
            total,
            wait,
            clock: AtomicU64::new(1),
            idle: Mutex::default(),
            parked: AtomicU64::new(0),
        }
    }

    /// Number of places.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Number of live episodes.
    pub(super) fn taken(&self) -> usize {
        self.total.saturating_sub(self.free.available_permits())
    }

    /// Number of times that a session was parked.
    pub(super) fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Takes a place; parks another session if none is free, and waits if none can be parked.
    ///
    /// # Errors
    /// If none becomes free in time.
    pub(super) async fn acquire(&self, guests: &Handle) -> Result<Place, ServeError> {
        let deadline = Instant::now() + self.wait;
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return Ok(Place::of(permit));
            }
            if self.park_oldest(guests).await {
                continue;
            }
            let until = deadline.min(Instant::now() + LOOK_AGAIN);
            match timeout_at(until, Arc::clone(&self.free).acquire_owned()).await {
                Ok(Ok(permit)) => return Ok(Place::of(permit)),
                // The semaphore is never closed.
                Ok(Err(_)) | Err(_) if Instant::now() >= deadline => return Err(self.full()),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    fn full(&self) -> ServeError {
        let message = format!(
            "no place is free: {} episodes are live and stayed in use for {} s\nhint: close sessions, repeat the request \
             later, or raise sessions.live",
            self.total,
            self.wait.as_secs_f64()
        );
        ServeError::host(ErrorKind::Full, message)
    }

    /// Parks the session that was idle for the longest time. Returns false if none can be parked now.
    async fn park_oldest(&self, guests: &Handle) -> bool {
        loop {
            let oldest = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
            let Some((_, entry)) = oldest else { return false };
            let Some(entry) = entry.upgrade() else { continue };
            // A session in use enters the list again after its request.
            let Ok(mut state) = Arc::clone(&entry.state).try_lock_owned() else { continue };
            let parked = guests.spawn(async move { state.park().await }).await;
            // Plugins without snapshots stay live, and out of the list until their next use.
            if parked.unwrap_or(false) {
                self.parked.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
    }

    /// Notes the use of a session with a live episode.
    pub(super) fn used(&self, entry: &Arc<Entry>) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.remove(&entry.stamp.swap(now, Ordering::Relaxed));
        idle.insert(now, Arc::downgrade(entry));
    }

    /// Notes that a session has no live episode any more.
    pub(super) fn unused(&self, entry: &Entry) {
        let stamp = entry.stamp.swap(0, Ordering::Relaxed);
        if stamp != 0 {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).remove(&stamp);
        }
    }
}
