//! A server with OpenAI's protocol that waits before each answer, as a model on another machine does.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Starts the server on the current runtime.
pub async fn serve(pause: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A client that leaves ends its connection with an error.
            tokio::spawn(async move { drop(answer(connection, pause).await) });
        }
    });
    Ok(address)
}

/// Answers the requests of a connection.
async fn answer(connection: TcpStream, pause: Duration) -> Result<()> {
    let mut connection = BufReader::new(connection);
    let body = json!({
        "id": "1", "object": "chat.completion", "created": 0, "model": "guest",
        "choices": [{
            "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "What would you like to know?" },
        }],
        "usage": { "prompt_tokens": 8, "completion_tokens": 8, "total_tokens": 16 },
    })
    .to_string();
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut line = String::new();
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if connection.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        connection.read_exact(&mut vec![0; length]).await?;
        tokio::time::sleep(pause).await;
        connection.write_all(answer.as_bytes()).await?;
    }
}
