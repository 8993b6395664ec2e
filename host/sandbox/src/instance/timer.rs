//! Running time of a guest: CPU time of its own slices, with a wall-clock limit on top.
//!
//! Epochs interrupt a guest at every tick, so that other guests run. Ticks do not measure a guest's own time: on busy
//! cores they pass while it waits. Each slice that lasts longer than a tick is therefore measured in CPU time of its
//! thread. The wall-clock limit covers what epochs cannot interrupt. Reading the CPU clock takes half as long as a
//! short call; a slice that ends before the first tick, as most do, is measured by the wall clock, which is read
//! without a system call, and counts as one tick at most.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use super::ticker::TICK;

/// Extension of the wall-clock deadline while a guest waits for an outbound call, in nanoseconds.
const WAIT_EXTENSION: u64 = 10_000_000;

/// Value of `cpu_start` and `wait_start` while nothing is measured.
const NOT_RUNNING: u64 = u64::MAX;

/// Marker of a call that exceeded the wall-clock limit.
#[derive(Debug)]
pub(crate) struct DeadlinePassed;

/// Error of the epoch callback that ends a guest whose running time is used up.
#[derive(Debug, thiserror::Error)]
#[error("the guest's running time is used up")]
pub(crate) struct BudgetSpent;

/// Running time of one guest, call by call, in nanoseconds. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct CallTimer {
    allowed: AtomicU64,
    used: AtomicU64,
    /// Wall clock at the start of the slice.
    wall_start: AtomicU64,
    /// CPU time at the start of the slice, or [`NOT_RUNNING`].
    cpu_start: AtomicU64,
    /// Wall clock at the start of an outbound wait in progress, or [`NOT_RUNNING`].
    wait_start: AtomicU64,
    /// Outbound wait not yet added to the wall-clock deadline.
    waited: AtomicU64,
}

impl CallTimer {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            allowed: zero(),
            used: zero(),
            wall_start: zero(),
            cpu_start: AtomicU64::new(NOT_RUNNING),
            wait_start: AtomicU64::new(NOT_RUNNING),
            waited: zero(),
        }
    }

    /// Sets the running time of the next call, in nanoseconds.
    pub fn allow(&self, nanoseconds: u64) {
        self.allowed.store(nanoseconds, Ordering::Relaxed);
    }

    /// Running time of the last call, in nanoseconds.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Runs one guest call to its end or to the wall-clock limit. The call stays pinned in place: it is large, and
    /// moving it would take longer than the bookkeeping here.
    pub async fn run<F: Future>(&self, wall: Duration, mut call: Pin<&mut F>) -> Result<F::Output, DeadlinePassed> {
        self.used.store(0, Ordering::Relaxed);
        self.cpu_start.store(NOT_RUNNING, Ordering::Relaxed);
        self.wait_start.store(NOT_RUNNING, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
        let mut sleep = None;
        poll_fn(move |context| {
            if sleep.is_some() {
                self.cpu_start.store(cpu_time(), Ordering::Relaxed);
            } else {
                self.wall_start.store(wall_time(), Ordering::Relaxed);
            }
            let polled = call.as_mut().poll(context);
            self.end_slice();
            if let Poll::Ready(output) = polled {
                return Poll::Ready(Ok(output));
            }
            let sleep = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(wall)));
            while sleep.as_mut().poll(context).is_ready() {
                let waited = self.take_waited();
                if waited.is_zero() {
                    return Poll::Ready(Err(DeadlinePassed));
                }
                sleep.as_mut().reset(Instant::now() + waited);
            }
            Poll::Pending
        })
        .await
    }

    /// Awaits an outbound call for the guest and extends the wall-clock deadline by the time it takes.
    pub async fn wait_outbound<F: Future>(&self, answer: F) -> F::Output {
        self.wait_start.store(wall_time(), Ordering::Relaxed);
        let answer = answer.await;
        let since = self.wait_start.swap(NOT_RUNNING, Ordering::Relaxed);
        self.waited.fetch_add(wall_time().saturating_sub(since), Ordering::Relaxed);
        answer
    }

    /// Runs a call of another guest for this one, which waits: the other guest's running time is not this one's, and the
    /// wall-clock deadline is extended by the time it takes.
    pub async fn wait_inner<F: Future + Unpin>(&self, mut call: F) -> F::Output {
        let polled = poll_fn(|context| {
            let (wall, cpu) = (wall_time(), self.cpu_start.load(Ordering::Relaxed));
            let begun = if cpu == NOT_RUNNING { 0 } else { cpu_time() };
            let polled = Pin::new(&mut call).poll(context);
            if cpu == NOT_RUNNING {
                self.wall_start.fetch_add(wall_time().saturating_sub(wall), Ordering::Relaxed);
            } else {
                self.cpu_start.fetch_add(cpu_time().saturating_sub(begun), Ordering::Relaxed);
            }
            polled
        });
        self.wait_outbound(polled).await
    }

    /// Takes the outbound wait since the last call of this method; at least [`WAIT_EXTENSION`] during a wait.
    fn take_waited(&self) -> Duration {
        let mut waited = self.waited.swap(0, Ordering::Relaxed);
        let since = self.wait_start.load(Ordering::Relaxed);
        if since != NOT_RUNNING {
            let now = wall_time();
            self.wait_start.store(now, Ordering::Relaxed);
            waited += now.saturating_sub(since).max(WAIT_EXTENSION);
        }
        Duration::from_nanos(waited)
    }

    /// Fails at a tick if the guest has used up its running time.
    pub fn tick(&self) -> Result<(), BudgetSpent> {
        let now = cpu_time();
        let since = match self.cpu_start.load(Ordering::Relaxed) {
            NOT_RUNNING => {
                let since = now.saturating_sub(self.before_first_tick());
                self.cpu_start.store(since, Ordering::Relaxed);
                since
            }
            since => since,
        };
        let used = self.used.load(Ordering::Relaxed) + now.saturating_sub(since);
        if used > self.allowed.load(Ordering::Relaxed) { Err(BudgetSpent) } else { Ok(()) }
    }

    fn end_slice(&self) {
        let slice = match self.cpu_start.swap(NOT_RUNNING, Ordering::Relaxed) {
            NOT_RUNNING => self.before_first_tick(),
            since => cpu_time().saturating_sub(since),
        };
        self.used.fetch_add(slice, Ordering::Relaxed);
    }

    /// Duration of the slice before its first tick.
    fn before_first_tick(&self) -> u64 {
        let passed = wall_time().saturating_sub(self.wall_start.load(Ordering::Relaxed));
        passed.min(TICK.as_nanos() as u64)
    }
}

/// CPU time of the current thread, in nanoseconds.
fn cpu_time() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Monotonic clock, in nanoseconds.
fn wall_time() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn burn(milliseconds: u64) {
        let start = cpu_time();
        while cpu_time() - start < milliseconds * 1_000_000 {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn slices_are_counted_and_waits_are_not() {
        let timer = CallTimer::new();
        timer.allow(40_000_000);
        let call = async {
            tokio::task::yield_now().await;
            for _ in 0..3 {
                burn(10);
                assert!(timer.tick().is_ok(), "30 ms of 40 have run");
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
            burn(20);
            timer.tick().is_err()
        };
        let spent = timer.run(Duration::from_secs(10), pin!(call)).await.expect("in time");
        assert!(spent, "50 ms of 40 have run");
        assert!(timer.used() >= 50_000_000, "{} ns of 50 ms", timer.used());
    }

    #[tokio::test]
    async fn the_wall_clock_limit_ends_a_call_that_waits() {
        let timer = CallTimer::new();
        timer.allow(1_000_000_000);
        let waited = timer.run(Duration::from_millis(20), pin!(std::future::pending::<()>())).await;
        assert!(waited.is_err());
    }

    #[tokio::test]
    async fn an_outbound_wait_extends_the_deadline() {
        let wait = Duration::from_millis(60);
        for (answered, in_time) in [(true, true), (false, false)] {
            let timer = CallTimer::new();
            timer.allow(1_000_000_000);
            let call = async {
                if answered {
                    timer.wait_outbound(tokio::time::sleep(wait)).await;
                } else {
                    tokio::time::sleep(wait).await;
                }
            };
            assert_eq!(timer.run(Duration::from_millis(20), pin!(call)).await.is_ok(), in_time);
        }
        let timer = CallTimer::new();
        let call = async {
            timer.wait_outbound(tokio::time::sleep(wait)).await;
            std::future::pending::<()>().await;
        };
        assert!(
            timer.run(Duration::from_millis(20), pin!(call)).await.is_err(),
            "the deadline is extended by the wait alone"
        );
    }

    #[tokio::test]
    async fn running_time_of_a_guest_inside_is_not_counted() {
        let timer = CallTimer::new();
        timer.allow(u64::MAX);
        // Before the first tick the wall clock measures the slice, afterwards the processor's.
        for ticked in [false, true] {
            let call = async {
                if ticked {
                    burn(3);
                    assert!(timer.tick().is_ok());
                }
                timer.wait_inner(Box::pin(async { burn(50) })).await;
            };
            timer.run(Duration::from_secs(10), pin!(call)).await.expect("in time");
            assert!(timer.used() < 10_000_000, "{} ns, of which 50 ms are the other guest's", timer.used());
        }
        let inside = timer.wait_inner(Box::pin(tokio::time::sleep(Duration::from_millis(60))));
        assert!(timer.run(Duration::from_millis(20), pin!(inside)).await.is_ok(), "the deadline is extended");
    }

    #[tokio::test]
    async fn a_slice_that_ends_before_a_tick_counts_as_one_tick_at_most() {
        let timer = CallTimer::new();
        timer.allow(u64::MAX);
        for (milliseconds, counted) in [(0, 0..=1_000_000), (5, 1_000_000..=1_000_000)] {
            timer.run(Duration::from_secs(10), pin!(async { burn(milliseconds) })).await.expect("in time");
            assert!(counted.contains(&timer.used()), "{} ns of {milliseconds} ms", timer.used());
        }
    }
}
