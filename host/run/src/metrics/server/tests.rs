//! Tests of the page over real connections, with correct and with hostile clients.

use std::net::Ipv4Addr;

use gymkhana_rollout::RolloutMetrics;
use gymkhana_sandbox::Counters;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::*;
use crate::metrics::RunState;
use gymkhana_orchestration::RunErrorKind;

/// A state with seven finished episodes.
fn state() -> RunState {
    let rollout = Arc::new(RolloutMetrics::default());
    (0..7).for_each(|_| rollout.finished(&[]));
    let sandbox = Counters {
        compiled: 0,
        cache_hits: 0,
        places: 1,
        free_places: 1,
        waits: 0,
        waiting: 0,
        waited: Duration::ZERO,
    };
    RunState { rollout, sandbox, idle: vec![] }
}

fn assert_is_page(text: &str) {
    assert!(text.contains("# TYPE gymkhana_episodes counter\ngymkhana_episodes_total 7\n"), "{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}

/// Serves a page until the task set is dropped.
async fn served() -> (SocketAddr, JoinSet<()>) {
    let listener = MetricsListener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.0.address();
    let mut tasks = JoinSet::new();
    tasks.spawn(listener.serve(Arc::new(state)));
    (address, tasks)
}

fn client() -> reqwest::Client {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Sends bytes and returns the response until the connection is closed or reset.
async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(bytes).await.expect("sent");
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    String::from_utf8(received).expect("text")
}

#[tokio::test]
async fn a_client_gets_the_page() {
    let (address, _tasks) = served().await;
    for path in ["/metrics", "/metrics?name[]=x"] {
        let response = client().get(format!("http://{address}{path}")).send().await.expect("answered");
        assert_eq!(response.status(), 200);
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(response.headers()["content-type"], kind);
        assert_is_page(&response.text().await.expect("a body"));
    }
}

#[tokio::test]
async fn the_root_names_the_page() {
    let (address, _tasks) = served().await;
    let response = client().get(format!("http://{address}/")).send().await.expect("answered");
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.expect("a body"), "the metrics of this run are at /metrics\n");
}

#[tokio::test]
async fn other_requests_get_an_error_status() {
    let (address, _tasks) = served().await;
    let url = |path: &str| format!("http://{address}{path}");
    let status = |request: reqwest::RequestBuilder| async { request.send().await.expect("answered").status() };
    assert_eq!(status(client().get(url("/page"))).await, 404);
    assert_eq!(status(client().get(url("/metrics/../x"))).await, 404);
    assert_eq!(status(client().head(url("/metrics"))).await, 200);
    let posted = client().post(url("/metrics")).body("x").send().await.expect("answered");
    assert_eq!((posted.status().as_u16(), &posted.headers()["allow"]), (405, &"GET,HEAD".parse().unwrap()));
    assert!(raw(address, b"HEAD /metrics HTTP/1.0\r\n\r\n").await.ends_with("\r\n\r\n"), "no body behind the head");
    for nonsense in ["GET\r\n\r\n", "GET /metrics SMTP\r\n\r\n", "\x16\x03\x01\r\n\r\n"] {
        assert!(raw(address, nonsense.as_bytes()).await.starts_with("HTTP/1.1 400 "), "{nonsense:?}");
    }
    assert!(raw(address, b"\xff\xfe /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn an_oversized_request_is_not_read_to_its_end() {
    let (address, _tasks) = served().await;
    let head = |filling: usize| {
        format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {}", "y".repeat(filling))
    };
    let long = LIMITS.head_bytes - head(0).len() - 4;
    assert_is_page(&raw(address, format!("{}\r\n\r\n", head(long)).as_bytes()).await);
    let refused = raw(address, head(LIMITS.head_bytes).as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let flood = vec![b'y'; 64 << 20];
    assert!(stream.write_all(&flood).await.is_err(), "64 MiB were taken");
    assert_eq!(client().get(format!("http://{address}/metrics")).send().await.expect("answered").status(), 200);
}

/// Silent clients leave their places to the next client, which is served at once.
#[tokio::test]
async fn silent_clients_keep_no_client_waiting() {
    let (address, _tasks) = served().await;
    let mut silent = Vec::new();
    for _ in 0..4 * LIMITS.all {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    drop(silent.split_off(LIMITS.all));
    assert_eq!(client().get(format!("http://{address}/metrics")).send().await.expect("answered").status(), 200);
    for mut stream in silent {
        let mut received = Vec::new();
        // Closed or reset.
        let _ = stream.read_to_end(&mut received).await;
        assert!(received.is_empty());
    }
}

/// A byte from time to time does not extend the timeout, neither in the head nor in a body that no route reads.
#[tokio::test]
async fn slow_clients_time_out() {
    let (address, _tasks) = served().await;
    for start in
        ["GET /metrics HTTP/1.1\r\nx: ", "POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(start.as_bytes()).await.expect("sent");
        let dripping = async {
            while stream.write_all(b"y").await.is_ok() {
                tokio::time::sleep(TIMEOUT / 20).await;
            }
        };
        tokio::time::timeout(2 * TIMEOUT, dripping).await.expect("the connection ends");
    }
}

#[tokio::test]
async fn a_taken_address_is_a_user_error() {
    let (address, tasks) = served().await;
    let error = MetricsListener::bind(address).err().expect("it is taken");
    assert_eq!(error.kind(), RunErrorKind::User);
    assert!(error.to_string().starts_with(&format!("--metrics {address} cannot be bound\n")), "{error}");
    let far = MetricsListener::bind(([192, 0, 2, 1], 9464).into()).err().expect("it is of no machine");
    assert_eq!(far.kind(), RunErrorKind::User);
    drop(tasks);
}
