//! Sessions of `host gateway` whose plugins workers hold: the same answers and records as without workers, also when a
//! worker is lost.

use gymkhana_record::{Boundary, Ending, EpisodeRecord};
use gymkhana_rollout::Difference;
use serde_json::{Value as Json, json};

use super::gateway::{PLUGINS, desk, reply};
use crate::common::bus::Bus;
use crate::common::gateway::{Gateway, Session};
use crate::common::killed::Signalled;
use crate::common::{Desk, episodes};

const LIMITS: &str = "success = \"answer-match.correct\"\nlimits = { turns = 3, calls = 3, reply_tokens = 12 }";

/// An environment without snapshots, and a tool.
const RECALL: &str = "plugins/guest-recall.wasm,plugins/calculator.wasm";

/// A gateway whose sessions are at workers of the bus.
fn front(desk: &Desk, bus: &Bus, plugins: &str, more: &[&str]) -> Gateway {
    let url = bus.url();
    Gateway::start(desk, &[&["--plugins", plugins, "--workers", &url, "--lease", "2"], more].concat())
}

/// A worker that the gateway knows.
fn worker(desk: &Desk, bus: &Bus, gateway: &mut Gateway) -> Signalled {
    let worker = Signalled::start(desk, &["worker", &bus.url(), "--cache", "cache"]);
    gateway.wait_for(" joined: ");
    worker
}

/// Ends a worker in order; returns what it said.
fn leave(worker: Signalled) -> String {
    worker.send("TERM");
    let outcome = worker.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.talk
}

fn user(text: &str) -> Json {
    json!({"role": "user", "content": text})
}

/// Four sessions, each with the first of its two halves played: a reply, and a call.
fn first_halves(gateway: &Gateway) -> (Vec<Session>, Vec<Json>) {
    let open = |index: u64| gateway.open(&json!({"task": {"split": "train", "index": index}, "seed": 100 + index}));
    let sessions: Vec<Session> = (0..4).map(open).collect();
    let mut answers = vec![];
    for session in &sessions {
        answers.push(reply(gateway, session, &[user("first")]));
        answers.push(gateway.call(session, "calculate", &json!({"expression": "7/3"})));
    }
    (sessions, answers)
}

/// The second halves: a call that fails, one that does not exist, one beyond the limit, a reply, and the end.
fn second_halves(gateway: &Gateway, sessions: &[Session], answers: &mut Vec<Json>) {
    for session in sessions {
        answers.push(gateway.call(session, "calculate", &json!({"expression": "1/0"})));
        answers.push(gateway.call(session, "fly", &json!({})));
        answers.push(gateway.call(session, "calculate", &json!({"expression": "1+1"})));
        answers.push(reply(gateway, session, &[user("second")]));
        answers.push(gateway.ask("POST", &session.close, "", &json!({"answer": "42"})).1);
    }
}

/// Answers and records of a gateway without workers.
fn alone() -> (Vec<Json>, Vec<EpisodeRecord>) {
    let (desk, _peer) = desk(LIMITS);
    let gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    let (sessions, mut answers) = first_halves(&gateway);
    second_halves(&gateway, &sessions, &mut answers);
    gateway.end();
    (answers, episodes(&desk.path("sessions")))
}

fn assert_same(expected: &[EpisodeRecord], found: &[EpisodeRecord]) {
    assert_eq!(expected.len(), found.len());
    for (one, other) in expected.iter().zip(found) {
        assert_eq!((one.id, &one.task, one.seed, one.ending), (other.id, &other.task, other.seed, other.ending));
        assert_eq!((&one.rewards, &one.scores, one.success), (&other.rewards, &other.scores, other.success));
        assert_eq!((&one.opening, &one.turn_limit, &one.agent), (&other.opening, &other.turn_limit, &other.agent));
        assert_eq!(Difference::between(one, other), None, "{}", one.id);
    }
}

fn assert_replays(desk: &Desk, count: usize) {
    let replayed = desk.host(&["replay", "sessions"]).succeeded();
    assert!(replayed.ends_with(&format!(" replayed, every byte equal: {count}\n")), "{replayed}");
}

#[test]
fn sessions_at_workers_are_those_of_a_gateway_alone() {
    let (expected, expected_records) = alone();
    assert!(expected.iter().any(|answer| answer.to_string().contains("division by zero")), "{expected:?}");
    let (bus, (desk, _peer)) = (Bus::start(), desk(LIMITS));
    let mut gateway = front(&desk, &bus, PLUGINS, &[]);
    let workers = [worker(&desk, &bus, &mut gateway), worker(&desk, &bus, &mut gateway)];
    let (sessions, mut answers) = first_halves(&gateway);
    second_halves(&gateway, &sessions, &mut answers);
    assert_eq!(answers, expected);
    gateway.end();
    for worker in workers {
        let talk = leave(worker);
        assert!(talk.contains("held 2 episodes"), "{talk}");
    }
    let found = episodes(&desk.path("sessions"));
    assert_same(&expected_records, &found);
    assert_replays(&desk, found.len());
}

#[test]
fn sessions_of_a_lost_worker_continue_at_another() {
    let (expected, expected_records) = alone();
    for signal in ["KILL", "STOP", "TERM"] {
        let (bus, (desk, _peer)) = (Bus::start(), desk(LIMITS));
        let mut gateway = front(&desk, &bus, PLUGINS, &[]);
        let (lost, stays) = (worker(&desk, &bus, &mut gateway), worker(&desk, &bus, &mut gateway));
        let (sessions, mut answers) = first_halves(&gateway);
        lost.send(signal);
        second_halves(&gateway, &sessions, &mut answers);
        assert_eq!(answers, expected, "{signal}");
        gateway.wait_for("2 of its episodes continue elsewhere");
        gateway.end();
        if signal == "STOP" {
            lost.send("KILL");
        }
        lost.end();
        leave(stays);
        let found = episodes(&desk.path("sessions"));
        assert_same(&expected_records, &found);
        assert_replays(&desk, found.len());
    }
}

/// A session of tools without an environment keeps what they remember.
#[test]
fn sessions_of_tools_move_with_their_state() {
    let (bus, (desk, _peer)) = (Bus::start(), desk("limits = { reply_tokens = 12 }"));
    let mut gateway = front(&desk, &bus, "plugins/memory.wasm", &[]);
    let lost = worker(&desk, &bus, &mut gateway);
    let session = gateway.open(&json!({}));
    reply(&gateway, &session, &[user("first")]);
    let text = json!({"text": "the key is under the stone"});
    assert_eq!(gateway.call(&session, "memory_insert", &text)["isError"], false);
    let stays = worker(&desk, &bus, &mut gateway);
    lost.send("KILL");
    lost.end();
    let found = gateway.call(&session, "memory_search", &json!({"query": ""}));
    assert!(found.to_string().contains("under the stone"), "{found}");
    assert_eq!(gateway.ask("POST", &session.close, "", &json!({})).1["ending"], "terminated");
    gateway.end();
    leave(stays);
    assert_replays(&desk, 1);
}

/// Sessions of a plugin without snapshots end with their worker, and those of other workers go on.
#[test]
fn sessions_without_snapshots_are_reported_as_lost() {
    let (bus, (desk, _peer)) = (Bus::start(), desk("limits = { turns = 3, reply_tokens = 12 }"));
    let mut gateway = front(&desk, &bus, RECALL, &[]);
    let (lost, stays) = (worker(&desk, &bus, &mut gateway), worker(&desk, &bus, &mut gateway));
    let sessions: Vec<Session> = (0..4).map(|_| gateway.open(&json!({}))).collect();
    for session in &sessions {
        reply(&gateway, session, &[user("first")]);
        assert_eq!(gateway.call(session, "calculate", &json!({"expression": "6*7"}))["content"][0]["text"], "42");
    }
    lost.send("KILL");
    lost.end();
    // Half of the sessions learn of it by a call, and half at their end.
    let mut endings = vec![];
    for (number, session) in sessions.iter().enumerate() {
        if number < 2 {
            let answer = gateway.call(session, "calculate", &json!({"expression": "2*3"}));
            if answer["isError"] == true {
                let text = answer["content"][0]["text"].as_str().expect("a text");
                assert!(text.starts_with("the episode is lost: worker ") && text.contains("has no snapshot"), "{text}");
                // The session has ended.
                let body = json!({"model": "policy", "messages": [user("second")]});
                let (status, refused) = gateway.ask("POST", &session.chat, &session.key, &body);
                assert!((400..500).contains(&status), "{refused}");
            } else {
                assert_eq!(answer["content"][0]["text"], "6");
            }
        }
        let (status, ended) = gateway.ask("POST", &session.close, "", &json!({"answer": "42"}));
        assert_eq!(status, 200, "{ended}");
        let failures = ended["failures"].to_string();
        assert_eq!(ended["ending"] == "dropped", failures.contains("has no snapshot"), "{ended}");
        endings.push(ended["ending"].as_str().expect("a text").to_owned());
    }
    assert_eq!(endings.iter().filter(|ending| *ending == "dropped").count(), 2, "{endings:?}");
    gateway.end();
    leave(stays);
    let found = episodes(&desk.path("sessions"));
    for (record, ending) in found.iter().zip(&endings) {
        assert_eq!(record.ending.to_string(), *ending);
        let faults = record.failures.iter().filter(|failure| failure.at == Boundary::Host).count();
        assert_eq!(faults, usize::from(record.ending == Ending::Dropped), "{:?}", record.failures);
        // What was played is in the record.
        let calls = record.agent.as_ref().expect("a harness played").calls.len();
        assert!(calls >= 1 && record.policy_turns.len() == 1, "{record:?}");
    }
    let replayed = desk.host(&["replay", "sessions"]).succeeded();
    assert!(replayed.contains("2 episodes replayed, every byte equal: 2"), "{replayed}");
}

#[test]
fn sessions_wait_for_workers_and_are_refused_without_a_place() {
    let (bus, (desk, _peer)) = (Bus::start(), desk(&format!("{LIMITS}\nsandbox = {{ instances = 8 }}")));
    let mut gateway = front(&desk, &bus, PLUGINS, &["--set", "gateway.wait_seconds=0.2"]);
    let refusal = |gateway: &Gateway| {
        let (status, refused) = gateway.ask("POST", "/sessions", "", &json!({}));
        assert_eq!(status, 503, "{refused}");
        refused["error"]["message"].as_str().expect("a message").to_owned()
    };
    let text = refusal(&gateway);
    assert!(text.starts_with("no session can be opened: no worker joined for 0.2 s"), "{text}");
    assert!(text.contains("start `host worker`"), "{text}");
    let only = worker(&desk, &bus, &mut gateway);
    let mut open = vec![];
    let text = loop {
        let (status, answer) = gateway.ask("POST", "/sessions", "", &json!({}));
        match status {
            201 => open.push(format!("/sessions/{}/close", answer["id"].as_str().expect("an id"))),
            _ => break refusal(&gateway),
        }
        assert!(open.len() < 8, "no limit");
    };
    assert!(!open.is_empty());
    let expected = format!("no session can be opened: all {} places of workers stayed in use for 0.2 s", open.len());
    assert!(text.starts_with(&expected), "{text}");
    // A closed session gives its place back.
    assert_eq!(gateway.ask("POST", &open[0], "", &json!({"answer": "1"})).0, 200);
    gateway.open(&json!({}));
    gateway.end();
    leave(only);
    // Refused sessions have no record.
    assert_eq!(episodes(&desk.path("sessions")).len(), open.len() + 1);
}

#[test]
fn workers_without_plugins_are_a_mistake() {
    let (desk, _peer) = desk("limits = { reply_tokens = 8 }");
    let text = desk.host(&["gateway", "gateway.toml", "--workers", "nats://127.0.0.1:1"]).mistake("no plugins");
    assert!(text.contains("no plugin is given") && text.contains("remove --workers"), "{text}");
}
