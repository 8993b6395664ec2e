//! Gateways with harnesses elsewhere: what a killed gateway has answered is in the records, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use gymkhana_policy_server::Protocol;
use gymkhana_record::{Ending, EpisodeRecord};
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use super::{Fault, MAX_KILLS, Soak, assert_none_runs_below, next_fault};
use crate::common::gateway::{Gateway, ask, write_file};
use crate::common::killed::assert_each_stored_once;
use crate::common::{Desk, WORD_PROBLEMS, episodes};
use crate::peer::{Peer, write_model};

/// Harnesses at the same time.
const CLIENTS: u64 = 3;
/// Turns of a session.
const TURNS: usize = 2;
/// Longest time in milliseconds between two faults.
const LONGEST: u64 = 4_000;

/// What a harness was told about its session.
#[derive(Default)]
struct Told {
    replies: usize,
    is_closed: bool,
}

/// What harnesses know.
#[derive(Default)]
pub struct Harnesses {
    /// Address of the gateway; absent while there is none.
    address: Mutex<Option<String>>,
    told: Mutex<BTreeMap<String, Told>>,
}

impl Harnesses {
    pub fn set_address(&self, address: Option<&str>) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address.map(str::to_owned);
    }

    fn address(&self) -> Option<String> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, episode: &str, change: impl FnOnce(&mut Told)) {
        change(self.told.lock().unwrap_or_else(PoisonError::into_inner).entry(episode.to_owned()).or_default());
    }

    /// Plays a session, as far as the gateway answers. `None` if it does not.
    pub fn play(&self, soak: &Soak) -> Option<()> {
        let address = self.address()?;
        let tell = |method, path: &str, key: &str, body: &Json| {
            let (status, answer) = ask(&address, method, path, key, body)?;
            soak.count("answers of gateways", 1);
            (200..300).contains(&status).then_some(answer)
        };
        let session = tell("POST", "/sessions", "", &json!({}))?;
        let text = |name: &str| session[name].as_str().expect("a text").to_owned();
        let (episode, key) = (text("episode"), text("api_key"));
        self.note(&episode, |_| {});
        let chat = format!("{}/chat/completions", path_of(&text("base_url")));
        let mut messages = vec![json!({"role": "user", "content": "first"})];
        for _ in 0..TURNS {
            let mut reply = tell("POST", &chat, &key, &json!({"model": "policy", "messages": messages}))?;
            self.note(&episode, |told| told.replies += 1);
            messages.extend([reply["choices"][0]["message"].take(), json!({"role": "user", "content": "more"})]);
        }
        tell("POST", &format!("/sessions/{}/close", text("id")), "", &json!({"answer": "1"}))?;
        self.note(&episode, |told| told.is_closed = true);
        Some(())
    }
}

/// The path of a URL.
fn path_of(url: &str) -> String {
    let behind = url.split_once("://").expect("a URL").1;
    format!("/{}", behind.split_once('/').expect("a path").1)
}

/// A folder with a model, its server and the file of a gateway.
pub fn desk() -> (Desk, Peer) {
    let desk = Desk::new();
    write_model(2, &desk.path("model"));
    let peer = Peer::start(Protocol::Vllm, &desk.path("model"));
    write_file(&desk, "success = \"answer-match.correct\"\nlimits = { turns = 4, reply_tokens = 12 }", &peer.url());
    (desk, peer)
}

/// Gateways that are killed and stopped while harnesses play.
pub fn disturbed(soak: &Soak) {
    for round in (0..).take_while(|_| soak.goes_on()) {
        let (desk, _peer) = desk();
        let (harnesses, over) = (Harnesses::default(), Mutex::new(false));
        let is_over = || *over.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over() {
                        if harnesses.play(soak).is_none() {
                            sleep(Duration::from_millis(20));
                        }
                    }
                });
            }
            let gateway = kill(soak, round, &desk, &harnesses);
            *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            gateway.end();
        });
        check(soak, &desk, &harnesses.told.into_inner().unwrap_or_else(PoisonError::into_inner));
        assert_none_runs_below(&desk.path(""));
    }
}

/// Kills and stops gateways; returns the last one.
fn kill(soak: &Soak, round: u64, desk: &Desk, harnesses: &Harnesses) -> Gateway {
    let start = || {
        let gateway = Gateway::start(desk, &["--plugins", WORD_PROBLEMS]);
        harnesses.set_address(Some(&gateway.address));
        gateway
    };
    let (mut moments, mut gateway) = (soak.moments("gateway", round), start());
    for _ in 0..MAX_KILLS {
        let (pause, fault) = next_fault(&mut moments, LONGEST);
        sleep(pause);
        match fault {
            Fault::Kill => {
                gateway.kill();
                harnesses.set_address(None);
                soak.count("killed gateway", 1);
                gateway = start();
            }
            Fault::Stop(time) => {
                gateway.send(Signal::STOP);
                sleep(time);
                gateway.send(Signal::CONT);
                soak.count("stopped gateway", 1);
            }
        }
    }
    gateway
}

/// Compares the records with what harnesses were told.
fn check(soak: &Soak, desk: &Desk, told: &BTreeMap<String, Told>) {
    let out = desk.path("sessions");
    assert_each_stored_once(&out);
    let records: BTreeMap<String, EpisodeRecord> =
        episodes(&out).into_iter().map(|record| (record.id.to_string(), record)).collect();
    assert_eq!(records.len(), episodes(&out).len(), "an episode is stored twice");
    let lost: BTreeSet<&String> = told.keys().filter(|episode| !records.contains_key(*episode)).collect();
    assert!(lost.is_empty(), "sessions without a record: {lost:?}");
    for (episode, told) in told {
        let record = &records[episode];
        let turns = record.policy_turns.len();
        assert!((told.replies..=TURNS).contains(&turns), "{episode}: {turns} turns, {} were told", told.replies);
        if told.is_closed {
            assert_eq!((record.ending, turns), (Ending::Terminated, TURNS), "{episode}: {record:?}");
        }
    }
    soak.count("sessions of gateways", told.len() as u64);
    soak.count("episodes", records.len() as u64);
    desk.host(&["replay", "sessions"]).succeeded();
}
