//! A model server on loopback with computed answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Body of a request, which may arrive in several pieces.
async fn body_of(stream: &mut TcpStream) -> Option<Json> {
    let mut bytes = Vec::new();
    loop {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4);
        if let Some(body) = head.and_then(|head| serde_json::from_slice(&bytes[head..]).ok()) {
            return Some(body);
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Starts a model server on loopback. Returns its port and its number of requests.
pub async fn serve(answer: fn(&Json) -> String) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(request) = body_of(&mut stream).await else { continue };
            counted.fetch_add(1, Ordering::SeqCst);
            let body = json!({
                "choices": [{ "message": { "content": answer(&request) }, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 90, "completion_tokens": 6 },
            })
            .to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    (port, asked)
}
