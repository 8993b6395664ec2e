//! A request body that reports its progress, so that the sender can detect a stalled upload.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Frame size in bytes, the resolution of the progress.
const FRAME: usize = 16 << 10;

/// A request body with a counter of sent bytes.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    remaining: Bytes,
    length: u64,
    sent: Arc<AtomicU64>,
}

impl Upload {
    /// Body with this content.
    pub fn new(body: &Bytes) -> Self {
        Self { remaining: body.clone(), length: body.len() as u64, sent: Arc::default() }
    }

    /// Total length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Number of bytes handed to the connection.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.remaining.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.remaining.len().min(FRAME);
        let frame = self.remaining.split_to(length);
        self.sent.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining.len() as u64)
    }
}
