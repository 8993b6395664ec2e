//! Whether an answer was handed to the client's connection: an answer that was not is given again when its request is
//! repeated.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Whether an answer was handed over.
#[derive(Debug, Default)]
pub(super) struct Delivered(AtomicBool);

impl Delivered {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A body of one piece that notes when the connection takes it. A client that went away before takes nothing: the
/// connection drops the response.
pub(super) struct DeliveredBody {
    bytes: Option<Bytes>,
    delivered: Vec<Arc<Delivered>>,
}

impl DeliveredBody {
    pub(super) fn new(text: String, delivered: Vec<Arc<Delivered>>) -> Self {
        Self { bytes: Some(text.into()), delivered }
    }
}

impl HttpBody for DeliveredBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.delivered.iter().for_each(|delivered| delivered.set());
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
