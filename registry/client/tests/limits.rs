//! What one client may ask of the server, so that others are served all the same.

mod common;

use std::net::SocketAddr;

use common::{Shop, reqwest_client};
use gymkhana_registry_server::Limits;

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

fn few() -> Limits {
    Limits { requests_at_once: 3.0, requests_per_second: 0.0, ..Limits::default() }
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
    let address = shop.serve_within(Limits { wrong_tokens: 2.0, ..Limits::default() }).await;
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
    let address = shop.serve_within(Limits { behind_proxy: true, ..few() }).await;
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
