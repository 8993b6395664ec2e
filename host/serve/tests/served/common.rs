//! A listening server over first-party plugins, and a client that writes requests by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use gymkhana_orchestration::plugins::{pin, read_file};
use gymkhana_orchestration::{Reporter, Silent};
use gymkhana_sandbox::GuestThreads;
use gymkhana_serve::catalog::Catalog;
use gymkhana_serve::config::ServeFile;
use gymkhana_serve::records::{Records, Recovered};
use gymkhana_serve::server::Server;
use gymkhana_serve::session::SessionTable;
use gymkhana_tests::component;
use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Few instances, since each test has a sandbox; a configuration with a section of its own sets them itself.
const INSTANCES: &str = "\n[sandbox]\ninstances = 48\nbudget_seconds = 0.5\n";

/// A running server with records in `folder`.
pub struct Served {
    pub address: SocketAddr,
    pub sessions: SessionTable,
    pub recovered: Recovered,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    guests: GuestThreads,
}

/// Starts a server with these plugins, without records.
pub async fn serve(plugins: &[&str], config: &str) -> Served {
    serve_in(None, plugins, config).await
}

/// Starts a server with these plugins and records in a folder.
pub async fn serve_in(folder: Option<&TempDir>, plugins: &[&str], config: &str) -> Served {
    let sandbox = if config.contains("[sandbox]") { "" } else { INSTANCES };
    let config = ServeFile::parse(&format!("{config}{sandbox}"), "serve.toml").unwrap();
    let files = plugins.iter().map(|name| read_file(&component(name)).unwrap()).collect();
    let (files, _) = pin(files).unwrap();
    let reporter: Arc<dyn Reporter> = Arc::new(Silent);
    let catalog = Catalog::load(&config, ".".as_ref(), files, &reporter).await.unwrap();
    let (records, recovered) = match folder {
        Some(folder) => Records::open(folder.path(), &catalog, Box::new(|_| {})).await.unwrap(),
        None => (Records::none(), Recovered::default()),
    };
    let guests = GuestThreads::start_with(2).unwrap();
    let sessions = SessionTable::new(catalog, &config, Arc::new(records), guests.handle().clone());
    let server = Server::start(sessions.clone(), &config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));
    Served { address, sessions, recovered, stop, serving, guests }
}

impl Served {
    /// Ends the server in order.
    pub async fn stop(self) {
        let Self { stop, serving, sessions, guests, .. } = self;
        stop.send(()).unwrap();
        serving.await.unwrap();
        drop(sessions);
        tokio::task::spawn_blocking(move || drop(guests)).await.unwrap();
    }

    /// Ends the server without a word, as a kill would.
    pub async fn abandon(self) {
        let Self { serving, sessions, guests, .. } = self;
        serving.abort();
        let _ = serving.await;
        drop(sessions);
        tokio::task::spawn_blocking(move || drop(guests)).await.unwrap();
    }

    /// Sends a request of VerlTool's client for one trajectory.
    pub async fn observe(&self, trajectory: &str, action: &str, extra: Json) -> Json {
        let body = verltool_body(trajectory, action, extra);
        let (status, answer) = post(self.address, "/get_observation", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

/// The body that VerlTool's client sends for a turn.
#[allow(clippy::needless_pass_by_value, reason = "callers write `json!`")]
pub fn verltool_body(trajectory: &str, action: &str, extra: Json) -> String {
    serde_json::json!({
        "trajectory_ids": [trajectory], "actions": [action], "finish": [false], "is_last_step": [false],
        "extra_fields": [extra],
    })
    .to_string()
}

/// The head of a message of MCP, as clients of both revisions send it. `more` holds further lines.
pub fn mcp_head(path: &str, length: usize, more: &str) -> String {
    let kinds = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    head("POST", path, length, &format!("{kinds}{more}"))
}

/// Sends a request of MCP by revision 2025-11-25, with these further lines in its head.
#[allow(clippy::needless_pass_by_value, reason = "callers write `json!`")]
pub async fn mcp(address: SocketAddr, path: &str, more: &str, method: &str, params: Json) -> (u16, Json) {
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let head = mcp_head(path, body.len(), &format!("mcp-protocol-version: 2025-11-25\r\n{more}"));
    request(address, &head, body.as_bytes()).await
}

/// Posts JSON; returns the status and the answer.
pub async fn post(address: SocketAddr, path: &str, body: &str) -> (u16, Json) {
    request(address, &head("POST", path, body.len(), ""), body.as_bytes()).await
}

/// The head of a request; `more` holds further lines, each with its end.
pub fn head(method: &str, path: &str, length: usize, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n"
    )
}

/// Sends bytes as a request of a connection of its own.
pub async fn request(address: SocketAddr, head: &str, body: &[u8]) -> (u16, Json) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses the head may close the connection before the body.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| Json::from(body)))
}

/// Settings with a client of each letter, whose token is the letter sixteen times. No other test may use the letters.
pub fn clients(letters: &[&str]) -> String {
    let section = |letter: &&str| {
        let variable = format!("GYMKHANA_TEST_TOKEN_{}", letter.to_uppercase());
        // The variable is this test's own; no other thread reads or sets it.
        unsafe { std::env::set_var(&variable, letter.repeat(16)) };
        format!("[clients.{letter}]\ntoken_env = \"{variable}\"\n")
    };
    letters.iter().map(section).collect()
}
