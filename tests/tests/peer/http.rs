//! Requests and answers on a connection.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads one request.
pub async fn request(stream: &mut TcpStream) -> Option<(String, Value, Option<String>)> {
    let mut bytes = vec![];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let path = head.split(' ').nth(1)?.to_owned();
                let key = head.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned);
                return Some((path, serde_json::from_str(body).unwrap_or(Value::Null), key));
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Writes an answer, or its first bytes.
pub async fn write(stream: &mut TcpStream, status: u16, headers: &str, body: &str, only: Option<usize>) {
    let head = format!("HTTP/1.1 {status} S\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
    let body = &body.as_bytes()[..only.unwrap_or(body.len()).min(body.len())];
    // The client may have disconnected.
    let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
    let _ = stream.shutdown().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
}
