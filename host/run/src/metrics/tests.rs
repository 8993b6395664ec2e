//! Tests of the page over real connections, with correct and with hostile clients.

use std::net::Ipv4Addr;

use super::*;
use crate::error::ErrorKind;

const TEXT: &str = "# TYPE gymkhana_records_total counter\ngymkhana_records_total 7\n";

/// Serves a page until the task set is dropped.
async fn served() -> (SocketAddr, JoinSet<()>) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let address = listener.address;
    let mut tasks = JoinSet::new();
    tasks.spawn(listener.serve(Arc::new(|| TEXT.to_owned())));
    (address, tasks)
}

fn client() -> reqwest::Client {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Sends bytes and returns the whole response.
async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(bytes).await.expect("sent");
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.expect("an answer");
    heard
}

#[tokio::test]
async fn a_client_gets_the_page() {
    let (address, _tasks) = served().await;
    for path in ["/metrics", "/metrics?name[]=x"] {
        let response = client().get(format!("http://{address}{path}")).send().await.expect("answered");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        assert_eq!(response.text().await.expect("a body"), TEXT);
    }
}

#[tokio::test]
async fn other_requests_get_an_error_status() {
    let (address, _tasks) = served().await;
    let url = |path: &str| format!("http://{address}{path}");
    let status = |request: reqwest::RequestBuilder| async { request.send().await.expect("answered").status() };
    assert_eq!(status(client().get(url("/"))).await, 404);
    assert_eq!(status(client().get(url("/metrics/../x"))).await, 404);
    assert_eq!(status(client().post(url("/metrics")).body("x")).await, 405);
    assert_eq!(status(client().head(url("/metrics"))).await, 200);
    assert!(raw(address, b"HEAD /metrics HTTP/1.0\r\n\r\n").await.ends_with("\r\n\r\n"), "no body behind the head");
    for nonsense in ["\r\n\r\n", "GET\r\n\r\n", "GET /metrics SMTP\r\n\r\n", "GET http://a/metrics HTTP/1.1\r\n\r\n"] {
        assert!(raw(address, nonsense.as_bytes()).await.starts_with("HTTP/1.1 400 "), "{nonsense:?}");
    }
    assert!(raw(address, b"\xff\xfe /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn an_oversized_request_is_not_read_to_its_end() {
    let (address, _tasks) = served().await;
    let head = |filling: usize| format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(filling));
    let longest = REQUEST - head(0).len() - 4;
    let just = raw(address, format!("{}\r\n\r\n", head(longest)).as_bytes()).await;
    assert!(just.ends_with(TEXT), "{just}");
    let long = raw(address, format!("{}\r\n\r\n", head(longest + 1)).as_bytes()).await;
    assert!(long.starts_with("HTTP/1.1 431 "), "{long}");
    // More than the server discards: the connection may be reset.
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let flood = vec![b'y'; 64 << 20];
    assert!(stream.write_all(&flood).await.is_err(), "64 MiB were taken");
    assert_eq!(client().get(format!("http://{address}/metrics")).send().await.expect("answered").status(), 200);
}

/// Silent clients occupy all connections until their timeout; the next client is served.
#[tokio::test]
async fn silent_clients_time_out() {
    let (address, _tasks) = served().await;
    let mut silent = Vec::new();
    for _ in 0..4 * MAX_CONNECTIONS {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    drop(silent.split_off(MAX_CONNECTIONS));
    assert_eq!(client().get(format!("http://{address}/metrics")).send().await.expect("answered").status(), 200);
    for mut stream in silent {
        let mut heard = Vec::new();
        // Closed or reset.
        let _ = stream.read_to_end(&mut heard).await;
        assert!(heard.is_empty());
    }
}

#[tokio::test]
async fn a_taken_address_is_a_user_error() {
    let (address, tasks) = served().await;
    let error = Listener::bind(address).await.err().expect("it is taken");
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().starts_with(&format!("--metrics {address} cannot be bound\n")), "{error}");
    let far = Listener::bind(([192, 0, 2, 1], 9464).into()).await.err().expect("it is of no machine");
    assert_eq!(far.kind(), ErrorKind::User);
    drop(tasks);
}
