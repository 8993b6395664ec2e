//! A server of the two endpoints with first-party plugins, and clients that write requests by hand.

use std::sync::Arc;

use axum::Extension;
use futures::{SinkExt, StreamExt};
use gymkhana_orchestration::plugins::{pin, read_file};
use gymkhana_orchestration::{Reporter, Silent};
use gymkhana_sandbox::GuestThreads;
use gymkhana_tests::component;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::catalog::Catalog;
use crate::config::ServeFile;
use crate::endpoints::{openenv, ors, tasks};
use crate::records::Records;
use crate::session::SessionTable;
use gymkhana_http::Client;

/// Few instances, since each test has a sandbox.
const CONFIG: &str = "[environments.frozen-lake]\noptions = { slippery = true }\n[sandbox]\ninstances = 24\n";

/// A running server.
pub(super) struct Server {
    pub(super) address: String,
    guests: GuestThreads,
}

impl Server {
    /// Starts a server with slippery ice and a calculator.
    pub(super) async fn start() -> Self {
        let config = ServeFile::parse(CONFIG, "serve.toml").unwrap();
        let files = ["frozen-lake", "calculator"].map(|name| read_file(&component(name)).unwrap());
        let (files, _) = pin(files.into()).unwrap();
        let reporter: Arc<dyn Reporter> = Arc::new(Silent);
        let catalog = Catalog::load(&config, ".".as_ref(), files, &reporter).await.unwrap();
        let guests = GuestThreads::start().unwrap();
        let sessions = SessionTable::new(catalog, &config, Arc::new(Records::none()), guests.handle().clone());
        let routes = tasks::router(&sessions)
            .merge(openenv::router(&sessions))
            .merge(ors::router(&sessions))
            .route("/mcp", openenv::mcp(&sessions))
            .layer(Extension(Client::anyone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, guests }
    }

    /// Ends the threads of plugins, which a runtime must not drop.
    pub(super) async fn stop(self) {
        tokio::task::spawn_blocking(move || drop(self.guests)).await.unwrap();
    }

    /// Connects to a WebSocket.
    pub(super) async fn connect(&self, path: &str) -> Socket {
        let (socket, _) = connect_async(format!("ws://{}{path}", self.address)).await.unwrap();
        Socket(socket)
    }

    /// Posts a body; returns the status and the answer.
    pub(super) async fn post(&self, path: &str, session: &str, body: &str) -> (u16, String) {
        self.request("POST", path, session, body).await
    }

    /// Sends a request with a session's id.
    pub(super) async fn request(&self, method: &str, path: &str, session: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: test\r\nx-session-id: {session}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The event `end` or `error` of a call.
    pub(super) async fn called(&self, session: &str, body: &Json) -> Json {
        let (status, stream) = self.post("/call", session, &body.to_string()).await;
        assert_eq!(status, 200, "{stream}");
        let data: String = stream.lines().filter_map(|line| line.strip_prefix("data: ")).skip(1).collect();
        serde_json::from_str(&data).unwrap_or_else(|_| json!(data))
    }
}

/// A client of a WebSocket.
pub(super) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    /// Sends text and reads the answer.
    pub(super) async fn ask(&mut self, text: &str) -> Json {
        self.0.send(Message::Text(text.into())).await.unwrap();
        let answer = self.0.next().await.unwrap().unwrap();
        serde_json::from_str(answer.to_text().unwrap()).unwrap()
    }

    /// Sends a message with data.
    pub(super) async fn send(&mut self, kind: &str, data: Json) -> Json {
        self.ask(&json!({ "type": kind, "data": data }).to_string()).await
    }
}
