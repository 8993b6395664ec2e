//! `host gateway` beside the gateway of rLLM, each as a process of its own in front of the same scripted engine.
//!
//! The time is the CPU time of the gateway's process. Both keep the tokens of every reply. Ours renders the messages, sends
//! token ids and writes records to a folder; rLLM's passes the messages on, for the engine to render, and keeps traces in
//! memory.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{print_in, root};
use gymkhana_chat::ChatFormat;
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::super::rollouts::processor_seconds_of;
use super::http::{Message, receive};
use super::{QUESTION, REPLY, REQUESTS, engine};

/// Sessions that ask concurrently. rLLM's gateway holds at most 500 connections to its engine, 100 of them kept.
const SESSIONS: usize = 100;
/// Rounds of each gateway, in turn; the median counts.
const ROUNDS: usize = 3;
/// Time that a gateway has to start.
const START: Duration = Duration::from_secs(60);

/// Runs the comparison.
pub async fn run(chat: &ChatFormat, effort: Effort) -> Result<()> {
    let (sessions, rounds) = (effort.pick(SESSIONS, 4), effort.pick(ROUNDS, 1));
    let reply = chat.encode_reply(&[gymkhana_chat::ReplyPiece::Plain(REPLY)])?;
    let engine = engine::start(reply, REPLY).await?;
    let folder = tempfile::tempdir()?;
    let own = Process::own(folder.path(), engine, sessions).await?;
    let other = Process::of_rllm(engine).await?;
    let (mut of_own, mut of_other) = (vec![], vec![]);
    for round in 0..=rounds {
        for (process, times) in [(&own, &mut of_own), (&other, &mut of_other)] {
            let before = processor_seconds_of(process.child.id())?;
            try_join_all((0..sessions).map(|session| process.converse(round * sessions + session))).await?;
            times.push((processor_seconds_of(process.child.id())? - before) * 1e6 / (sessions * REQUESTS) as f64);
        }
    }
    // The first round starts threads, connections and caches.
    let median = |times: &mut Vec<f64>| {
        times.remove(0);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    print_in("µs", "gateway-process-request-cpu", median(&mut of_own), "rLLM's gateway", median(&mut of_other));
    Ok(())
}

/// A gateway that runs; it is killed at the end.
struct Process {
    child: Child,
    address: SocketAddr,
    is_own: bool,
}

impl Process {
    /// `host gateway` with a folder for records.
    async fn own(folder: &Path, engine: SocketAddr, sessions: usize) -> Result<Self> {
        let model = folder.join("model");
        std::fs::create_dir(&model)?;
        for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
            std::fs::copy(root().join("tests/golden/chat").join(name), model.join(name))?;
        }
        let name = engine::MODEL;
        let file = format!(
            "[limits]\nturns = 1000\nreply_tokens = 1000\n[policy]\ncheckpoint = \"model\"\n\
             server = {{ url = \"http://{engine}\", protocol = \"vllm\", name = \"{name}\", requests = {sessions} }}\n\
             [gateway]\nsessions = {sessions}\n"
        );
        std::fs::write(folder.join("gateway.toml"), file)?;
        let address = free_address()?;
        let mut command = Command::new(root().join("target/release/host"));
        command.args(["gateway", "gateway.toml", "--out", "records", "--listen", &address.to_string()]);
        Self::start(command.current_dir(folder), address, true).await
    }

    async fn of_rllm(engine: SocketAddr) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(root().join(".tools/rllm/bin/python"));
        command.args(["-m", "rllm_model_gateway", "--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--worker", &format!("http://{engine}/v1"), "--store", "memory", "--log-level", "ERROR"]);
        Self::start(&mut command, address, false).await
    }

    async fn start(command: &mut Command, address: SocketAddr, is_own: bool) -> Result<Self> {
        let program = format!("{:?}", command.get_program());
        let child = command.stdout(Stdio::null()).spawn();
        let mut process = Self { child: child.with_context(|| format!("{program} starts"))?, address, is_own };
        let since = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            ensure!(process.child.try_wait()?.is_none(), "{program} ended");
            ensure!(since.elapsed() < START, "{program} does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(process)
    }

    /// One program: a session whose history grows, over one connection.
    async fn converse(&self, number: usize) -> Result<()> {
        let mut client = Client { stream: TcpStream::connect(self.address).await?, buffer: vec![] };
        let (path, key, close) = if self.is_own {
            let session = client.ask("/sessions", "", &json!({})).await?;
            let text = |name: &str| session[name].as_str().context("a session").map(str::to_owned);
            let url = text("base_url")?;
            let path = url.split_once(&self.address.to_string()).context("its address")?.1.to_owned();
            (path, text("api_key")?, Some(format!("/sessions/{}/close", text("id")?)))
        } else {
            (format!("/sessions/{number}/v1"), "none".to_owned(), None)
        };
        let mut messages: Vec<Json> = vec![];
        for _ in 0..REQUESTS {
            messages.push(json!({"role": "user", "content": QUESTION}));
            let model = if self.is_own { "policy" } else { engine::MODEL };
            let body = json!({"model": model, "messages": messages});
            let answer = client.ask(&format!("{path}/chat/completions"), &key, &body).await?;
            let said = &answer["choices"][0]["message"]["content"];
            ensure!(said.as_str() == Some(REPLY), "the reply is {answer}");
            messages.push(json!({"role": "assistant", "content": REPLY}));
        }
        if let Some(close) = close {
            client.ask(&close, "", &json!({})).await?;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port on loopback.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// A kept connection.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    async fn ask(&mut self, path: &str, key: &str, body: &Json) -> Result<Json> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all((head + &body).as_bytes()).await?;
        let answer = receive(&mut self.stream, &mut self.buffer).await?;
        let Message { head, body } = answer.context("the gateway closed the connection")?;
        let is_good = head.split_whitespace().nth(1).is_some_and(|status| status.starts_with('2'));
        ensure!(is_good, "{path}: {head}\n{body}");
        Ok(serde_json::from_str(&body)?)
    }
}
