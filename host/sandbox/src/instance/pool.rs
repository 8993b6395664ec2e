//! Limit on live instances, derived from the machine's memory mappings.
//!
//! Past `vm.max_map_count` the process aborts inside `malloc` without a catchable error. The pool size is therefore
//! computed from that number, and a start that exceeds it waits for a permit.

use std::time::{Duration, Instant};

use gymkhana_record::FailureKind;
use gymkhana_waits::sync::Arc;
use gymkhana_waits::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gymkhana_waits::{Counterpart, within};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::CallError;

/// Memory mappings of one live instance: two for its fiber stack, up to two for its memory and tables.
const MAPPINGS_PER_PLACE: u64 = 4;

/// Memory mappings reserved for the model, the allocator and the threads, where the machine has enough.
const RESERVED: u64 = 15_000;

/// Upper bound on the pool: more would exhaust the 128 TiB of addresses of a process, at over 4 GiB reserved each.
const MAX_PLACES: u64 = 10_000;

/// Linux's default, used if the machine does not report its own.
const DEFAULT_MAP_COUNT: u64 = 65_530;

/// Number of places (live instances) for a process with `max_map_count` memory mappings: all that are not reserved, and
/// at least half of them.
#[must_use]
pub fn places_for(max_map_count: u64) -> u32 {
    let reserved = RESERVED.min(max_map_count / 2);
    let places = ((max_map_count - reserved) / MAPPINGS_PER_PLACE).clamp(1, MAX_PLACES);
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// This machine's limit on a process's memory mappings.
#[must_use]
pub fn max_map_count() -> u64 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT_MAP_COUNT)
}

/// Permits for live instances of a sandbox.
#[derive(Debug)]
pub(crate) struct InstancePool {
    total: u32,
    free: Arc<Semaphore>,
    timeout: Duration,
    waits: AtomicU64,
    waiting: AtomicU32,
    /// Total of finished waits, in nanoseconds.
    waited: AtomicU64,
}

/// Right of an instance to exist; returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    places: OwnedSemaphorePermit,
}

impl Permit {
    /// Takes some of the places; `None` if there are fewer.
    pub fn split_off(&mut self, places: u32) -> Option<Self> {
        Some(Self { places: self.places.split(places as usize)? })
    }
}

impl InstancePool {
    pub fn new(total: u32, timeout: Duration) -> Self {
        let free = Arc::new(Semaphore::new(total as usize));
        let (waits, waiting, waited) = (AtomicU64::new(0), AtomicU32::new(0), AtomicU64::new(0));
        Self { total, free, timeout, waits, waiting, waited }
    }

    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn free(&self) -> u32 {
        u32::try_from(self.free.available_permits()).unwrap_or(u32::MAX)
    }

    /// Number of starts that had to wait.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Number of starts that are waiting.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Total duration of finished waits.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    fn wait(&self) -> Waiting<'_> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting { pool: self, since: Instant::now() }
    }

    /// Acquires `count` places and waits for them if necessary.
    pub async fn acquire(&self, count: u32) -> Result<Permit, CallError> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(count) {
            return Ok(Permit { places: permit });
        }
        let _waiting = self.wait();
        match within(Counterpart::Place, self.timeout, Arc::clone(&self.free).acquire_many_owned(count)).await {
            Ok(Ok(permit)) => Ok(Permit { places: permit }),
            Ok(Err(_)) | Err(_) => Err(CallError::new(
                FailureKind::Capacity,
                format!(
                    "cannot start another live plugin: all {} places stayed in use for {} s; lower the number of \
                     episodes in flight or raise vm.max_map_count",
                    self.total,
                    self.timeout.as_secs_f64()
                ),
            )),
        }
    }
}

/// A wait in progress, counted until it is dropped.
struct Waiting<'a> {
    pool: &'a InstancePool,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.pool.waiting.fetch_sub(1, Ordering::Relaxed);
        self.pool.waited.fetch_add(waited, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_uses_all_mappings_that_are_not_reserved() {
        assert_eq!(places_for(65_530), 10_000); // Linux's default: (65,530 - 15,000) / 4 exceeds the upper bound
        assert_eq!(places_for(262_144), 10_000); // 61,786 exceeds the upper bound
        assert_eq!(places_for(50_000), 8_750); // (50,000 - 15,000) / 4
        assert_eq!(places_for(120), 15); // half of it, over four
        assert_eq!(places_for(0), 1);
    }

    #[tokio::test]
    async fn a_start_waits_for_a_permit_and_fails_after_the_timeout() {
        let pool = Arc::new(InstancePool::new(2, Duration::from_millis(50)));
        let first = pool.acquire(2).await.expect("both are free");
        let error = pool.acquire(1).await.expect_err("all are in use");
        assert_eq!(error.kind, FailureKind::Capacity);
        let waiting = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.acquire(1).await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        assert_eq!(pool.waiting(), 1);
        drop(first);
        waiting.await.expect("no panic").expect("a place became free");
        assert_eq!((pool.free(), pool.waits(), pool.waiting()), (2, 2, 0));
        assert!(pool.waited() >= Duration::from_millis(50), "at least the first one's timeout");
    }
}
