//! The page over real connections, asked by a real client and by hostile ones.

use std::net::Ipv4Addr;

use super::*;
use crate::error::ErrorKind;

const TEXT: &str = "# TYPE gymkhana_records_total counter\ngymkhana_records_total 7\n";

/// A page that is served until the task set is dropped.
async fn served() -> (SocketAddr, JoinSet<()>) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let address = listener.address;
    let mut tasks = JoinSet::new();
    tasks.spawn(listener.serve(Arc::new(|| TEXT.to_owned())));
    (address, tasks)
}

fn client() -> reqwest::Client {
    // Fails if a provider is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Sends bytes and reads all that comes back.
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
async fn what_is_not_the_page_is_refused_by_its_status() {
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
async fn a_request_that_is_too_long_is_read_no_further() {
    let (address, _tasks) = served().await;
    let head = |filling: usize| format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(filling));
    let longest = REQUEST - head(0).len() - 4;
    let just = raw(address, format!("{}\r\n\r\n", head(longest)).as_bytes()).await;
    assert!(just.ends_with(TEXT), "{just}");
    let long = raw(address, format!("{}\r\n\r\n", head(longest + 1)).as_bytes()).await;
    assert!(long.starts_with("HTTP/1.1 431 "), "{long}");
    // Far more than is thrown away: the connection may be reset, but nobody reads it all.
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let flood = vec![b'y'; 64 << 20];
    assert!(stream.write_all(&flood).await.is_err(), "64 MiB were taken");
    assert_eq!(client().get(format!("http://{address}/metrics")).send().await.expect("answered").status(), 200);
}

/// Clients that say nothing hold every place; they lose it by the clock, and the next is served.
#[tokio::test]
async fn clients_that_say_nothing_lose_their_places() {
    let (address, _tasks) = served().await;
    let mut silent = Vec::new();
    for _ in 0..4 * SIDE_BY_SIDE {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    drop(silent.split_off(SIDE_BY_SIDE));
    assert_eq!(client().get(format!("http://{address}/metrics")).send().await.expect("answered").status(), 200);
    for mut stream in silent {
        let mut heard = Vec::new();
        // Closed, or reset.
        let _ = stream.read_to_end(&mut heard).await;
        assert!(heard.is_empty());
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_the_users_mistake() {
    let (address, tasks) = served().await;
    let error = Listener::bind(address).await.err().expect("it is taken");
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().starts_with(&format!("error: --metrics {address} cannot be listened on; ")), "{error}");
    let far = Listener::bind(([192, 0, 2, 1], 9464).into()).await.err().expect("it is of no machine");
    assert_eq!(far.kind(), ErrorKind::User);
    drop(tasks);
}
