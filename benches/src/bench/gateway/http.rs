//! Messages of HTTP/1.1 on kept connections, with a length and no compression: what the bench's own clients and engine need.

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A request or an answer.
pub struct Message {
    /// First line and headers, in lower case but for the first line.
    pub head: String,
    /// The body.
    pub body: String,
}

/// Reads one message; `None` if the connection ends before it. `buffer` keeps what belongs to the next one.
pub async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<Message>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = std::str::from_utf8(&buffer[..end])?;
            let lower = head.to_lowercase();
            let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let length = length.map_or(Ok(0), str::parse::<usize>).context("a length")?;
            if buffer.len() >= end + 4 + length {
                let rest = buffer.split_off(end + 4 + length);
                let body = String::from_utf8(buffer.split_off(end + 4))?;
                let head = String::from_utf8(std::mem::replace(buffer, rest))?;
                return Ok(Some(Message { head, body }));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            ensure!(buffer.is_empty(), "the connection ended within a message");
            return Ok(None);
        }
    }
}
