//! Places for live episodes, in this process or at workers: when none is free, the session that was idle for the longest
//! time is parked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gymkhana_waits::{Counterpart, until};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::entry::Entry;
use super::place::LivePlace;
use crate::error::{ErrorKind, ServeError};
use crate::remote::{PlaceCounts, SessionWorkers, awaited_place};

/// Time after which a request that waits for a place looks again for an idle session.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The places of a table.
pub(super) struct Places {
    source: PlaceSource,
    wait: Duration,
    clock: AtomicU64,
    /// Sessions with live episodes that may be parked, by the time of their last use.
    idle: Mutex<BTreeMap<u64, Weak<Entry>>>,
    parked: AtomicU64,
}

/// Where places are.
enum PlaceSource {
    Local { free: Arc<Semaphore>, total: usize },
    Remote(Arc<dyn SessionWorkers>),
}

impl Places {
    /// This number of places in this process. A request waits for one as long as `wait`.
    pub(super) fn new(total: usize, wait: Duration) -> Self {
        let total = total.clamp(1, Semaphore::MAX_PERMITS);
        Self::of(PlaceSource::Local { free: Arc::new(Semaphore::new(total)), total }, wait)
    }

    /// The places of workers.
    pub(super) fn remote(workers: Arc<dyn SessionWorkers>, wait: Duration) -> Self {
        Self::of(PlaceSource::Remote(workers), wait)
    }

    fn of(source: PlaceSource, wait: Duration) -> Self {
        Self { source, wait, clock: AtomicU64::new(1), idle: Mutex::default(), parked: AtomicU64::new(0) }
    }

    /// Numbers of places.
    pub(super) fn counts(&self) -> PlaceCounts {
        match &self.source {
            PlaceSource::Local { free, total } => {
                let taken = total.saturating_sub(free.available_permits());
                PlaceCounts { workers: 0, places: *total, taken }
            }
            PlaceSource::Remote(workers) => workers.counts(),
        }
    }

    /// Number of times that a session was parked.
    pub(super) fn parked(&self) -> u64 {
        self.parked.load(Ordering::Relaxed)
    }

    /// Takes a place; parks another session if none is free, and waits if none can be parked. `is_last` is whether the
    /// server is shutting down, so that no worker will come.
    ///
    /// # Errors
    /// If none becomes free in time.
    pub(super) async fn acquire(&self, guests: &Handle, is_last: bool) -> Result<LivePlace, ServeError> {
        let deadline = Instant::now() + self.wait;
        loop {
            if let Some(place) = self.take() {
                return Ok(place);
            }
            let has_parked = self.park_oldest(guests).await;
            // A worker gives the place of a parked session back with its next answer.
            if let Some(place) = self.wait_until(deadline.min(Instant::now() + LOOK_AGAIN)).await {
                return Ok(place);
            }
            let is_in_vain = is_last && self.counts().places == 0;
            if !has_parked && (is_in_vain || Instant::now() >= deadline) {
                return Err(self.full());
            }
        }
    }

    /// A free place.
    fn take(&self) -> Option<LivePlace> {
        match &self.source {
            PlaceSource::Local { free, .. } => Arc::clone(free).try_acquire_owned().ok().map(LivePlace::of),
            PlaceSource::Remote(workers) => workers.take().map(LivePlace::Remote),
        }
    }

    /// A place that becomes free in time.
    async fn wait_until(&self, deadline: Instant) -> Option<LivePlace> {
        match &self.source {
            // The semaphore is never closed.
            PlaceSource::Local { free, .. } => {
                let permit = until(Counterpart::Place, deadline, Arc::clone(free).acquire_owned()).await;
                permit.ok()?.ok().map(LivePlace::of)
            }
            PlaceSource::Remote(workers) => awaited_place(&**workers, deadline).await.map(LivePlace::Remote),
        }
    }

    fn full(&self) -> ServeError {
        let (PlaceCounts { workers, places, .. }, seconds) = (self.counts(), self.wait.as_secs_f64());
        let message = if matches!(self.source, PlaceSource::Remote(_)) && workers == 0 {
            format!(
                "no place is free: no worker joined for {seconds} s\nhint: start `host worker` with the address of the \
                 bus, or repeat the request later"
            )
        } else {
            format!(
                "no place is free: {places} episodes are live and stayed in use for {seconds} s\nhint: close sessions, \
                 repeat the request later, or raise sessions.live"
            )
        };
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
