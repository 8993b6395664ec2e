//! `--metrics ADDRESS`: a page for Prometheus, served on one address while the run lasts.
//!
//! The server answers one request per connection and then closes it. A client can hold a connection and a few
//! kilobytes for at most [`TIMEOUT`]. [`MAX_CONNECTIONS`] are served concurrently; others wait in the listen queue.

mod exposition;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use exposition::exposition;

use crate::error::{Classify, RunResult};

/// Timeout of a connection.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a request in bytes.
const REQUEST: usize = 8 << 10;

/// Bytes of an oversized request that are read and discarded, so that the client receives the response.
const DISCARDED: u64 = 256 << 10;

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 16;

/// Pause after the system refused to accept, for example because of exhausted file handles.
const PAUSE: Duration = Duration::from_millis(100);

/// Renders the page; called for every request.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// A bound port, before it is served.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the address.
    pub async fn bind(address: SocketAddr) -> RunResult<Self> {
        let taken = || format!("--metrics {address} cannot be bound\nhint: use a local address and a free port");
        let listener = TcpListener::bind(address).await.user_context(taken())?;
        let address = listener.local_addr().user_context(taken())?;
        Ok(Self { listener, address })
    }

    /// URL of the page, with the port that the system chose for port 0.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Serves the page until the future is dropped.
    pub async fn serve(self, page: Page) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let page = Arc::clone(&page);
                    connections.spawn(async move {
                        // A client that disconnects or times out affects only itself.
                        let _ = tokio::time::timeout(TIMEOUT, answer(stream, &page)).await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Reads and answers one request.
async fn answer(mut stream: TcpStream, page: &Page) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    stream.write_all(&respond(head.as_deref(), page)).await?;
    stream.shutdown().await?;
    // Closing a socket with unread bytes would reset the connection and discard the response.
    tokio::io::copy(&mut stream.take(DISCARDED), &mut tokio::io::sink()).await?;
    Ok(())
}

/// The head of a request, up to the empty line; `None` if it exceeds the limit.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= REQUEST {
            return Ok(None);
        }
        let rest = (REQUEST - head.len()) as u64;
        if (&mut *stream).take(rest).read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(head))
}

/// The response to a request.
fn respond(head: Option<&[u8]>, page: &Page) -> Vec<u8> {
    let request = head.map(request_line);
    let (status, body) = match request {
        None => ("431 Request Header Fields Too Large", "the request is too large\n".to_owned()),
        Some(None) => ("400 Bad Request", "not an HTTP request\n".to_owned()),
        Some(Some(("GET" | "HEAD", path))) if path.split('?').next() == Some("/metrics") => ("200 OK", page()),
        Some(Some(("GET" | "HEAD", _))) => ("404 Not Found", "not found: the page is /metrics\n".to_owned()),
        Some(Some(_)) => ("405 Method Not Allowed\r\nallow: GET, HEAD", "method not allowed: use GET\n".to_owned()),
    };
    let (kind, length) = (exposition::CONTENT_TYPE, body.len());
    let mut response = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n");
    response.push_str("connection: close\r\n\r\n");
    if !matches!(request, Some(Some(("HEAD", _)))) {
        response.push_str(&body);
    }
    response.into_bytes()
}

/// Method and path of a request line; `None` if it is not HTTP/1.
fn request_line(head: &[u8]) -> Option<(&str, &str)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let sound = words.next().is_none() && version.starts_with("HTTP/1.") && path.starts_with('/');
    sound.then_some((method, path))
}

#[cfg(test)]
mod tests;
