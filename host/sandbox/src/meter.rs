//! How long a guest ran: the processor's time of its own slices, and the wall clock behind it.
//!
//! Epochs interrupt a guest at every tick, so that its neighbours run. Ticks are no measure of what a guest used:
//! on busy cores they pass while it waits. So each slice that lasts is measured by its thread's processor time. The
//! wall cap is for what no epoch sees. To ask for the processor's time takes half as long as a whole short call: one
//! that ends before a tick, as most do, is measured by the wall clock, which is read without entering the kernel, and
//! counts for a tick at most.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::ticker::TICK;

/// How soon the wall cap looks again at a guest that waits for the world, in nanoseconds.
const LOOK_AGAIN: u64 = 10_000_000;

/// `since` while no slice is measured by the processor's time.
const NOT_RUNNING: u64 = u64::MAX;

/// A call took longer than the wall cap.
#[derive(Debug)]
pub(crate) struct DeadlinePassed;

/// The guest used up its running time; ends the guest as the error of its epoch callback.
#[derive(Debug, thiserror::Error)]
#[error("the guest's running time is used up")]
pub(crate) struct BudgetSpent;

/// Counts one guest's running time, call by call, in nanoseconds. Only one thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Meter {
    allowed: AtomicU64,
    used: AtomicU64,
    /// The wall clock when the slice began.
    begun: AtomicU64,
    /// The processor's time when the slice began, once it is measured by that.
    since: AtomicU64,
    /// The wall clock when the guest began to wait for the world, while it does.
    waits_since: AtomicU64,
    /// How long it waited, as far as the wall cap was not put off for it yet.
    waited: AtomicU64,
}

impl Meter {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            allowed: zero(),
            used: zero(),
            begun: zero(),
            since: AtomicU64::new(NOT_RUNNING),
            waits_since: AtomicU64::new(NOT_RUNNING),
            waited: zero(),
        }
    }

    /// Says how long the guest may run in the next call.
    pub fn allow(&self, nanoseconds: u64) {
        self.allowed.store(nanoseconds, Ordering::Relaxed);
    }

    /// How long it ran in the last call.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Runs one call of the guest to its end, or until the wall cap. The call stays where it is: it is large, and
    /// moving it would take longer than all that is done here.
    pub async fn run<F: Future>(&self, wall: Duration, mut call: Pin<&mut F>) -> Result<F::Output, DeadlinePassed> {
        self.used.store(0, Ordering::Relaxed);
        self.since.store(NOT_RUNNING, Ordering::Relaxed);
        self.waits_since.store(NOT_RUNNING, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
        let mut timer = None;
        poll_fn(move |context| {
            if timer.is_some() {
                self.since.store(processor_time(), Ordering::Relaxed);
            } else {
                self.begun.store(wall_time(), Ordering::Relaxed);
            }
            let polled = call.as_mut().poll(context);
            self.end_slice();
            if let Poll::Ready(output) = polled {
                return Poll::Ready(Ok(output));
            }
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(wall)));
            while timer.as_mut().poll(context).is_ready() {
                let waited = self.take_waited();
                if waited.is_zero() {
                    return Poll::Ready(Err(DeadlinePassed));
                }
                timer.as_mut().reset(Instant::now() + waited);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for the world on behalf of the guest, whose wall cap is put off by as much.
    pub async fn waiting<F: Future>(&self, answer: F) -> F::Output {
        self.waits_since.store(wall_time(), Ordering::Relaxed);
        let answer = answer.await;
        let since = self.waits_since.swap(NOT_RUNNING, Ordering::Relaxed);
        self.waited.fetch_add(wall_time().saturating_sub(since), Ordering::Relaxed);
        answer
    }

    /// How long the guest waited since this was last asked; while it waits, a little more than nothing.
    fn take_waited(&self) -> Duration {
        let mut waited = self.waited.swap(0, Ordering::Relaxed);
        let since = self.waits_since.load(Ordering::Relaxed);
        if since != NOT_RUNNING {
            let now = wall_time();
            self.waits_since.store(now, Ordering::Relaxed);
            waited += now.saturating_sub(since).max(LOOK_AGAIN);
        }
        Duration::from_nanos(waited)
    }

    /// At a tick: whether the guest has used up what it may run.
    pub fn tick(&self) -> Result<(), BudgetSpent> {
        let now = processor_time();
        let since = match self.since.load(Ordering::Relaxed) {
            NOT_RUNNING => {
                let since = now.saturating_sub(self.until_first_tick());
                self.since.store(since, Ordering::Relaxed);
                since
            }
            since => since,
        };
        let used = self.used.load(Ordering::Relaxed) + now.saturating_sub(since);
        if used > self.allowed.load(Ordering::Relaxed) { Err(BudgetSpent) } else { Ok(()) }
    }

    fn end_slice(&self) {
        let slice = match self.since.swap(NOT_RUNNING, Ordering::Relaxed) {
            NOT_RUNNING => self.until_first_tick(),
            since => processor_time().saturating_sub(since),
        };
        self.used.fetch_add(slice, Ordering::Relaxed);
    }

    /// What the slice has run while no tick was seen.
    fn until_first_tick(&self) -> u64 {
        let passed = wall_time().saturating_sub(self.begun.load(Ordering::Relaxed));
        passed.min(TICK.as_nanos() as u64)
    }
}

/// Nanoseconds that the current thread has run on a processor.
fn processor_time() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Nanoseconds of a clock that only goes forward.
fn wall_time() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is ever negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn burn(milliseconds: u64) {
        let start = processor_time();
        while processor_time() - start < milliseconds * 1_000_000 {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn slices_are_counted_and_waits_are_not() {
        let meter = Meter::new();
        meter.allow(40_000_000);
        let call = async {
            tokio::task::yield_now().await;
            for _ in 0..3 {
                burn(10);
                assert!(meter.tick().is_ok(), "30 ms of 40 have run");
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
            burn(20);
            meter.tick().is_err()
        };
        let spent = meter.run(Duration::from_secs(10), pin!(call)).await.expect("in time");
        assert!(spent, "50 ms of 40 have run");
        assert!(meter.used() >= 50_000_000, "{} ns of 50 ms", meter.used());
    }

    #[tokio::test]
    async fn the_wall_cap_ends_a_call_that_waits() {
        let meter = Meter::new();
        meter.allow(1_000_000_000);
        let waited = meter.run(Duration::from_millis(20), pin!(std::future::pending::<()>())).await;
        assert!(waited.is_err());
    }

    #[tokio::test]
    async fn a_wait_for_the_world_puts_the_wall_cap_off() {
        let wait = Duration::from_millis(60);
        for (answered, in_time) in [(true, true), (false, false)] {
            let meter = Meter::new();
            meter.allow(1_000_000_000);
            let call = async {
                if answered { meter.waiting(tokio::time::sleep(wait)).await } else { tokio::time::sleep(wait).await }
            };
            assert_eq!(meter.run(Duration::from_millis(20), pin!(call)).await.is_ok(), in_time);
        }
        let meter = Meter::new();
        let call = async {
            meter.waiting(tokio::time::sleep(wait)).await;
            std::future::pending::<()>().await;
        };
        assert!(
            meter.run(Duration::from_millis(20), pin!(call)).await.is_err(),
            "what follows the wait is not put off"
        );
    }

    #[tokio::test]
    async fn what_ends_before_a_tick_counts_for_a_tick_at_most() {
        let meter = Meter::new();
        meter.allow(u64::MAX);
        for (milliseconds, counted) in [(0, 0..=1_000_000), (5, 1_000_000..=1_000_000)] {
            meter.run(Duration::from_secs(10), pin!(async { burn(milliseconds) })).await.expect("in time");
            assert!(counted.contains(&meter.used()), "{} ns of {milliseconds} ms", meter.used());
        }
    }
}
