//! How many plugins may be live at once: bounded by the machine's memory mappings, and waiting for a free place.
//!
//! Past `vm.max_map_count` the process dies inside `malloc`, without an error to catch. So the pool's size is
//! computed from that number, and whoever wants one more instance than fits waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gymkhana_record::FailureKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::CallError;

/// Memory mappings of one live instance: two for its fiber stack, up to two for its memory and tables.
const MAPPINGS_PER_PLACE: u64 = 4;

/// Memory mappings that are left to the model, the allocator and the threads, where there are so many.
const RESERVED: u64 = 15_000;

/// Beyond this many the pool's reserved addresses, over 4 GiB each, would crowd the 128 TiB that a process has.
const MOST_PLACES: u64 = 10_000;

/// Linux's default, for machines that do not say.
const DEFAULT_MAP_COUNT: u64 = 65_530;

/// How many instances may be live in a process that may have `max_map_count` memory mappings: those that fill what is
/// not reserved, and at least half of them.
#[must_use]
pub fn places_for(max_map_count: u64) -> u32 {
    let reserved = RESERVED.min(max_map_count / 2);
    let places = ((max_map_count - reserved) / MAPPINGS_PER_PLACE).clamp(1, MOST_PLACES);
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// This machine's limit on a process's memory mappings.
pub(crate) fn max_map_count() -> u64 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT_MAP_COUNT)
}

/// The places of a sandbox.
#[derive(Debug)]
pub(crate) struct Places {
    total: u32,
    free: Arc<Semaphore>,
    patience: Duration,
    waits: AtomicU64,
    waiting: AtomicU32,
    /// In nanoseconds, of those that wait no more.
    waited: AtomicU64,
}

/// A live instance's right to exist; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub fn new(total: u32, patience: Duration) -> Self {
        let free = Arc::new(Semaphore::new(total as usize));
        let (waits, waiting, waited) = (AtomicU64::new(0), AtomicU32::new(0), AtomicU64::new(0));
        Self { total, free, patience, waits, waiting, waited }
    }

    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn free(&self) -> u32 {
        u32::try_from(self.free.available_permits()).unwrap_or(u32::MAX)
    }

    /// How often somebody had to wait.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// How many wait now.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How long all that wait no more have waited.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    fn wait(&self) -> Waiting<'_> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting { places: self, since: Instant::now() }
    }

    /// Takes `count` places, and waits for them if need be.
    pub async fn take(&self, count: u32) -> Result<Place, CallError> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(count) {
            return Ok(Place { _permit: permit });
        }
        let _waiting = self.wait();
        match tokio::time::timeout(self.patience, Arc::clone(&self.free).acquire_many_owned(count)).await {
            Ok(Ok(permit)) => Ok(Place { _permit: permit }),
            Ok(Err(_)) | Err(_) => Err(CallError::new(
                FailureKind::Capacity,
                format!(
                    "no place for another live plugin became free within {} s: all {} are taken; keep fewer episodes \
                     in flight or raise vm.max_map_count",
                    self.patience.as_secs_f64(),
                    self.total
                ),
            )),
        }
    }
}

/// Somebody who waits for a place, until it is dropped.
struct Waiting<'a> {
    places: &'a Places,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.places.waiting.fetch_sub(1, Ordering::Relaxed);
        self.places.waited.fetch_add(waited, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_fills_what_is_not_reserved() {
        assert_eq!(places_for(65_530), 10_000); // Linux's default: (65,530 - 15,000) / 4, and no more than there may be
        assert_eq!(places_for(262_144), 10_000); // 61,786 would need more addresses than there are
        assert_eq!(places_for(50_000), 8_750); // (50,000 - 15,000) / 4
        assert_eq!(places_for(120), 15); // half of it, over four
        assert_eq!(places_for(0), 1);
    }

    #[tokio::test]
    async fn whoever_comes_late_waits_and_is_told_when_it_takes_too_long() {
        let places = Arc::new(Places::new(2, Duration::from_millis(50)));
        let first = places.take(2).await.expect("both are free");
        let error = places.take(1).await.expect_err("none is free");
        assert_eq!(error.kind, FailureKind::Capacity);
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take(1).await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        assert_eq!(places.waiting(), 1);
        drop(first);
        waiting.await.expect("no panic").expect("a place became free");
        assert_eq!((places.free(), places.waits(), places.waiting()), (2, 2, 0));
        assert!(places.waited() >= Duration::from_millis(50), "the first one's patience at least");
    }
}
