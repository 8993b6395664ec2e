//! Who may read the page: names of the server, tokens, methods.

use axum::http::StatusCode;
use gymkhana_page::{Access, AccessError, Token};

use crate::fixture::{Runs, TOKEN};

#[tokio::test]
async fn a_local_page_answers_to_names_of_this_machine_alone() {
    let runs = Runs::one();
    let client = runs.page();
    for host in ["127.0.0.1:8123", "localhost:8123", "LOCALHOST", "[::1]:8123", "127.0.0.2"] {
        assert_eq!(client.send("GET", "/", &[("host", host)]).await.status, StatusCode::OK, "{host}");
    }
    // A foreign name that was made to lead to this machine.
    for host in ["evil.example", "localhost.evil.example:8123", "127.0.0.1.evil.example", "10.0.0.1:8123", "", "[::2]"]
    {
        let answer = client.send("GET", "/", &[("host", host)]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{host}");
        assert!(!answer.body.contains("first"));
    }
    assert_eq!(client.send("GET", "/", &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(client.send("GET", "/assets/page.js", &[("host", "evil.example")]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn other_addresses_need_a_token() {
    for address in ["0.0.0.0:8123", "192.168.0.2:8123", "[::]:8123"] {
        let address = address.parse().expect("an address");
        assert!(matches!(Access::new(address, None), Err(AccessError::NeedsToken(_))));
        assert!(Access::new(address, Token::new(TOKEN).ok()).is_ok());
    }
    assert!(Access::new("[::1]:8123".parse().expect("an address"), None).is_ok());
}

#[test]
fn tokens_that_can_be_guessed_or_do_not_fit_into_a_cookie_are_refused() {
    assert!(matches!(Token::new("0123456789abcde"), Err(AccessError::ShortToken)));
    for text in ["0123456789abcde;", "0123456789 abcdef", "0123456789abcdef\r\n", "0123456789abcdéf"] {
        assert!(matches!(Token::new(text), Err(AccessError::TokenCharacters)), "{text}");
    }
    let random = Token::random().expect("random numbers");
    assert!(random.len() == 32 && Token::new(&random).is_ok() && random != Token::random().expect("others"));
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
