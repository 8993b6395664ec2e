//! Bodies of requests without a token as they arrive: a connection that waits for a part of one can be closed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::places::ConnectionPlace;

/// The body of a request. While the server waits for its client, the connection can be closed for another one.
pub(super) struct Arriving {
    body: Incoming,
    place: Arc<ConnectionPlace>,
    waits: bool,
}

/// A body does not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotArrived {
    /// The connection ended, or the body is malformed.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// The connection is being closed for another one.
    #[error("the connection was closed for others, since it waited")]
    Left,
}

impl Arriving {
    pub(super) fn new(body: Incoming, place: &Arc<ConnectionPlace>) -> Self {
        Self { body, place: Arc::clone(place), waits: false }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = NotArrived;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotArrived>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if !self.waits {
                self.waits = true;
                self.place.end();
            }
            return Poll::Pending;
        };
        if self.waits {
            self.waits = false;
            if !self.place.begin() {
                return Poll::Ready(Some(Err(NotArrived::Left)));
            }
        }
        Poll::Ready(frame.map(|frame| Ok(frame?)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if self.waits {
            // The request goes on without the rest, unless the connection is being closed.
            self.place.begin();
        }
    }
}
