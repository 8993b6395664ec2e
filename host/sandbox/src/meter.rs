//! How long a guest ran: the processor's time of its own slices, and the wall clock behind it.
//!
//! Epochs interrupt a guest at every tick, so that its neighbours run. Ticks are no measure of what a guest used:
//! on busy cores they pass while it waits. So each slice is measured by its thread's processor time. The wall cap is
//! for what no epoch sees. A call that ends at once, as most do, reads no clock and sets no timer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// `since` while no slice is measured.
const NOT_RUNNING: u64 = u64::MAX;

/// A call took longer than the wall cap.
#[derive(Debug)]
pub(crate) struct DeadlinePassed;

/// The guest used up its running time; ends the guest as the error of its epoch callback.
#[derive(Debug, thiserror::Error)]
#[error("the guest's running time is used up")]
pub(crate) struct BudgetSpent;

/// Counts one guest's running time, call by call. Only one thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: u64,
    used: AtomicU64,
    since: AtomicU64,
}

impl Meter {
    pub fn new(budget: Duration) -> Self {
        let budget = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
        Self { budget, used: AtomicU64::new(0), since: AtomicU64::new(NOT_RUNNING) }
    }

    /// Runs one call of the guest to its end, or until the wall cap. The call stays where it is: it is large, and
    /// moving it would take longer than all that is done here.
    pub async fn run<F: Future>(&self, wall: Duration, mut call: Pin<&mut F>) -> Result<F::Output, DeadlinePassed> {
        self.used.store(0, Ordering::Relaxed);
        self.since.store(NOT_RUNNING, Ordering::Relaxed);
        let mut timer = None;
        poll_fn(move |context| {
            if timer.is_some() {
                self.since.store(processor_time(), Ordering::Relaxed);
            }
            if let Poll::Ready(output) = call.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            self.end_slice();
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(wall)));
            timer.as_mut().poll(context).map(|()| Err(DeadlinePassed))
        })
        .await
    }

    /// At a tick: whether the guest has used up its budget. What a call ran before its first tick is not counted.
    pub fn tick(&self) -> Result<(), BudgetSpent> {
        let now = processor_time();
        let since = match self.since.load(Ordering::Relaxed) {
            NOT_RUNNING => {
                self.since.store(now, Ordering::Relaxed);
                now
            }
            since => since,
        };
        let used = self.used.load(Ordering::Relaxed) + now.saturating_sub(since);
        if used > self.budget { Err(BudgetSpent) } else { Ok(()) }
    }

    fn end_slice(&self) {
        let since = self.since.swap(NOT_RUNNING, Ordering::Relaxed);
        if since != NOT_RUNNING {
            self.used.fetch_add(processor_time().saturating_sub(since), Ordering::Relaxed);
        }
    }
}

/// Nanoseconds that the current thread has run on a processor.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // A thread's time is never negative.
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
        let meter = Meter::new(Duration::from_millis(40));
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
    }

    #[tokio::test]
    async fn the_wall_cap_ends_a_call_that_waits() {
        let meter = Meter::new(Duration::from_secs(1));
        let waited = meter.run(Duration::from_millis(20), pin!(std::future::pending::<()>())).await;
        assert!(waited.is_err());
    }
}
