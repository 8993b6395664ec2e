//! One connection: its requests one after the other, WebSockets, and clients that stall.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::config::ListenSection;

/// Limit of a connection's read buffer in bytes, and thereby of a request head.
const MAX_HEAD: usize = 64 << 10;

/// Settings of a connection.
#[derive(Clone)]
pub(super) struct Connection {
    router: Router,
    tls: Option<TlsAcceptor>,
    client_time: Duration,
    /// Becomes true when the server ends.
    ending: watch::Receiver<bool>,
}

impl Connection {
    pub(super) fn new(
        router: Router,
        tls: Option<TlsAcceptor>,
        listen: &ListenSection,
        ending: watch::Receiver<bool>,
    ) -> Self {
        Self { router, tls, client_time: listen.client_time(), ending }
    }

    /// Serves a connection to its end. Its errors affect this client alone.
    pub(super) async fn serve(self, stream: TcpStream) {
        // Answers are small, and clients wait for each.
        let _ = stream.set_nodelay(true);
        let stream = StallGuard::new(stream, self.client_time);
        match &self.tls {
            None => self.serve_stream(stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = timeout(self.client_time, tls.clone().accept(stream)).await {
                    self.serve_stream(stream).await;
                }
            }
        }
    }

    async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S) {
        let router = self.router.clone();
        let route = service_fn(move |request: Request<Incoming>| router.clone().oneshot(request));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.client_time).max_buf_size(MAX_HEAD);
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
}

/// A stream whose writes fail if the client takes no bytes for a while.
struct StallGuard<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write is pending.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, timer: None }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.timer = None;
            return polled;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(polled, context)
    }
}
