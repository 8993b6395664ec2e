//! A static web server that misbehaves on selected paths.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Response to a path.
#[derive(Clone)]
pub enum Trick {
    /// Serves the file.
    None,
    /// Serves other bytes.
    Other(Vec<u8>),
    /// Sends these bytes as the whole response, with its head.
    Raw(Vec<u8>),
    /// Redirects.
    Redirect(String),
    /// Sends an endless body without a length.
    Endless,
    /// Declares an excessive length.
    Oversize,
    /// Closes the connection in the middle of the body.
    Truncated,
    /// Sends single bytes with pauses.
    Slow,
    /// Responds with status 503.
    Broken,
}

/// A whole response with these header lines.
pub fn raw(status: &str, headers: &str, body: &str) -> Trick {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    Trick::Raw(format!("{head}{body}").into_bytes())
}

/// Serves a folder; `tricks` selects the response to a path.
pub async fn serve(folder: &Path, tricks: impl Fn(&str) -> Trick + Send + Sync + 'static) -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has one");
    let (folder, tricks, heard) = (folder.to_owned(), Arc::new(tricks), Heard::default());
    let written = heard.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (folder, tricks, heard) = (folder.clone(), Arc::clone(&tricks), written.clone());
            tokio::spawn(async move { answer(stream, &folder, &*tricks, &heard).await });
        }
    });
    (address, heard)
}

/// Received requests.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panics here").clone()
    }
}

async fn answer(mut stream: TcpStream, folder: &Path, tricks: &(dyn Fn(&str) -> Trick + Send + Sync), heard: &Heard) {
    let mut bytes = vec![0; 16 << 10];
    let count = stream.read(&mut bytes).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&bytes[..count]).into_owned();
    heard.0.lock().expect("no test panics here").push(request.clone());
    let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let file: PathBuf = folder.join(path.split('?').next().unwrap_or_default());
    let content = std::fs::read(&file);
    let head = |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let sent = match (tricks(&path), content) {
        (Trick::Other(bytes), _) => stream.write_all(&[head(bytes.len()).as_bytes(), &bytes].concat()).await,
        (Trick::Raw(bytes), _) => stream.write_all(&bytes).await,
        (Trick::Redirect(to), _) => {
            let head =
                format!("HTTP/1.1 302 SearchHit\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await
        }
        (Trick::Endless, _) => {
            let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
            while sent.is_ok() {
                sent = stream.write_all(&[0; 4096]).await;
            }
            sent
        }
        (Trick::Oversize, _) => stream.write_all(head(usize::MAX >> 8).as_bytes()).await,
        (Trick::Truncated, Ok(bytes)) => {
            stream.write_all(&[head(bytes.len()).as_bytes(), &bytes[..bytes.len() / 2]].concat()).await
        }
        (Trick::Slow, Ok(bytes)) => {
            let mut sent = stream.write_all(head(bytes.len()).as_bytes()).await;
            for byte in bytes {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if sent.is_err() {
                    break;
                }
                sent = stream.write_all(&[byte]).await;
            }
            sent
        }
        (Trick::Broken, _) => {
            stream
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
        }
        (Trick::None, Ok(bytes)) => stream.write_all(&[head(bytes.len()).as_bytes(), &bytes].concat()).await,
        (_, Err(_)) => {
            stream.write_all(b"HTTP/1.1 404 Not SearchHit\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await
        }
    };
    // The client may have closed the connection.
    drop(sent);
    let _ = stream.shutdown().await;
}
