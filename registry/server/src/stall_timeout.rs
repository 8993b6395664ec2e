//! How long a client is waited for, whether it sends or takes.
//!
//! One rule for silence and for dripping: there is so much patience, waiting uses it up, and each byte brings a little of
//! it back. Whoever moves bytes at the slowest rate or faster is waited for to the end, whatever the size; whoever does
//! not has used up the patience after a while, however the bytes are spread.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The patience with one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StallTimeout {
    /// The most that there is of it.
    most: Duration,
    /// Bytes that bring back a second.
    slowest: f64,
    left: Duration,
}

impl StallTimeout {
    /// With so much patience, and so many bytes a second at least.
    pub fn new(most: Duration, slowest: u64) -> Self {
        Self { most, slowest: slowest.max(1) as f64, left: most }
    }

    /// How long it may take from now until something moves.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// So many bytes moved after so long a wait.
    pub fn moved(&mut self, bytes: usize, waited: Duration) {
        let earned = Duration::from_secs_f64(bytes as f64 / self.slowest);
        self.left = self.left.saturating_sub(waited).saturating_add(earned).min(self.most);
    }
}

/// A connection whose other side must take what is written.
///
/// What it sends is no matter of this one's: between two requests it may be silent, and while it takes an answer it is.
pub(crate) struct Timed<S> {
    stream: S,
    pace: StallTimeout,
    /// Since when a write has been waiting; the timer runs meanwhile.
    since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<S> Timed<S> {
    pub fn new(stream: S, pace: StallTimeout) -> Self {
        Self { stream, pace, since: None, timer: Box::pin(tokio::time::sleep(pace.left())) }
    }

    /// Counts the bytes of a write that was tried, or the time for which it waits.
    fn count(&mut self, polled: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = polled {
            let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            self.pace.moved(*written.as_ref().unwrap_or(&0), waited);
            return Poll::Ready(written);
        }
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.timer.as_mut().reset(now + self.pace.left());
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.count(polled, context)
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
    fn silence_uses_patience_up_and_bytes_bring_it_back() {
        let mut pace = StallTimeout::new(10 * SECOND, 100);
        pace.moved(0, 4 * SECOND);
        assert_eq!(pace.left(), 6 * SECOND);
        pace.moved(200, SECOND);
        assert_eq!(pace.left(), 7 * SECOND);
        pace.moved(1_000_000, Duration::ZERO);
        assert_eq!(pace.left(), 10 * SECOND, "what was fast before earns no longer silence");
        pace.moved(0, 11 * SECOND);
        assert_eq!(pace.left(), Duration::ZERO);
    }

    #[test]
    fn who_is_as_fast_as_must_be_is_waited_for_for_ever() {
        let (mut steady, mut dripping) = (StallTimeout::new(10 * SECOND, 100), StallTimeout::new(10 * SECOND, 100));
        let mut dripped = 0;
        for _ in 0..1000 {
            steady.moved(100, SECOND);
            dripped += u32::from(dripping.left() >= SECOND);
            dripping.moved(50, SECOND);
        }
        assert_eq!((steady.left(), dripped), (10 * SECOND, 19));
    }
}
