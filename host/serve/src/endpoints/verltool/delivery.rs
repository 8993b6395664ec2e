//! Whether an answer was handed to the client's connection: an answer that was not is given again when its request is
//! repeated.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Whether an answer was handed over. Its turn is then forgotten.
pub(super) struct Delivered {
    is_set: AtomicBool,
    turns: Weak<dyn Turns>,
}

/// Turns that are kept until their answers are handed over.
pub(super) trait Turns: Send + Sync {
    /// Forgets the last turn if its answer is this one.
    fn forget(&self, delivered: &Delivered);
}

impl Delivered {
    /// The answer to one of these turns, which was not handed over.
    pub(super) fn of(turns: Weak<dyn Turns>) -> Self {
        Self { is_set: AtomicBool::new(false), turns }
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        if let Some(turns) = self.turns.upgrade() {
            turns.forget(self);
        }
    }
}

impl fmt::Debug for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Delivered").field(&self.is_set()).finish()
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
