//! What one client may ask of the server, so that others are served all the same.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Made, Shop, reqwest_client};
use gymkhana_registry_server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Asks for the checkpoint with these headers; gives the status.
async fn ask(address: SocketAddr, headers: &[(&str, &str)]) -> u16 {
    let request = reqwest_client().get(format!("http://{address}/checkpoint.json"));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.expect("an answer").status().as_u16()
}

/// Asks for a version that is not there to be withdrawn; gives the status.
async fn change(address: SocketAddr, token: &str) -> u16 {
    let body = r#"{"name":"acme/adder","version":"9.9.9","yanked":true}"#;
    let request = reqwest_client().put(format!("http://{address}/yank")).bearer_auth(token).body(body);
    request.send().await.expect("an answer").status().as_u16()
}

fn few() -> ServerLimits {
    ServerLimits { request_burst: 3.0, requests_per_second: 0.0, ..ServerLimits::default() }
}

#[tokio::test]
async fn who_asks_too_much_waits() {
    let shop = Shop::new();
    let address = shop.serve_within(few()).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(address, &[]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

/// Whoever guesses tokens shuts nobody out who has one, though they share an address.
#[tokio::test]
async fn wrong_tokens_shut_out_strangers_alone() {
    let shop = Shop::new();
    let token = shop.token(&["acme"]);
    let address = shop.serve_within(ServerLimits { invalid_token_burst: 2.0, ..ServerLimits::default() }).await;
    let wrong = format!("gymkhana_{}", "0".repeat(64));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(change(address, &wrong).await);
    }
    assert_eq!(statuses, [401, 401, 429]);
    assert_eq!(change(address, &token).await, 404, "there is no such version, which only a publisher hears");
}

#[tokio::test]
async fn a_token_has_a_bucket_of_its_own() {
    let shop = Shop::new();
    let (token, other) = (shop.token(&["acme"]), shop.token(&["others"]));
    let address = shop.serve_within(few()).await;
    for _ in 0..4 {
        ask(address, &[]).await;
    }
    assert_eq!(ask(address, &[]).await, 429, "strangers have used theirs up");
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(address, &[("authorization", &format!("Bearer {token}"))]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(ask(address, &[("authorization", &format!("Bearer {other}"))]).await, 200);
}

#[tokio::test]
async fn behind_a_proxy_its_word_says_who_asks() {
    let shop = Shop::new();
    let address = shop.serve_within(ServerLimits { behind_proxy: true, ..few() }).await;
    let from = async |client: &str| ask(address, &[("x-forwarded-for", client)]).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(from("10.0.0.1").await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(from("10.0.0.2").await, 200, "another client of the same proxy");
    assert_eq!(from("10.0.0.3, 10.0.0.1").await, 429, "what the client itself wrote counts for nothing");
    // Where there is no proxy, anybody could write anything.
    let address = shop.serve_within(few()).await;
    let mut statuses = Vec::new();
    for client in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        statuses.push(ask(address, &[("x-forwarded-for", client)]).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

/// A connection from one of this machine's own addresses, with little room for what it does not take.
async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 << 10).expect("set");
    socket.bind((IpAddr::from(from), 0).into()).expect("an address of this machine");
    socket.connect(to).await.expect("connected")
}

/// How a connection holds its place without doing anything.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// Asks for a large file and takes nothing of it.
    Take,
    /// Sends the head of a request without an end.
    Head,
    /// Publishes, a byte now and then.
    Publish,
}

struct Attack {
    address: SocketAddr,
    component: String,
    token: String,
    thrown_out: AtomicUsize,
}

impl Attack {
    /// Holds a place until it is thrown out, and comes again.
    async fn hold(self: Arc<Self>, from: [u8; 4], hold: Hold) {
        loop {
            let mut stream = connect(from, self.address).await;
            let (head, drip) = match hold {
                Hold::Take => (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", self.component), &b""[..]),
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
                    // Whether the other side has gone shows in what is written.
                    Hold::Take => stream.write_all(b" ").await,
                    Hold::Head | Hold::Publish => stream.write_all(drip).await,
                };
            }
            self.thrown_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends a release at a steady rate that is slow, and gives the status.
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

/// Takes an answer at a steady rate that is slow.
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

/// All places are taken by connections that do nothing and come again whenever they are thrown out; who does something
/// is served.
async fn is_served_beside(hold: Hold) {
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
    let (token, thrown_out) = (shop.token(&["acme"]), AtomicUsize::new(0));
    let attack = Arc::new(Attack { address, component: component.clone(), token, thrown_out });
    let attackers: Vec<_> = (0..12).map(|_| tokio::spawn(Arc::clone(&attack).hold([127, 0, 0, 2], hold))).collect();
    // Until all places have changed hands.
    while attack.thrown_out.load(Ordering::Relaxed) < 8 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ask(address, &[]).await, 200);
    // Slow, but steady.
    let mut stream = connect([127, 0, 0, 1], address).await;
    let request = format!("GET /{component} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    assert!(read_slowly(stream).await.ends_with(&large.component()), "it comes whole");
    let made = Made { padding: 1 << 20, ..Made::version("1.2.0") };
    assert_eq!(publish_slowly(&shop, address, &made).await, 200);
    assert!(attackers.iter().all(|attacker| !attacker.is_finished()), "they went on all the while");
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_nothing_loses_the_place() {
    is_served_beside(Hold::Take).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_ends_a_request_loses_the_place() {
    is_served_beside(Hold::Head).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_drips_a_release_loses_the_place() {
    is_served_beside(Hold::Publish).await;
}

/// Who holds all the places that one address may have leaves those of others alone.
#[tokio::test]
async fn an_address_has_so_many_connections() {
    let shop = Shop::new();
    let limits = ServerLimits { max_connections_per_network: 3, ..ServerLimits::default() };
    let address = shop.serve_within(limits).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(connect([127, 0, 0, 2], address).await);
    }
    let refused = read_slowly(connect([127, 0, 0, 2], address).await).await;
    assert_eq!(status(&refused), 429);
    assert!(String::from_utf8_lossy(&refused).ends_with("your address has too many connections; close some\n"));
    assert_eq!(ask(address, &[]).await, 200, "another address");
    // A place that is given up is another's.
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
    // Behind a proxy all come from one.
    let address = shop.serve_within(ServerLimits { behind_proxy: true, ..limits }).await;
    for _ in 0..5 {
        held.push(connect([127, 0, 0, 2], address).await);
    }
    assert_eq!(ask(address, &[]).await, 200);
}

/// Releases that one token sends slowly are no place that another publisher waits for.
#[tokio::test]
async fn a_token_sends_so_many_releases_at_once() {
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
    assert_eq!(change(address, &other).await, 404, "another token is heard");
    drop(held);
    while change(address, &token).await != 404 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
