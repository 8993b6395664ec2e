//! Limits that keep one client from blocking others.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Made, Shop, reqwest_client};
use gymkhana_registry_server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Requests the checkpoint with these headers and returns the status.
async fn ask(address: SocketAddr, headers: &[(&str, &str)]) -> u16 {
    let request = reqwest_client().get(format!("http://{address}/checkpoint.json"));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.expect("an answer").status().as_u16()
}

/// Yanks a missing version and returns the status.
async fn change(address: SocketAddr, token: &str) -> u16 {
    let body = r#"{"name":"acme/adder","version":"9.9.9","yanked":true}"#;
    let request = reqwest_client().put(format!("http://{address}/yank")).bearer_auth(token).body(body);
    request.send().await.expect("an answer").status().as_u16()
}

fn few() -> ServerLimits {
    ServerLimits { request_burst: 3.0, requests_per_second: 0.0, ..ServerLimits::default() }
}

#[tokio::test]
async fn request_burst_is_limited() {
    let shop = Shop::new();
    let address = shop.serve_within(few()).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(address, &[]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

/// Guessing tokens does not lock out valid tokens of the same address.
#[tokio::test]
async fn invalid_tokens_limit_anonymous_clients_only() {
    let shop = Shop::new();
    let token = shop.token(&["acme"]);
    let address = shop.serve_within(ServerLimits { invalid_token_burst: 2.0, ..ServerLimits::default() }).await;
    let wrong = format!("gymkhana_{}", "0".repeat(64));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(change(address, &wrong).await);
    }
    assert_eq!(statuses, [401, 401, 429]);
    assert_eq!(change(address, &token).await, 404, "an authenticated request for a missing version");
}

#[tokio::test]
async fn token_has_its_own_bucket() {
    let shop = Shop::new();
    let (token, other) = (shop.token(&["acme"]), shop.token(&["others"]));
    let address = shop.serve_within(few()).await;
    for _ in 0..4 {
        ask(address, &[]).await;
    }
    assert_eq!(ask(address, &[]).await, 429, "the anonymous bucket is empty");
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(address, &[("authorization", &format!("Bearer {token}"))]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(ask(address, &[("authorization", &format!("Bearer {other}"))]).await, 200);
}

#[tokio::test]
async fn proxy_header_identifies_clients() {
    let shop = Shop::new();
    let address = shop.serve_within(ServerLimits { behind_proxy: true, ..few() }).await;
    let from = async |client: &str| ask(address, &[("x-forwarded-for", client)]).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(from("10.0.0.1").await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(from("10.0.0.2").await, 200, "another client of the same proxy");
    assert_eq!(from("10.0.0.3, 10.0.0.1").await, 429, "entries of the client are ignored");
    // Without a proxy the header is ignored.
    let address = shop.serve_within(few()).await;
    let mut statuses = Vec::new();
    for client in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        statuses.push(ask(address, &[("x-forwarded-for", client)]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

/// A connection from a loopback address with a small receive buffer.
async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 << 10).expect("set");
    socket.bind((IpAddr::from(from), 0).into()).expect("an address of this machine");
    socket.connect(to).await.expect("connected")
}

/// Way of occupying a connection without progress.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// Requests a large file and never reads it.
    Unread,
    /// Sends an endless request head.
    Head,
    /// Uploads a release byte by byte.
    Publish,
}

struct Attack {
    address: SocketAddr,
    component: String,
    token: String,
    disconnected: AtomicUsize,
}

impl Attack {
    /// Occupies a connection until it is closed, and reconnects.
    async fn hold(self: Arc<Self>, from: [u8; 4], hold: Hold) {
        loop {
            let mut stream = connect(from, self.address).await;
            let (head, drip) = match hold {
                Hold::Unread => (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", self.component), &b""[..]),
                Hold::Head => ("GET /checkpoint.json HTTP/1.1\r\nx: ".to_owned(), &b"x"[..]),
                Hold::Publish => {
                    let token = &self.token;
                    let length = 1 << 20;
                    let head = format!("PUT /publish HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
                    (format!("{head}content-length: {length}\r\n\r\n"), &b"x"[..])
                }
            };
            let mut held = stream.write_all(head.as_bytes()).await;
            while held.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                held = match hold {
                    // A write reveals that the server has closed the connection.
                    Hold::Unread => stream.write_all(b" ").await,
                    Hold::Head | Hold::Publish => stream.write_all(drip).await,
                };
            }
            self.disconnected.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Uploads a release at a slow but steady rate and returns the status.
async fn publish_slowly(shop: &Shop, address: SocketAddr, made: &Made) -> u16 {
    let body = [made.signed().as_bytes(), b"\n", &made.component()].concat();
    let mut stream = connect([127, 0, 0, 1], address).await;
    let (token, length) = (shop.token(&["acme"]), body.len());
    let head = format!("PUT /publish HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
    let head = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    for piece in body.chunks(16 << 10) {
        stream.write_all(piece).await.expect("taken");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    status(&read_slowly(stream).await)
}

/// Reads a response at a slow but steady rate.
async fn read_slowly(mut stream: TcpStream) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 16 << 10]);
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        bytes.extend_from_slice(&piece[..count]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bytes
}

fn status(answer: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(answer);
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {text:.200}"))
}

/// Asserts that a slow but steady client is served while attackers occupy all connections and reconnect.
async fn assert_served_beside(hold: Hold) {
    let shop = Shop::new();
    let large = Made { padding: 3 << 20, ..Made::of("acme/large", "1.0.0") };
    shop.add(&large);
    let limits = ServerLimits {
        max_connections: 8,
        header_timeout: Duration::from_secs(2),
        stall_budget: Duration::from_secs(2),
        min_bytes_per_second: 32 << 10,
        changes_per_minute: 1e6,
        change_burst: 1e6,
        ..ServerLimits::default()
    };
    let address = shop.serve_within(limits).await;
    let component = shop.component_path("acme/large", "1.0.0");
    let (token, disconnected) = (shop.token(&["acme"]), AtomicUsize::new(0));
    let attack = Arc::new(Attack { address, component: component.clone(), token, disconnected });
    let attackers: Vec<_> = (0..12).map(|_| tokio::spawn(Arc::clone(&attack).hold([127, 0, 0, 2], hold))).collect();
    // Until every connection was closed once.
    while attack.disconnected.load(Ordering::Relaxed) < 8 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ask(address, &[]).await, 200);
    // A slow but steady client.
    let mut stream = connect([127, 0, 0, 1], address).await;
    let request = format!("GET /{component} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    assert!(read_slowly(stream).await.ends_with(&large.component()), "a complete response");
    let made = Made { padding: 1 << 20, ..Made::version("1.2.0") };
    assert_eq!(publish_slowly(&shop, address, &made).await, 200);
    assert!(attackers.iter().all(|attacker| !attacker.is_finished()), "the attack lasted for the whole test");
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_are_aborted() {
    assert_served_beside(Hold::Unread).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_heads_are_aborted() {
    assert_served_beside(Hold::Head).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dripping_uploads_are_aborted() {
    assert_served_beside(Hold::Publish).await;
}

/// The connection limit of one network does not affect others.
#[tokio::test]
async fn connections_per_network_are_limited() {
    let shop = Shop::new();
    let limits = ServerLimits { max_connections_per_network: 3, ..ServerLimits::default() };
    let address = shop.serve_within(limits).await;
    // Uploads that are in progress.
    let token = shop.token(&["acme"]);
    let head = format!("PUT /publish HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
    let head = format!("{head}content-length: 100000\r\n\r\nx");
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = connect([127, 0, 0, 2], address).await;
        stream.write_all(head.as_bytes()).await.expect("sent");
        held.push(stream);
    }
    // The answer is lost if the connection is closed before it is read.
    let refused = loop {
        let refused = read_slowly(connect([127, 0, 0, 2], address).await).await;
        if !refused.is_empty() {
            break refused;
        }
    };
    assert_eq!(status(&refused), 429);
    assert!(
        String::from_utf8_lossy(&refused)
            .ends_with("too many connections from your network\nhint: close some connections\n")
    );
    assert_eq!(ask(address, &[]).await, 200, "another address");
    // A closed connection frees a place.
    drop(held.pop());
    loop {
        let mut stream = connect([127, 0, 0, 2], address).await;
        let request = b"GET /checkpoint.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap_or_default();
        let answer = read_slowly(stream).await;
        if answer.starts_with(b"HTTP/1.1 200 ") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Behind a proxy, all connections come from one address.
    let address = shop.serve_within(ServerLimits { behind_proxy: true, ..limits }).await;
    for _ in 0..5 {
        held.push(connect([127, 0, 0, 2], address).await);
    }
    assert_eq!(ask(address, &[]).await, 200);
}

/// Slow uploads of one token do not block another publisher.
#[tokio::test]
async fn uploads_per_token_are_limited() {
    let shop = Shop::new();
    let limits = ServerLimits {
        max_uploads_per_token: 2,
        max_concurrent_changes: 1,
        change_burst: 1e6,
        ..ServerLimits::default()
    };
    let address = shop.serve_within(limits).await;
    let (token, other) = (shop.token(&["acme"]), shop.token(&["acme"]));
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connect([127, 0, 0, 2], address).await;
        let head = format!("PUT /publish HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
        let head = format!("{head}content-length: 100000\r\n\r\nx");
        stream.write_all(head.as_bytes()).await.expect("sent");
        held.push(stream);
    }
    while change(address, &token).await != 429 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(change(address, &other).await, 404, "another token is served");
    drop(held);
    while change(address, &token).await != 404 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
