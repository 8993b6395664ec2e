//! Stall budget: one rule against silent clients and slow-loris clients.
//!
//! Waiting for a client spends its budget, and transferred bytes refill it. A client that transfers at the minimum rate or
//! faster is served to the end, whatever the size; a slower client exhausts its budget, however the bytes are distributed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::places::Occupied;

/// Stall budget of one client.
#[derive(Debug, Clone, Copy)]
pub struct StallBudget {
    /// Full budget.
    budget: Duration,
    /// Bytes that refill one second.
    bytes_per_second: f64,
    remaining: Duration,
}

impl StallBudget {
    /// Full budget with a minimum rate in bytes per second.
    #[must_use]
    pub const fn new(budget: Duration, min_bytes_per_second: u64) -> Self {
        let bytes_per_second = if min_bytes_per_second == 0 { 1.0 } else { min_bytes_per_second as f64 };
        Self { budget, bytes_per_second, remaining: budget }
    }

    /// Remaining time until the next bytes.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// Accounts for `bytes` transferred after waiting for `waited`.
    pub fn transferred(&mut self, bytes: usize, waited: Duration) {
        let refill = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        self.remaining = self.remaining.saturating_sub(waited).saturating_add(refill).min(self.budget);
    }
}

/// A connection whose writes are subject to a stall budget.
///
/// Reads are not: a client may be silent between two requests and while it receives a response.
pub(crate) struct TimedStream<S> {
    stream: S,
    stall: StallBudget,
    /// The connection's place, which it keeps when it becomes a WebSocket.
    _place: Occupied,
    /// Start of the pending write, during which the timer runs.
    pending_since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<S> TimedStream<S> {
    pub fn new(stream: S, stall: StallBudget, place: Occupied) -> Self {
        Self {
            stream,
            stall,
            _place: place,
            pending_since: None,
            timer: Box::pin(tokio::time::sleep(stall.remaining())),
        }
    }

    /// Accounts for a write attempt; an exhausted budget is an error.
    fn account(&mut self, polled: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = polled {
            let waited = self.pending_since.take().map_or(Duration::ZERO, |since| since.elapsed());
            self.stall.transferred(*written.as_ref().unwrap_or(&0), waited);
            return Poll::Ready(written);
        }
        if self.pending_since.is_none() {
            let now = Instant::now();
            self.pending_since = Some(now);
            self.timer.as_mut().reset(now + self.stall.remaining());
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.account(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.account(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waiting_spends_the_budget_and_bytes_refill_it() {
        let mut stall = StallBudget::new(10 * SECOND, 100);
        stall.transferred(0, 4 * SECOND);
        assert_eq!(stall.remaining(), 6 * SECOND);
        stall.transferred(200, SECOND);
        assert_eq!(stall.remaining(), 7 * SECOND);
        stall.transferred(1_000_000, Duration::ZERO);
        assert_eq!(stall.remaining(), 10 * SECOND, "the budget is capped");
        stall.transferred(0, 11 * SECOND);
        assert_eq!(stall.remaining(), Duration::ZERO);
    }

    #[test]
    fn minimum_rate_preserves_the_budget() {
        let (mut steady, mut dripping) = (StallBudget::new(10 * SECOND, 100), StallBudget::new(10 * SECOND, 100));
        let mut seconds = 0;
        for _ in 0..1000 {
            steady.transferred(100, SECOND);
            seconds += u32::from(dripping.remaining() >= SECOND);
            dripping.transferred(50, SECOND);
        }
        assert_eq!((steady.remaining(), seconds), (10 * SECOND, 19));
    }
}
