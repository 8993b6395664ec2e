//! One connection: its requests one after the other, its deadlines, and its end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::address::Peer;
use crate::host_name::WrongHost;
use crate::server::HttpServer;

use super::arriving::Arriving;
use super::limits::ConnectionLimits;
use super::pace::Pace;
use super::places::{ConnectionPlace, Occupied};
use super::stall::TimedStream;

/// What all connections of a listener share.
pub(crate) struct ConnectionSettings {
    server: HttpServer,
    limits: ConnectionLimits,
    pace: Arc<Pace>,
    refused: Pace,
    /// Becomes true when the server ends.
    ending: watch::Receiver<bool>,
}

impl ConnectionSettings {
    pub fn new(server: HttpServer, limits: ConnectionLimits, pace: Arc<Pace>, ending: watch::Receiver<bool>) -> Self {
        Self { server, limits, pace, refused: Pace::of_refused(limits.pace), ending }
    }

    /// Serves a connection to its end. Its errors affect this client alone.
    pub async fn serve(&self, stream: TcpStream, peer: Peer, occupied: Occupied) {
        // Answers are small, and clients wait for each.
        let _ = stream.set_nodelay(true);
        let place = Arc::clone(occupied.place());
        let stream = TimedStream::new(stream, self.limits.stall, occupied);
        tokio::select! {
            () = self.serve_secured(stream, peer, &place) => {}
            () = place.leaves() => {}
        }
    }

    #[cfg(feature = "tls")]
    async fn serve_secured(&self, stream: TimedStream<TcpStream>, peer: Peer, place: &Arc<ConnectionPlace>) {
        let Some(tls) = &self.server.tls else { return self.serve_stream(stream, peer, place).await };
        if let Ok(Ok(stream)) =
            gymkhana_waits::within(gymkhana_waits::Counterpart::Client, self.limits.head_time, tls.accept(stream)).await
        {
            self.serve_stream(stream, peer, place).await;
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn serve_secured(&self, stream: TimedStream<TcpStream>, peer: Peer, place: &Arc<ConnectionPlace>) {
        self.serve_stream(stream, peer, place).await;
    }

    async fn serve_stream<S>(&self, stream: S, peer: Peer, place: &Arc<ConnectionPlace>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let route = service_fn(|request| self.answer(request, peer, place));
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time)
            .max_buf_size(self.limits.head_bytes);
        let served = builder.serve_connection(TokioIo::new(stream), route).with_upgrades();
        let mut served = std::pin::pin!(served);
        let mut ending = self.ending.clone();
        tokio::select! {
            _ = &mut served => return,
            _ = ending.wait_for(|ends| *ends) => {}
        }
        served.as_mut().graceful_shutdown();
        let _ = served.await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        place: &Arc<ConnectionPlace>,
    ) -> Result<Response, Infallible> {
        if !place.begin() {
            let closing = (StatusCode::SERVICE_UNAVAILABLE, [(CONNECTION, "close")], "too many connections\n");
            return Ok(closing.into_response());
        }
        self.pace.keep().await;
        let mut busy = Busy { place: Arc::clone(place), is_over: true };
        let (mut head, body) = request.into_parts();
        let response = match self.server.hosts.check(&head) {
            Ok(()) => {
                head.extensions.insert(peer);
                // An upload of a known client keeps its place while it waits; a wrong token is refused at once.
                let body = match head.headers.contains_key(AUTHORIZATION) {
                    true => Body::new(body),
                    false => Body::new(Arriving::new(body, place)),
                };
                route(self.server.router.clone(), Request::from_parts(head, body)).await
            }
            Err(wrong) => {
                let (status, message) = refusal(wrong);
                let mut response = (self.server.refuse)(head.uri.path(), status, message);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
        };
        if is_refusal(response.status()) {
            // A waiting connection counts as idle: others can take its place.
            drop(busy);
            self.refused.keep().await;
            return Ok(response);
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // A WebSocket is busy until it closes.
            busy.is_over = false;
            return Ok(response);
        }
        Ok(response.map(|body| Body::new(AnswerBody { body, _busy: busy })))
    }
}

async fn route(router: Router, request: Request<Body>) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(impossible) => match impossible {},
    }
}

fn refusal(wrong: WrongHost) -> (StatusCode, &'static str) {
    match wrong {
        WrongHost::Malformed => (StatusCode::BAD_REQUEST, "the request has no `Host` header, or more than one"),
        WrongHost::Foreign => {
            (StatusCode::FORBIDDEN, "the request's `Host` is not this machine\nhint: use the address that was printed")
        }
    }
}

fn is_refusal(status: StatusCode) -> bool {
    [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&status)
}

/// A request in progress.
struct Busy {
    place: Arc<ConnectionPlace>,
    /// Whether the connection waits for another request behind this one.
    is_over: bool,
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.is_over {
            self.place.end();
        }
    }
}

/// The body of an answer; its request ends with it.
struct AnswerBody {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
