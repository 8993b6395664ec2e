//! Bounds of the table: parking, capacity, expiry, deadlines.

use std::time::Duration;

use gymkhana_http::Client;
use gymkhana_record::{NamedValue, Seed, Value};
use gymkhana_serve::endpoints::Protocol;
use gymkhana_serve::error::{ErrorKind, Owner};
use gymkhana_serve::session::{ClientSession, NextEpisode, SessionTable, SessionTarget, TurnRequest};
use serde_json::json;

use crate::common::{clients, serve};

async fn lake(sessions: &SessionTable, seed: u64) -> ClientSession {
    let what = SessionTarget::Environment { name: None, options: vec![] };
    let session = sessions.open(&Client::anyone(), Protocol::OpenEnv, what).await.unwrap();
    let begin = NextEpisode { split: Some("train".to_owned()), task: Some(seed), seed: Some(Seed(seed)) };
    session.reset(begin).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_sessions_continue_as_live_ones_do() {
    let config = "[environments.frozen-lake]\noptions = { slippery = true }\n";
    let narrow = serve(&["frozen-lake", "calculator"], &format!("[sessions]\nlive = 2\n{config}")).await;
    let wide = serve(&["frozen-lake", "calculator"], config).await;
    let (mut parked, mut live) = (vec![], vec![]);
    for seed in 0..6 {
        parked.push(lake(&narrow.sessions, seed).await);
        live.push(lake(&wide.sessions, seed).await);
    }
    assert_eq!(narrow.sessions.counts().live, 2);
    for turn in 0..3 {
        for (parked, live) in parked.iter().zip(&live) {
            let action = match turn {
                1 => TurnRequest::call("calculate", &json!({ "expression": "6*7" })),
                _ => TurnRequest::say("right"),
            };
            let steps = (parked.act(action.clone()).await, live.act(action).await);
            assert_eq!(steps.0, steps.1);
        }
    }
    let statuses =
        (parked[0].status().await.unwrap().episode.unwrap(), live[0].status().await.unwrap().episode.unwrap());
    assert_eq!(
        (statuses.0.rewards, statuses.0.turns, statuses.0.ending),
        (statuses.1.rewards, statuses.1.turns, statuses.1.ending)
    );
    let (narrow_counts, wide_counts) = (narrow.sessions.counts(), wide.sessions.counts());
    assert!(narrow_counts.parked >= 15, "{narrow_counts:?}");
    assert_eq!((narrow_counts.live, wide_counts.parked), (2, 0));
    narrow.stop().await;
    wide.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_beyond_a_bound_wait_or_are_refused() {
    // Two seats offer no snapshots, so that live episodes keep their place.
    let config = "[sessions]\nmax = 3\nlive = 1\nwait_seconds = 0.2\n";
    let served = serve(&["guest-two-seats"], config).await;
    let what = || SessionTarget::Environment { name: None, options: vec![] };
    let open = async || served.sessions.open(&Client::anyone(), Protocol::Ors, what()).await;
    let (first, second) = (open().await.unwrap(), open().await.unwrap());
    first.reset(NextEpisode::default()).await.unwrap();
    let full = second.reset(NextEpisode::default()).await.unwrap_err();
    assert_eq!((full.kind, full.owner), (ErrorKind::Full, Owner::Host), "{full}");
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { second.reset(NextEpisode::default()).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    first.close().await.unwrap();
    waiting.await.unwrap().unwrap();
    let _third = open().await.unwrap();
    let _fourth = open().await.unwrap();
    assert_eq!(open().await.err().unwrap().kind, ErrorKind::Full);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sessions_expire() {
    let served = serve(&["frozen-lake"], "[sessions]\nidle_seconds = 0.3\n").await;
    let idle = lake(&served.sessions, 1).await;
    let used = lake(&served.sessions, 2).await;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        used.ping();
    }
    assert!(!idle.is_open() && used.is_open());
    assert_eq!(idle.act(TurnRequest::say("left")).await.unwrap_err().kind, ErrorKind::UnknownSession);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_beyond_the_deadline_is_answered_and_its_session_goes_on() {
    let served = serve(&["guest-hostile-tool"], "[sessions]\nrequest_seconds = 0.1\n").await;
    let session =
        served.sessions.open(&Client::anyone(), Protocol::Mcp, SessionTarget::Tools { seed: Some(3) }).await.unwrap();
    let late = session.call("loop", &json!({})).await.unwrap_err();
    assert_eq!((late.kind, late.owner), (ErrorKind::Deadline, Owner::Tool));
    let busy = session.call("echo", &json!({ "text": "x" })).await.unwrap_err();
    assert_eq!((busy.kind, busy.owner), (ErrorKind::Busy, Owner::Agent));
    // The sandbox ends the endless call after half a second of its time.
    let mut answer = session.call("echo", &json!({ "text": "x" })).await;
    for _ in 0..60 {
        if answer.is_ok() {
            break;
        }
        answer = session.call("echo", &json!({ "text": "x" })).await;
    }
    assert_eq!(answer.unwrap().0.text(), "x");
    served.stop().await;
}

/// Sets of options that no session uses make room for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_closed_sessions_make_room() {
    let served = serve(&["long-reader"], "[sandbox]\ninstances = 200\n").await;
    let open = async |number: i64| {
        let options = vec![NamedValue { name: "memory-chars".to_owned(), value: Value::Integer(100 + number) }];
        let what = SessionTarget::Environment { name: None, options };
        served.sessions.open(&Client::anyone(), Protocol::Ors, what).await
    };
    for number in 0..130 {
        open(number).await.unwrap().close().await.unwrap();
    }
    let mut held = vec![];
    for number in 200..264 {
        held.push(open(number).await.unwrap());
    }
    let full = open(300).await.err().unwrap();
    assert!(
        full.kind == ErrorKind::Full && full.message.contains("of all clients use 64 different sets of options"),
        "{full}"
    );
    open(200).await.unwrap();
    held.pop().unwrap().close().await.unwrap();
    open(300).await.unwrap();
    served.stop().await;
}

/// A client whose open sessions use as many sets of options as one of several clients may leaves some to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_a_client_are_bounded() {
    let config = format!("[sandbox]\ninstances = 200\n{}", clients(&["e", "f"]));
    let served = serve(&["long-reader"], &config).await;
    let open = async |client: &str, number: i64| {
        let options = vec![NamedValue { name: "memory-chars".to_owned(), value: Value::Integer(100 + number) }];
        let what = SessionTarget::Environment { name: None, options };
        served.sessions.open(&Client::new(client), Protocol::Ors, what).await
    };
    let mut held = vec![];
    for number in 0..48 {
        held.push(open("e", number).await.unwrap());
    }
    let full = open("e", 48).await.err().unwrap();
    assert!(full.message.contains("of client `e` use 48 different sets of options"), "{full}");
    open("e", 0).await.unwrap();
    for number in 48..64 {
        held.push(open("f", number).await.unwrap());
    }
    let full = open("f", 64).await.err().unwrap();
    assert!(full.message.contains("of all clients use 64 different sets of options"), "{full}");
    served.stop().await;
}

/// What clients wrote in their present episodes is bounded, and a new episode or a closed session makes room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_open_sessions_are_bounded() {
    let served = serve(&["frozen-lake", "calculator"], "[sessions]\ntext_mib = 1\n").await;
    let (one, two) = (lake(&served.sessions, 1).await, lake(&served.sessions, 2).await);
    let say = async |session: &ClientSession, kib: usize| session.act(TurnRequest::say("a".repeat(kib << 10))).await;
    say(&one, 400).await.unwrap();
    say(&two, 400).await.unwrap();
    for session in [&one, &two] {
        let full = say(session, 400).await.unwrap_err();
        assert_eq!((full.kind, full.owner), (ErrorKind::Full, Owner::Host), "{full}");
        assert!(full.message.contains("hint: close or reset sessions, or raise sessions.text_mib"), "{full}");
    }
    let call = json!({ "expression": format!("1{}", " ".repeat(400 << 10)) });
    assert_eq!(one.call("calculate", &call).await.unwrap_err().kind, ErrorKind::Full, "a call");
    // The episodes go on with turns that fit.
    say(&one, 100).await.unwrap();
    two.reset(NextEpisode::default()).await.unwrap();
    say(&one, 400).await.unwrap();
    one.close().await.unwrap();
    drop(one);
    say(&two, 900).await.unwrap();
    served.stop().await;
}

/// Ends an episode with a text.
async fn answered(sessions: &SessionTable, text: &str) -> ClientSession {
    let what = SessionTarget::Environment { name: None, options: vec![] };
    let session = sessions.open(&Client::anyone(), Protocol::Ors, what).await.unwrap();
    session.reset(NextEpisode { task: Some(5), seed: Some(Seed(1)), ..NextEpisode::default() }).await.unwrap();
    assert!(session.act(TurnRequest::say(text)).await.unwrap().done());
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_has_a_share_of_its_rewards_memory() {
    let config = "success = \"answer-match.correct\"\n[plugins.answer-match]\nmemory_mib = 8\n";
    let served = serve(&["word-problems", "answer-match"], config).await;
    let text = format!("{}. The answer is 42.", "a".repeat(900 << 10));
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(answered(&served.sessions, &text).await.id());
    }
    let refused = served.sessions.score_group(&Client::anyone(), &ids).await.unwrap_err();
    assert_eq!((refused.kind, refused.owner), (ErrorKind::TooLarge, Owner::Agent), "{refused}");
    let limit = format!("above the limit of {} of the memory of reward `answer-match`", 2 << 20);
    assert!(refused.message.contains(&limit), "{refused}");
    assert!(refused.message.contains("hint: score fewer at a time"), "{refused}");
    let scored = served.sessions.score_group(&Client::anyone(), &ids[..2]).await.unwrap();
    assert!(scored.iter().all(|score| score.failures.is_empty() && !score.plugins.is_empty()), "{scored:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_that_fails_on_a_group_gives_no_rewards() {
    let config =
        |behaviour: &str| format!("[plugins.guest-hostile-reward]\noptions = {{ behaviour = \"{behaviour}\" }}\n");
    for behaviour in ["good", "trap"] {
        let served = serve(&["word-problems", "guest-hostile-reward"], &config(behaviour)).await;
        let (one, two) = (answered(&served.sessions, "1").await, answered(&served.sessions, "2").await);
        let scored = served.sessions.score_group(&Client::anyone(), &[one.id(), two.id()]).await;
        if behaviour == "good" {
            assert!(scored.unwrap().iter().all(|score| score.plugins[0].scores[0].total == 1.0));
        } else {
            let failed = scored.unwrap_err();
            assert_eq!((failed.kind, failed.owner), (ErrorKind::Failed, Owner::Reward), "{failed}");
            let whose = format!("session `{}` cannot be scored", one.id());
            assert!(failed.message.contains(&whose) && failed.message.contains("as asked"), "{failed}");
        }
        served.stop().await;
    }
}
