//! `--metrics ADDRESS`: a page for Prometheus, served while the run lasts, where the user says and nowhere else.
//!
//! One request a connection, answered and closed. A client can hold no more than a connection and a few kilobytes, for
//! no longer than [`PATIENCE`]; so many are served side by side, and others wait in the system's queue.

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

/// How long one connection may last.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many bytes a request may have.
const REQUEST: usize = 8 << 10;

/// How much is read and thrown away of a client that sends more than that, so that it hears the answer.
const THROWN_AWAY: u64 = 256 << 10;

/// How many connections are served side by side.
const SIDE_BY_SIDE: usize = 16;

/// After the system has refused a connection, such as for want of file handles.
const PAUSE: Duration = Duration::from_millis(100);

/// What the page shows, made anew for every request.
pub type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// A port that is listened on, before anything is served.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes the address.
    pub async fn bind(address: SocketAddr) -> RunResult<Self> {
        let told =
            || format!("--metrics {address} cannot be listened on; give an address of this machine and a free port");
        let listener = TcpListener::bind(address).await.user_context(told())?;
        let address = listener.local_addr().user_context(told())?;
        Ok(Self { listener, address })
    }

    /// Where the page is; the port is the one that the system chose if 0 was asked for.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Serves the page until this is dropped.
    pub async fn serve(self, page: Page) {
        let room = Arc::new(Semaphore::new(SIDE_BY_SIDE));
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let page = Arc::clone(&page);
                    connections.spawn(async move {
                        // A client that goes away or is too slow has done harm to itself alone.
                        let _ = tokio::time::timeout(PATIENCE, answer(stream, &page)).await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Reads one request and answers it.
async fn answer(mut stream: TcpStream, page: &Page) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    stream.write_all(&respond(head.as_deref(), page)).await?;
    stream.shutdown().await?;
    // Closing a connection whose bytes were not read would make the system take the answer back.
    tokio::io::copy(&mut stream.take(THROWN_AWAY), &mut tokio::io::sink()).await?;
    Ok(())
}

/// A request up to the empty line; none if it is too long.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= REQUEST {
            return Ok(None);
        }
        let room = (REQUEST - head.len()) as u64;
        if (&mut *stream).take(room).read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(head))
}

/// The whole response to a request.
fn respond(head: Option<&[u8]>, page: &Page) -> Vec<u8> {
    let request = head.map(request_line);
    let (status, body) = match request {
        None => ("431 Request Header Fields Too Large", "the request is too long\n".to_owned()),
        Some(None) => ("400 Bad Request", "this is no HTTP request\n".to_owned()),
        Some(Some(("GET" | "HEAD", path))) if path.split('?').next() == Some("/metrics") => ("200 OK", page()),
        Some(Some(("GET" | "HEAD", _))) => ("404 Not Found", "the page is /metrics\n".to_owned()),
        Some(Some(_)) => ("405 Method Not Allowed\r\nallow: GET, HEAD", "ask with GET\n".to_owned()),
    };
    let (kind, length) = (exposition::CONTENT_TYPE, body.len());
    let mut response = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n");
    response.push_str("connection: close\r\n\r\n");
    if !matches!(request, Some(Some(("HEAD", _)))) {
        response.push_str(&body);
    }
    response.into_bytes()
}

/// Method and path of a request; none if it does not begin as one of HTTP/1 does.
fn request_line(head: &[u8]) -> Option<(&str, &str)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let sound = words.next().is_none() && version.starts_with("HTTP/1.") && path.starts_with('/');
    sound.then_some((method, path))
}

#[cfg(test)]
mod tests;
