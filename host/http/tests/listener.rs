//! The listener over real connections, with correct and with hostile clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::get;
use gymkhana_http::{ConnectionLimits, HostNames, HttpServer, Listener, RequestPace, StallBudget};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything here takes, unless it never ends.
const FOREVER: Duration = Duration::from_secs(60);

/// A request for another protocol.
const UPGRADE: &str = "GET /upgrade HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: test\r\n\r\n";

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        all: 8,
        per_network: 8,
        head_time: FOREVER,
        head_bytes: 8192,
        stall: StallBudget::new(FOREVER, 1 << 20),
        pace: RequestPace::Unlimited,
    }
}

/// A running server.
struct Served {
    address: SocketAddr,
    /// Ends the answer of `/slow`.
    finish: Arc<Notify>,
    /// Requests for `/slow`.
    started: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

fn serve(limits: ConnectionLimits) -> Served {
    let finish = Arc::new(Notify::new());
    let started = Arc::new(AtomicUsize::new(0));
    let (waits, starts) = (Arc::clone(&finish), Arc::clone(&started));
    let slow = move || async move {
        starts.fetch_add(1, Ordering::Relaxed);
        waits.notified().await;
        "slow\n"
    };
    let upgrade = async |request: Request| {
        let upgraded = hyper::upgrade::on(request);
        tokio::spawn(async move {
            // Reads until the client leaves.
            let Ok(upgraded) = upgraded.await else { return };
            let mut stream = hyper_util::rt::TokioIo::new(upgraded);
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        let response = axum::response::Response::builder().status(101).header("upgrade", "test");
        response.header("connection", "upgrade").body(Body::empty()).expect("a response")
    };
    let router = Router::new()
        .route("/", get(async || "here\n"))
        .route("/large", get(async || vec![b'x'; 64 << 20]))
        .route("/body", axum::routing::post(async |body: axum::body::Bytes| body))
        .route("/upgrade", get(upgrade))
        .route("/slow", get(slow));
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    let address = listener.address();
    let (stop, stopped) = oneshot::channel();
    let server = HttpServer::new(router, HostNames::at(address, false, &[]));
    let ended = tokio::spawn(listener.serve(server, limits, async move { drop(stopped.await) }));
    Served { address, finish, started, stop, ended }
}

/// Sends a request whose answer waits, and returns when it is in progress.
async fn slow(served: &Served) -> TcpStream {
    let before = served.started.load(Ordering::Relaxed);
    let request = "GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let stream = connect(served.address, request).await;
    while served.started.load(Ordering::Relaxed) == before {
        tokio::time::sleep(SECOND / 100).await;
    }
    stream
}

async fn connect(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("sent");
    stream
}

/// The answer until the connection ends.
async fn read(mut stream: TcpStream) -> String {
    let mut received = Vec::new();
    let reading = stream.read_to_end(&mut received);
    let _ = tokio::time::timeout(FOREVER, reading).await.expect("the connection ends");
    String::from_utf8(received).expect("text")
}

async fn ask(address: SocketAddr, path: &str) -> String {
    read(connect(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_crowds_keep_no_client_waiting() {
    let served = serve(limits());
    // A request in progress is not given up for others.
    let busy = slow(&served).await;
    assert!(ask(served.address, "/").await.ends_with("\r\n\r\nhere\n"));
    let mut crowd = vec![];
    for start in ["", "GET / HTTP/1.1\r\nx: ", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        for _ in 0..40 {
            crowd.push(connect(served.address, start).await);
            assert!(ask(served.address, "/").await.ends_with("\r\n\r\nhere\n"), "{start:?}");
        }
    }
    served.finish.notify_one();
    assert!(read(busy).await.ends_with("\r\n\r\nslow\n"));
}

/// Requests whose bodies do not arrive are not in progress; one that the server works on is.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_arrive_keep_no_client_waiting() {
    let served = serve(limits());
    let busy = slow(&served).await;
    let head = "POST /body HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
    let mut crowd = vec![];
    for start in ["", "a", "abc"] {
        for _ in 0..40 {
            crowd.push(connect(served.address, &format!("{head}{start}")).await);
            assert!(ask(served.address, "/").await.ends_with("here\n"), "{start:?}");
        }
    }
    served.finish.notify_one();
    assert!(read(busy).await.ends_with("\r\n\r\nslow\n"));
    // Without a crowd, a body has its time.
    drop(crowd);
    let mut dripping = connect(served.address, head).await;
    for byte in b"abcd" {
        tokio::time::sleep(SECOND / 5).await;
        dripping.write_all(&[*byte]).await.expect("sent");
    }
    assert!(read(dripping).await.ends_with("abcd"));
}

/// A flood leaves the process its time, by connections and by requests of one connection.
#[tokio::test(flavor = "multi_thread")]
async fn connections_and_requests_have_a_pace() {
    let served = serve(ConnectionLimits { pace: RequestPace::All(SECOND / 50), ..limits() });
    let since = std::time::Instant::now();
    for _ in 0..5 {
        assert!(ask(served.address, "/").await.ends_with("here\n"));
    }
    assert!(since.elapsed() >= SECOND / 50 * 9, "{:?}", since.elapsed());
    let since = std::time::Instant::now();
    let head = "GET / HTTP/1.1\r\nhost: localhost\r\n";
    let many = format!("{head}\r\n").repeat(9) + &format!("{head}connection: close\r\n\r\n");
    assert_eq!(read(connect(served.address, &many).await).await.matches("here\n").count(), 10);
    assert!(since.elapsed() >= SECOND / 50 * 9, "{:?}", since.elapsed());
}

/// A flood of refused requests has a pace and does not fill the places.
#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_have_a_pace() {
    let served = serve(ConnectionLimits { pace: RequestPace::Refused(SECOND / 10), ..limits() });
    let since = std::time::Instant::now();
    let mut crowd = vec![];
    for _ in 0..8 {
        crowd.push(
            connect(served.address, "GET /secret HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await,
        );
    }
    // All places are taken, but those of the crowd wait.
    assert!(ask(served.address, "/").await.ends_with("here\n"));
    let last = crowd.pop().expect("a connection");
    assert!(read(last).await.starts_with("HTTP/1.1 404"));
    assert!(since.elapsed() >= SECOND / 10 * 6, "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_progress_fill_a_network() {
    let served = serve(ConnectionLimits { all: 10, per_network: 2, ..limits() });
    let busy = [slow(&served).await, slow(&served).await];
    // The refusal can be lost if the connection is closed before it is read.
    let refused = loop {
        let answer = ask(served.address, "/").await;
        if answer.starts_with("HTTP/1.1 429 ") {
            break answer;
        }
    };
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("hint: close some connections"), "{refused}");
    for stream in busy {
        served.finish.notify_one();
        assert!(read(stream).await.ends_with("\r\n\r\nslow\n"));
    }
    while !ask(served.address, "/").await.ends_with("here\n") {}
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_keeps_its_place() {
    let served = serve(ConnectionLimits { all: 10, per_network: 1, ..limits() });
    let mut upgraded = connect(served.address, UPGRADE).await;
    let mut start = [0; 12];
    upgraded.read_exact(&mut start).await.expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 101");
    for _ in 0..3 {
        // Refused, or reset before the refusal is read.
        assert!(!ask(served.address, "/").await.ends_with("here\n"));
    }
    drop(upgraded);
    while !ask(served.address, "/").await.ends_with("here\n") {}
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_have_a_deadline_and_a_size() {
    let served = serve(ConnectionLimits { head_time: SECOND / 5, ..limits() });
    for start in ["", "GET / HTTP/1.1\r\nx: "] {
        let mut stream = connect(served.address, start).await;
        let dripping = async {
            while stream.write_all(b"y").await.is_ok() {
                tokio::time::sleep(SECOND / 50).await;
            }
        };
        tokio::time::timeout(FOREVER, dripping).await.expect("the connection ends");
    }
    // An idle connection ends, too; its request was answered.
    let idle = read(connect(served.address, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await).await;
    assert!(idle.ends_with("\r\n\r\nhere\n"), "{idle}");
    let large = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(8192));
    assert!(read(connect(served.address, &large).await).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_taken_is_given_up() {
    let served = serve(ConnectionLimits { all: 1, stall: StallBudget::new(SECOND / 5, 1 << 20), ..limits() });
    let stalled = connect(served.address, "GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(ask(served.address, "/").await.ends_with("here\n"), "its place becomes free");
    assert!(read(stalled).await.len() < 64 << 20);
    let whole = ask(served.address, "/large").await;
    assert!(whole.len() > 64 << 20, "a client that reads gets all of it: {}", whole.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_name_one_host_of_the_server() {
    let served = serve(limits());
    let status = async |hosts: &str| {
        let request = format!("GET / HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        read(connect(served.address, &request).await).await[9..12].to_owned()
    };
    assert_eq!(status("host: localhost\r\n").await, "200");
    assert_eq!(status("").await, "400");
    assert_eq!(status("host: localhost\r\nhost: localhost\r\n").await, "400");
    assert_eq!(status("host: evil.example\r\n").await, "403");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_progress_are_answered_at_the_end() {
    let served = serve(limits());
    let busy = slow(&served).await;
    let Served { address, finish, stop, ended, .. } = served;
    let idle = connect(address, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    idle.readable().await.expect("an answer");
    stop.send(()).expect("it runs");
    assert!(read(idle).await.starts_with("HTTP/1.1 200"), "an idle connection ends at once");
    finish.notify_one();
    assert!(read(busy).await.ends_with("\r\n\r\nslow\n"));
    tokio::time::timeout(FOREVER, ended).await.expect("the server ends").expect("no panic");
    assert!(TcpStream::connect(address).await.is_err(), "the port is free");
}
