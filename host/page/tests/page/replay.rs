//! Replays from the page: only if allowed, only after a question, and only by the page's own form.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use gymkhana_page::{Access, PageAddress, PageError, ReplayRequest, Replayed, Replayer, router};

use crate::fixture::{Answer, Client, Runs, assert_holds, assert_lacks, id};

const ADDRESS: &str = "127.0.0.1:8123";

/// A replayer that notes requests and gives one result.
fn noting(result: Result<Replayed, String>) -> (Replayer, Arc<Mutex<Vec<ReplayRequest>>>) {
    let noted: Arc<Mutex<Vec<ReplayRequest>>> = Arc::default();
    let requests = Arc::clone(&noted);
    let replayer = Arc::new(move |request: &ReplayRequest| {
        requests.lock().expect("no test panicked here").push(request.clone());
        result.clone()
    });
    (replayer, noted)
}

fn client(runs: &Runs, replayer: Replayer) -> Client {
    let access = Access::new(ADDRESS.parse().expect("an address"), None).expect("access");
    let router = router(&[runs.path(0).to_owned()], access, Some(replayer)).expect("a router");
    Client { router, host: ADDRESS.to_owned() }
}

async fn post(client: &Client, path: &str, origin: &str) -> Answer {
    client.send("POST", path, &[("host", ADDRESS), ("origin", origin)]).await
}

#[tokio::test]
async fn an_episode_is_replayed_after_a_question() {
    let runs = Runs::one();
    let (replayer, noted) = noting(Ok(Replayed::Equal { forks: 1 }));
    let client = client(&runs, replayer);
    let episode = format!("/runs/0/episodes/{}", id(1, 0, 2));
    let question = format!("{episode}/replay?turn=1");
    assert_holds(&client.get(&episode).await, &[&format!("href=\"{question}\""), "Replay it here"]);
    let asked = client.get(&question).await;
    assert_holds(&asked, &["<form method=\"post\"", "1.train.1.0.2.0 --fork 1", "nothing is written"]);
    assert!(noted.lock().expect("whole").is_empty(), "a question alone replays nothing");
    let answer = post(&client, &question, "http://127.0.0.1:8123").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_holds(&answer.body, &["Every byte is equal to the record, in the fork as well."]);
    let expected = ReplayRequest { run: runs.path(0).to_owned(), episode: id(1, 0, 2), fork: Some(1) };
    assert_eq!(*noted.lock().expect("whole"), [expected]);
}

#[tokio::test]
async fn pages_of_other_sites_start_no_replay() {
    let runs = Runs::one();
    let (replayer, noted) = noting(Ok(Replayed::Dropped));
    let client = client(&runs, replayer);
    let path = format!("/runs/0/episodes/{}/replay", id(1, 0, 2));
    for origin in ["http://evil.example", "null", "http://127.0.0.1:9000", "https://127.0.0.1:8123"] {
        assert_eq!(post(&client, &path, origin).await.status, StatusCode::FORBIDDEN, "{origin}");
    }
    assert_eq!(client.send("POST", &path, &[("host", ADDRESS)]).await.status, StatusCode::FORBIDDEN, "no origin");
    assert!(noted.lock().expect("whole").is_empty());
    assert_eq!(post(&client, &path, "http://127.0.0.1:8123").await.status, StatusCode::OK);
    for (path, status) in [
        ("/runs/0/episodes/1.train.9.9.9.9/replay", StatusCode::NOT_FOUND),
        ("/runs/7/episodes/1.train.0.0.0.0/replay", StatusCode::NOT_FOUND),
        ("/runs/0/episodes/1.train.0.0.0.0/replay?turn=-1", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(post(&client, path, "http://127.0.0.1:8123").await.status, status, "{path}");
    }
    assert_eq!(noted.lock().expect("whole").len(), 1);
}

#[tokio::test]
async fn without_a_replayer_nothing_can_be_replayed() {
    let runs = Runs::one();
    let client = runs.page();
    let episode = format!("/runs/0/episodes/{}", id(1, 0, 2));
    assert_lacks(&client.get(&episode).await, &["Replay it here", "/replay"]);
    let path = format!("{episode}/replay");
    assert_eq!(client.status(&path).await, StatusCode::NOT_FOUND);
    assert_eq!(post(&client, &path, "http://127.0.0.1:8123").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn other_machines_cannot_replay() {
    let runs = Runs::one();
    let token = gymkhana_page::AccessToken::new(crate::fixture::TOKEN).ok();
    let place = PageAddress::bind("0.0.0.0:0".parse().expect("an address"), token).expect("a port");
    let (replayer, _) = noting(Ok(Replayed::Dropped));
    let refused = place.open(&[runs.path(0).to_owned()], Some(replayer)).err().expect("it is refused");
    assert!(matches!(refused, PageError::ReplayFromElsewhere(_)), "{refused}");
    assert!(refused.to_string().contains("hint: leave --allow-replay out"), "{refused}");
}

/// Differences hold what plugins and agents wrote.
#[tokio::test]
async fn differences_are_shown_as_text() {
    let runs = Runs::one();
    let differs = Replayed::Differs {
        in_fork: false,
        place: "turns[3]".to_owned(),
        recorded: "<script>alert(1)</script>".to_owned(),
        replayed: "\u{202e}<b>".to_owned(),
    };
    for (result, texts) in [
        (Ok(differs), &["The replay differs at <code>turns[3]</code>", "&lt;script&gt;", "\\u{202e}&lt;b&gt;"][..]),
        (Err("no `<plugin>`".to_owned()), &["The replay failed.", "no `&lt;plugin&gt;`"]),
    ] {
        let client = client(&runs, noting(result).0);
        let answer = post(&client, &format!("/runs/0/episodes/{}/replay", id(1, 0, 2)), "http://127.0.0.1:8123").await;
        assert_holds(&answer.body, texts);
        assert_lacks(&answer.body, &["<script>alert", "\u{202e}"]);
    }
}

#[tokio::test]
async fn one_replay_runs_at_a_time() {
    let runs = Runs::one();
    let (begun, begins) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let ends = Mutex::new((begun, released));
    let client = client(
        &runs,
        Arc::new(move |_: &ReplayRequest| {
            let (begun, released) = &*ends.lock().expect("no test panicked here");
            begun.send(()).expect("the test waits");
            released.recv().expect("the test releases it");
            Ok(Replayed::Dropped)
        }),
    );
    let path = format!("/runs/0/episodes/{}/replay", id(1, 0, 2));
    let origin = "http://127.0.0.1:8123";
    let second = async {
        while begins.try_recv().is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let answer = post(&client, &path, origin).await;
        release.send(()).expect("the first replay waits");
        answer
    };
    let (first, second) = futures::join!(post(&client, &path, origin), second);
    assert_eq!((first.status, second.status), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
    assert_holds(&second.body, &["another replay is running"]);
}
