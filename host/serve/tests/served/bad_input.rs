//! Hostile clients: malformed, oversized, slow, foreign and unknown requests, each answered in form.

use std::time::{Duration, Instant};

use gymkhana_http::Client;
use gymkhana_record::Seed;
use gymkhana_serve::endpoints::Protocol;
use gymkhana_serve::error::{ErrorKind, Owner};
use gymkhana_serve::session::{NextEpisode, SessionTarget, TurnRequest};
use serde_json::json;

use crate::common::{clients, head, post, request, serve, verltool_body};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_answered_in_verltools_form() {
    let served = serve(&["calculator"], "[listen]\nbody_kib = 64\n").await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let large = verltool_body("a", &"x".repeat(100_000), json!({}));
    let extra = verltool_body("a", "<calculator>1</calculator>", json!({"seed": "not a number", "x": [1, {}]}));
    for (body, kind) in [
        ("", "bad-input"),
        ("{", "bad-input"),
        ("\u{0}\u{1}", "bad-input"),
        (deep.as_str(), "bad-input"),
        (r#"{"trajectory_ids": {"a": 1}, "actions": ["x"]}"#, "bad-input"),
        (r#"{"trajectory_ids": ["a"], "actions": ["x"], "finish": ["no"]}"#, "bad-input"),
        (large.as_str(), "too-large"),
    ] {
        let (status, answer) = post(served.address, "/get_observation", body).await;
        assert_eq!(status, 200, "another status makes the client repeat it: {answer}");
        assert_eq!((&answer["dones"], &answer["valids"]), (&json!([true]), &json!([false])), "{body:.80}");
        let observation = &answer["observations"][0];
        assert_eq!(
            (&observation["invalid_reason"], &observation["owner"]),
            (&json!(kind), &json!("agent")),
            "{answer}"
        );
    }
    let (_, answer) = post(served.address, "/get_observation", &extra).await;
    assert_eq!(answer["observations"][0], "1", "unknown fields of the data row are not the tool's");
    assert_eq!(request(served.address, &head("GET", "/get_observation", 0, ""), b"").await.0, 405);
    assert_eq!(post(served.address, "/no-such-route", "{}").await.0, 404);
    assert_eq!(request(served.address, &head("GET", "/health", 0, ""), b"").await.1, json!({"status": "healthy"}));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_are_ended_and_others_served() {
    let served = serve(&["calculator"], "[listen]\nclient_seconds = 0.3\n").await;
    let since = Instant::now();
    // The body never comes.
    let (status, answer) = request(served.address, &head("POST", "/get_observation", 50, ""), b"{").await;
    assert!(since.elapsed() < Duration::from_secs(5));
    assert_eq!((status, &answer["observations"][0]["invalid_reason"]), (200, &json!("deadline")));
    let answer = served.observe("a", "<calculator>1+1</calculator>", json!({})).await;
    assert_eq!(answer["observations"][0], "2");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_keep_clients_apart() {
    let served = serve(&["calculator"], &clients(&["a", "b"])).await;
    let body = verltool_body("same id", "<calculator>1</calculator>", json!({}));
    let with = |more: &str| head("POST", "/get_observation", body.len(), more);
    for wrong in ["", "authorization: Bearer cccccccccccccccc\r\n", "authorization: Basic YTphYWFh\r\n"] {
        let (status, answer) = request(served.address, &with(wrong), body.as_bytes()).await;
        assert_eq!((status, &answer["error"]["kind"]), (401, &json!("unauthorized")), "{wrong}");
    }
    for token in ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"] {
        let header = format!("authorization: Bearer {token}\r\n");
        assert_eq!(request(served.address, &with(&header), body.as_bytes()).await.0, 200);
    }
    assert_eq!(served.sessions.counts().open, 2, "a trajectory's id belongs to its client");
    let (a, b) = (Client::new("a"), Client::new("b"));
    let session = served.sessions.open(&a, Protocol::OpenEnv, SessionTarget::Tools { seed: Some(1) }).await.unwrap();
    assert!(served.sessions.find(&a, &session.id()).is_ok());
    let foreign = served.sessions.find(&b, &session.id()).err().unwrap();
    session.close().await.unwrap();
    let closed = served.sessions.find(&a, &session.id()).err().unwrap();
    assert_eq!((foreign.kind, foreign.owner), (ErrorKind::UnknownSession, Owner::Agent));
    assert_eq!(foreign, closed, "the answer does not tell whether another client has the session");
    assert_eq!(request(served.address, &head("GET", "/metrics", 0, ""), b"").await.0, 401);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_pages_of_other_origins_are_refused() {
    let served = serve(&["calculator"], "[listen]\norigins = [\"https://lab.example\"]\n").await;
    let body = verltool_body("a", "<calculator>1</calculator>", json!({}));
    for (origin, expected) in [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
        ("http://localhost:3000", 200),
        ("https://lab.example", 200),
    ] {
        let head = head("POST", "/get_observation", body.len(), &format!("origin: {origin}\r\n"));
        assert_eq!(request(served.address, &head, body.as_bytes()).await.0, expected, "{origin}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_out_of_order_or_of_unknown_things_are_the_agents_fault() {
    let served = serve(&["frozen-lake", "guest-two-seats"], "").await;
    let me = Client::anyone();
    let open = async |name: Option<&str>, options| {
        let what = SessionTarget::Environment { name: name.map(ToOwned::to_owned), options };
        served.sessions.open(&me, Protocol::OpenEnv, what).await
    };
    let error = open(None, vec![]).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::UnknownName);
    let error = open(Some("frozen-lak"), vec![]).await.err().unwrap();
    assert!(error.message.ends_with("did you mean `frozen-lake`?"), "{error}");
    let options = gymkhana_serve::catalog::named_values(json!({"sise": 3}).as_object().unwrap());
    let error = open(Some("frozen-lake"), options).await.err().unwrap();
    assert!(error.message.contains("has no option `sise`") && error.message.contains("`size`"), "{error}");
    let options = gymkhana_serve::catalog::named_values(json!({"size": 99}).as_object().unwrap());
    assert_eq!(open(Some("frozen-lake"), options).await.err().unwrap().owner, Owner::Agent);
    let session = open(Some("guest-two-seats"), vec![]).await.unwrap();
    let order = session.act(TurnRequest::say("too early")).await.unwrap_err();
    assert_eq!((order.kind, order.owner), (ErrorKind::OutOfOrder, Owner::Agent));
    let begin =
        |split: &str, index| NextEpisode { split: Some(split.to_owned()), task: Some(index), seed: Some(Seed(1)) };
    assert_eq!(session.reset(begin("no-split", 0)).await.unwrap_err().kind, ErrorKind::UnknownName);
    let opened = session.reset(begin("train", 0)).await.unwrap();
    let other = 1 - opened.seat;
    assert_eq!(session.act(TurnRequest::say("mine").by(other)).await.unwrap_err().kind, ErrorKind::OutOfOrder);
    let step = session.act(TurnRequest::say("first").as_turn(0)).await.unwrap();
    let again = session.act(TurnRequest::say("first").as_turn(0)).await.unwrap();
    assert_eq!(step, again, "the numbered turn is taken once");
    assert_eq!(session.status().await.unwrap().episode.unwrap().turns, 1);
    assert_eq!(session.act(TurnRequest::say("another").as_turn(0)).await.unwrap_err().kind, ErrorKind::OutOfOrder);
    assert_eq!(session.act(TurnRequest::say("later").as_turn(7)).await.unwrap_err().kind, ErrorKind::OutOfOrder);
    assert_eq!(session.score().await.unwrap_err().kind, ErrorKind::OutOfOrder);
    served.stop().await;
}
