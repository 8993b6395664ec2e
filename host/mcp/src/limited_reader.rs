//! The output of a server's process, bounded in bytes between two requests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that a server may still send.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowance {
    left: Arc<AtomicUsize>,
    exceeded: Arc<AtomicBool>,
}

impl Allowance {
    /// Permits this number of bytes from now on.
    pub(crate) fn renew(&self, bytes: usize) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// Whether the server sent more than it may.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// Takes bytes off; `false` if it has fewer.
    fn take(&self, bytes: usize) -> bool {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if taken.is_err() {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

/// A reader that fails when the allowance is used up.
pub(crate) struct LimitedReader<R> {
    reader: R,
    allowance: Allowance,
}

impl<R> LimitedReader<R> {
    pub(crate) fn new(reader: R, allowance: Allowance) -> Self {
        Self { reader, allowance }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LimitedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.reader).poll_read(context, buffer) {
            Poll::Ready(Ok(())) if !self.allowance.take(buffer.filled().len() - before) => {
                Poll::Ready(Err(io::Error::other("the server sent more than it may")))
            }
            other => other,
        }
    }
}
