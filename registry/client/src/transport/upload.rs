//! A body on its way out that tells how much of it has gone, so that whoever sends it sees whether anything moves.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// How much is handed on at once, in bytes: so fine is it seen.
const PIECE: usize = 16 << 10;

/// A body on its way out, and how much of it has gone.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    left: Bytes,
    length: u64,
    gone: Arc<AtomicU64>,
}

impl Upload {
    /// Of these bytes.
    pub fn of(body: &Bytes) -> Self {
        Self { left: body.clone(), length: body.len() as u64, gone: Arc::default() }
    }

    /// The whole, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What has gone of it, in bytes.
    pub fn gone(&self) -> u64 {
        self.gone.load(Ordering::Relaxed)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.left.len().min(PIECE);
        let piece = self.left.split_to(length);
        self.gone.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
