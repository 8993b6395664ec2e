//! Who may read the page: names of the server, tokens, methods.

use std::future::pending;
use std::net::SocketAddr;

use axum::http::StatusCode;
use gymkhana_page::{Access, AccessError, AccessToken, PageAddress};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fixture::{Runs, TOKEN};

/// Answer of a served page to a request with this `Host`.
async fn ask(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
    String::from_utf8(answer).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_page_answers_to_names_of_this_machine_alone() {
    let runs = Runs::one();
    let place = PageAddress::bind("127.0.0.1:0".parse().expect("an address"), None).expect("a port");
    let address = place.address();
    let serving = tokio::spawn(place.open(&[runs.path(0).to_owned()], None).expect("a page").serve(pending()));
    for host in ["127.0.0.1:8123", "localhost:8123", "LOCALHOST", "[::1]:8123", "127.0.0.2"] {
        assert!(ask(address, "/", host).await.starts_with("HTTP/1.1 200 "), "{host}");
    }
    // A foreign name that was made to lead to this machine.
    for host in ["evil.example", "localhost.evil.example:8123", "127.0.0.1.evil.example", "10.0.0.1:8123", "", "[::2]"]
    {
        let answer = ask(address, "/", host).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("first"), "{host}: {answer}");
    }
    assert!(ask(address, "/assets/page.js", "evil.example").await.starts_with("HTTP/1.1 403 "));
    serving.abort();
}

/// Connections that send no whole head neither keep a reader waiting nor use up the process's file handles.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_crowd_keeps_no_reader_waiting() {
    let runs = Runs::one();
    let place = PageAddress::bind("127.0.0.1:0".parse().expect("an address"), None).expect("a port");
    let address = place.address();
    let serving = tokio::spawn(place.open(&[runs.path(0).to_owned()], None).expect("a page").serve(pending()));
    let before = open_files();
    let mut crowd = vec![];
    for _ in 0..400 {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\nx:").await.expect("sent");
        crowd.push(stream);
    }
    assert!(ask(address, "/", "localhost").await.starts_with("HTTP/1.1 200 "));
    // The crowd's own ends and those of the page.
    assert!(open_files() - before <= 400 + 128, "{before} {}", open_files());
    serving.abort();
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a folder").count()
}

#[tokio::test]
async fn other_addresses_need_a_token() {
    for address in ["0.0.0.0:8123", "192.168.0.2:8123", "[::]:8123"] {
        let address = address.parse().expect("an address");
        assert!(matches!(Access::new(address, None), Err(AccessError::NeedsToken(_))));
        assert!(Access::new(address, AccessToken::new(TOKEN).ok()).is_ok());
    }
    assert!(Access::new("[::1]:8123".parse().expect("an address"), None).is_ok());
}

#[test]
fn tokens_that_can_be_guessed_or_do_not_fit_into_a_cookie_are_refused() {
    assert!(matches!(AccessToken::new("0123456789abcde"), Err(AccessError::ShortToken)));
    for text in ["0123456789abcde;", "0123456789 abcdef", "0123456789abcdef\r\n", "0123456789abcdéf"] {
        assert!(matches!(AccessToken::new(text), Err(AccessError::TokenCharacters)), "{text}");
    }
    let random = AccessToken::random().expect("random numbers");
    assert!(
        random.len() == 32 && AccessToken::new(&random).is_ok() && random != AccessToken::random().expect("others")
    );
}

#[tokio::test]
async fn a_token_in_the_address_becomes_a_cookie() {
    let runs = Runs::one();
    let client = runs.page_at("0.0.0.0:8123", Some(TOKEN));
    let host = ("host", "machine.example:8123");
    let answer = client.send("GET", &format!("/runs/0/episodes?token={TOKEN}&size=5"), &[host]).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.headers["location"], "/runs/0/episodes?size=5");
    let cookie = answer.headers["set-cookie"].to_str().expect("text").to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    assert!(answer.body.is_empty());
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    let cookies = format!("other=1; {pair}");
    assert_eq!(client.send("GET", "/", &[host, ("cookie", &cookies)]).await.status, StatusCode::OK);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(client.send("GET", "/", &[host, ("authorization", &bearer)]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn without_the_token_nothing_is_shown() {
    let runs = Runs::one();
    let client = runs.page_at("0.0.0.0:8123", Some(TOKEN));
    let host = ("host", "machine.example:8123");
    let wrong = [
        ("accept", "*/*".to_owned()),
        ("cookie", "gymkhana-page-8123=0123456789abcdef-1".to_owned()),
        ("cookie", format!("gymkhana-page-9999={TOKEN}")),
        ("cookie", format!("xgymkhana-page-8123={TOKEN}")),
        ("authorization", format!("Basic {TOKEN}")),
        ("authorization", format!("Bearer {}", &TOKEN[..17])),
        ("authorization", "Bearer ".to_owned()),
    ];
    for path in ["/", "/runs/0/episodes", "/assets/page.js", "/events?run=0", "/?token=0123456789abcdef-1", "/nothing"]
    {
        for (name, value) in &wrong {
            let answer = client.send("GET", path, &[host, (name, value)]).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} with {name}: {value}");
            assert!(!answer.body.contains("first") && !answer.headers.contains_key("set-cookie"));
        }
    }
}

#[tokio::test]
async fn a_redirect_stays_on_the_server() {
    let runs = Runs::one();
    let client = runs.page_at("0.0.0.0:8123", Some(TOKEN));
    let answer = client.send("GET", &format!("//evil.example/?token={TOKEN}"), &[("host", "machine.example")]).await;
    let location = answer.headers.get("location").map(|value| value.to_str().expect("text").to_owned());
    assert!(location.is_none_or(|location| location.starts_with('/') && !location.starts_with("//")));
}

#[tokio::test]
async fn the_page_only_reads() {
    let runs = Runs::one();
    let client = runs.page();
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in ["/", "/runs/0/episodes", "/runs/0/episodes/1.train.0.0.0.0", "/events"] {
            let answer = client.send(method, path, &[("host", &client.host)]).await;
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
    }
    assert_eq!(client.send("HEAD", "/", &[("host", &client.host)]).await.status, StatusCode::OK);
}
