//! A scripted engine behind a gateway: it speaks enough of vLLM's protocol and always gives the same reply.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::http::{Message, receive};

/// Name of its model.
pub const MODEL: &str = "tiny";
/// Context that it reports, in tokens.
const CONTEXT: usize = 1 << 20;

/// Starts the engine; it runs until the runtime ends. `tokens` are those of the reply `text`.
pub async fn start(tokens: Vec<u32>, text: &'static str) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let tokens = Arc::new(tokens);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tokens = Arc::clone(&tokens);
            // A client that leaves ends its own connection only.
            tokio::spawn(async move { serve(stream, &tokens, text).await });
        }
    });
    Ok(address)
}

async fn serve(mut stream: TcpStream, tokens: &[u32], text: &str) -> Result<()> {
    let mut buffer = vec![];
    while let Some(Message { head, body }) = receive(&mut stream, &mut buffer).await? {
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        let answer = match path {
            "/v1/models" => json!({"data": [{"id": MODEL, "max_model_len": CONTEXT}]}),
            "/v1/completions" => completion(&serde_json::from_str(&body)?, tokens),
            "/v1/chat/completions" => chat_completion(&serde_json::from_str(&body)?, tokens, text),
            _ => json!({"status": "ok"}),
        };
        let body = answer.to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
    }
    Ok(())
}

/// A continuation of token ids: the first of the reply, as many as the request allows.
fn completion(request: &Json, tokens: &[u32]) -> Json {
    let most = request["max_tokens"].as_u64().map_or(tokens.len(), |most| tokens.len().min(most as usize));
    let reason = if most == tokens.len() { "stop" } else { "length" };
    let tokens = &tokens[..most];
    let names: Vec<String> = tokens.iter().map(|token| format!("token_id:{token}")).collect();
    let log_probs = vec![-0.5; tokens.len()];
    json!({
        "id": "cmpl-1", "object": "text_completion", "model": MODEL,
        "choices": [{
            "index": 0, "text": "", "finish_reason": reason, "token_ids": tokens,
            "logprobs": {"tokens": names, "token_logprobs": log_probs},
        }],
    })
}

/// A reply to messages. The prompt's token ids, about one for each four letters, come with it as vLLM sends them.
fn chat_completion(request: &Json, tokens: &[u32], text: &str) -> Json {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let letters: usize = messages.iter().filter_map(|message| message["content"].as_str()).map(str::len).sum();
    let prompt = vec![7; letters / 4];
    let of_token = |token: &u32| json!({"token": format!("token_id:{token}"), "logprob": -0.5, "top_logprobs": []});
    let content: Vec<Json> = tokens.iter().map(of_token).collect();
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "prompt_token_ids": prompt,
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop",
            "logprobs": {"content": content}, "token_ids": tokens,
        }],
        "usage": {"prompt_tokens": prompt.len(), "completion_tokens": tokens.len(),
            "total_tokens": prompt.len() + tokens.len()},
    })
}
