//! Sessions of `host gateway` whose plugins workers hold: the same answers and records as without workers, also when a
//! worker is lost.

use gymkhana_record::{Boundary, Ending, EpisodeRecord, Turn};
use gymkhana_rollout::ReplayDifference;
use serde_json::{Value as Json, json};

use super::gateway::{PLUGINS, desk, reply};
use crate::common::bus::Bus;
use crate::common::gateway::{Gateway, Session};
use crate::common::killed::Signalled;
use crate::common::{Desk, episodes, files_below};

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
        assert_eq!((&one.logs, &one.views, &one.privileged), (&other.logs, &other.views, &other.privileged));
        assert_eq!((&one.exchanges, &one.extras, &one.hint), (&other.exchanges, &other.extras, &other.hint));
        let called = |record: &EpisodeRecord| -> Vec<_> {
            record.costs.iter().map(|cost| (cost.at.clone(), cost.call_site.clone(), cost.cost.fuel)).collect()
        };
        assert_eq!(called(one), called(other), "{}", one.id);
        assert_eq!(ReplayDifference::between(one, other), None, "{}", one.id);
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
        let talk = worker.leave();
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
        stays.leave();
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
    stays.leave();
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
        // Without an answer, the last reply is the answer.
        let answer = if number % 2 == 0 { json!({"answer": "42"}) } else { json!({}) };
        let (status, ended) = gateway.ask("POST", &session.close, "", &answer);
        assert_eq!(status, 200, "{ended}");
        let failures = ended["failures"].to_string();
        assert_eq!(ended["ending"] == "dropped", failures.contains("has no snapshot"), "{ended}");
        endings.push(ended["ending"].as_str().expect("a text").to_owned());
    }
    assert_eq!(endings.iter().filter(|ending| *ending == "dropped").count(), 2, "{endings:?}");
    gateway.end();
    stays.leave();
    let found = episodes(&desk.path("sessions"));
    for (record, ending) in found.iter().zip(&endings) {
        assert_eq!(record.ending.to_string(), *ending);
        let faults = record.failures.iter().filter(|failure| failure.at == Boundary::Host).count();
        assert_eq!(faults, usize::from(record.ending == Ending::Dropped), "{:?}", record.failures);
        // What was played is in the record.
        let calls = record.agent.as_ref().expect("a harness played").calls.len();
        assert!(calls >= 1 && record.policy_turns.len() == 1, "{record:?}");
        let reply = record.policy_turns[0].transcript as usize;
        assert!(matches!(record.turns.get(reply), Some(Turn::Message { .. })), "{:?}", record.turns);
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
        if status != 201 {
            break refusal(&gateway);
        }
        // The task of a refused session goes to the next.
        assert_eq!(answer["task"]["task"]["index"], open.len(), "{answer}");
        open.push(format!("/sessions/{}/close", answer["id"].as_str().expect("an id")));
        assert!(open.len() < 8, "no limit");
    };
    assert!(!open.is_empty());
    let expected = format!("no session can be opened: all {} places of workers stayed in use for 0.2 s", open.len());
    assert!(text.starts_with(&expected), "{text}");
    // A closed session gives its place back.
    assert_eq!(gateway.ask("POST", &open[0], "", &json!({"answer": "1"})).0, 200);
    let (_, last) = gateway.ask("POST", "/sessions", "", &json!({}));
    assert_eq!(last["task"]["task"]["index"], open.len(), "{last}");
    let last = format!("/sessions/{}/close", last["id"].as_str().expect("an id"));
    for close in open[1..].iter().chain([&last]) {
        assert_eq!(gateway.ask("POST", close, "", &json!({"answer": "1"})).0, 200);
    }
    gateway.end();
    only.leave();
    // Refused sessions have no record.
    assert_eq!(episodes(&desk.path("sessions")).len(), open.len() + 1);
}

/// Its lease is long, and the call has a bound of its own.
#[test]
fn a_call_of_a_silent_worker_ends_after_its_bound() {
    let (bus, (desk, _peer)) = (Bus::start(), desk(LIMITS));
    let url = bus.url();
    let more = ["--plugins", PLUGINS, "--workers", &url, "--lease", "60", "--set", "gateway.answer_seconds=2"];
    let mut gateway = Gateway::start(&desk, &more);
    let silent = worker(&desk, &bus, &mut gateway);
    let session = gateway.open(&json!({}));
    silent.send("STOP");
    let answer = gateway.call(&session, "calculate", &json!({"expression": "6*7"}));
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(answer.to_string().contains("its worker gave no answer for 2 s"), "{answer}");
    silent.send("CONT");
    let (status, ended) = gateway.ask("POST", &session.close, "", &json!({"answer": "1"}));
    assert_eq!((status, &ended["ending"]), (200, &json!("dropped")), "{ended}");
    gateway.end();
    silent.leave();
    assert_eq!(episodes(&desk.path("sessions")).len(), 1);
}

/// A harness that leaves while it waits for a place does not keep its session.
#[test]
fn harnesses_that_leave_wait_for_nothing() {
    let (bus, (desk, _peer)) = (Bus::start(), desk(LIMITS));
    let gateway = front(&desk, &bus, PLUGINS, &["--set", "gateway.wait_seconds=600", "--no-records"]);
    let open = || gateway.ask("GET", "/health", "", &json!({})).1["sessions"].as_u64().expect("a number");
    let mut harness = std::net::TcpStream::connect(&gateway.address).expect("the gateway listens");
    let head =
        "POST /sessions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    std::io::Write::write_all(&mut harness, head.as_bytes()).expect("a request");
    while open() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(harness);
    let since = std::time::Instant::now();
    while open() > 0 {
        assert!(since.elapsed().as_secs() < 60, "it still waits");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    gateway.end();
}

#[test]
fn what_workers_cannot_hold_is_a_mistake() {
    let (desk, _peer) = desk(LIMITS);
    let with = |more: &[&str]| {
        let address = ["gateway", "gateway.toml", "--listen", "127.0.0.1:0", "--out", "sessions"];
        let bus = ["--workers", "nats://127.0.0.1:1"];
        desk.host(&[&address[..], &bus, more].concat()).mistake("no environment and no tool")
    };
    for plugins in [&[][..], &["--plugins", "plugins/answer-match.wasm"]] {
        let text = with(plugins);
        assert!(text.contains("no plugin is one") && text.contains("remove --workers"), "{text}");
    }
    let text = with(&["--plugins", PLUGINS]);
    assert!(text.contains("the bus at nats://127.0.0.1:1 cannot be used"), "{text}");
    let text = with(&["--plugins", PLUGINS, "--set", "context.strategy=edits"]);
    assert!(text.contains("--workers excludes [context]"), "{text}");
}

/// A second gateway with the same folder is refused before it takes the workers of the first.
#[test]
fn a_refused_gateway_takes_no_workers() {
    let (bus, (desk, _peer)) = (Bus::start(), desk("limits = { reply_tokens = 12 }"));
    let mut gateway = front(&desk, &bus, RECALL, &[]);
    let only = worker(&desk, &bus, &mut gateway);
    let session = gateway.open(&json!({}));
    let url = bus.url();
    let second = ["gateway", "gateway.toml", "--listen", "127.0.0.1:0", "--out", "sessions", "--plugins", RECALL];
    let text = desk.host(&[&second[..], &["--workers", &url]].concat()).mistake("the folder is in use");
    assert!(text.contains("sessions"), "{text}");
    // Its episode, which has no snapshots, goes on.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(gateway.call(&session, "calculate", &json!({"expression": "6*7"}))["content"][0]["text"], "42");
    assert_eq!(gateway.ask("POST", &session.close, "", &json!({"answer": "1"})).0, 200);
    gateway.end();
    only.leave();
}

/// Workers get neither the rewards nor the policy's address, and their sessions have the environment's options and wrappers.
/// A call that ends the episode at another worker is the action.
#[test]
fn workers_get_what_episodes_need() {
    let more = "success = \"answer-match.correct\"\n\
        environment = { options = { user = \"rules\" }, wrap = [{ plugin = \"turn-cost\", price = 0.25 }] }\n\
        plugins = { booking = { model = \"guest\" } }\nmodels = { guest = { script = [\"hello\"] } }\n\
        limits = { reply_tokens = 12 }";
    let plugins = "plugins/booking.wasm,plugins/turn-cost.wasm,plugins/answer-match.wasm";
    let play = |gateway: &Gateway, between: &dyn Fn()| {
        let session = gateway.open(&json!({"task": {"split": "train", "index": 0}, "seed": 3}));
        reply(gateway, &session, &[user("first")]);
        let unsound = json!({"day": "someday", "hour": 19, "guests": 2, "area": "bar"});
        let mut answers = vec![gateway.call(&session, "book", &unsound)];
        between();
        answers.push(gateway.call(&session, "book", &json!({"day": "monday", "hour": 19, "guests": 2, "area": "bar"})));
        assert_eq!(answers[1]["_meta"]["gymkhana/done"], true, "{answers:?}");
        answers.push(gateway.call(&session, "book", &json!({})));
        answers.push(gateway.ask("POST", &session.close, "", &json!({"answer": "ignored"})).1);
        answers
    };
    let (local, _first_peer) = desk(more);
    let gateway = Gateway::start(&local, &["--plugins", plugins]);
    let expected = play(&gateway, &|| {});
    gateway.end();
    let (bus, (desk, peer)) = (Bus::start(), desk(more));
    let mut gateway = front(&desk, &bus, plugins, &[]);
    let (one, other) = (worker(&desk, &bus, &mut gateway), worker(&desk, &bus, &mut gateway));
    assert_eq!(play(&gateway, &|| one.send("KILL")), expected);
    gateway.end();
    one.end();
    other.leave();
    let found = episodes(&desk.path("sessions"));
    assert_same(&episodes(&local.path("sessions")), &found);
    assert_eq!(found[0].environment_rewards[0].rewards.len(), 2, "two steps, each with its price");
    assert_replays(&desk, 1);
    let reward = std::fs::read(desk.path("plugins/answer-match.wasm")).expect("a plugin");
    let mut texts = vec![];
    for (file, _) in files_below(&desk.path("cache")) {
        let bytes = std::fs::read(desk.path("cache").join(file)).expect("a file");
        assert_ne!(bytes, reward, "workers have a reward");
        texts.extend(String::from_utf8(bytes));
    }
    let run_file =
        texts.iter().find(|text| text.contains("turn-cost") && text.contains("success =")).expect("a run file");
    assert!(run_file.contains("user = \"rules\"") && !run_file.contains("answer-match"), "{run_file}");
    assert!(!run_file.contains(&peer.url()), "{run_file}");
}

#[test]
fn environments_that_do_not_start_are_reported_as_without_workers() {
    let more = "environment = { options = { behaviour = \"error-start\" } }\nlimits = { reply_tokens = 12 }";
    let plugins = "plugins/guest-hostile-environment.wasm";
    let (local, _first_peer) = desk(more);
    let gateway = Gateway::start(&local, &["--plugins", plugins]);
    let expected = gateway.ask("POST", "/sessions", "", &json!({}));
    assert!(expected.1.to_string().contains("an error, as asked"), "{expected:?}");
    gateway.end();
    let (bus, (desk, _peer)) = (Bus::start(), desk(more));
    let mut gateway = front(&desk, &bus, plugins, &[]);
    let only = worker(&desk, &bus, &mut gateway);
    assert_eq!(gateway.ask("POST", "/sessions", "", &json!({})), expected);
    gateway.end();
    only.leave();
    let [record] = &episodes(&desk.path("sessions"))[..] else { panic!("one record") };
    assert_eq!(record.ending, Ending::EnvironmentFailed);
}

/// The bus ends and comes back, and the gateway is killed: its journal has the session.
#[test]
fn a_lost_bus_and_a_killed_gateway_keep_the_sessions() {
    let (mut bus, (desk, _peer)) = (Bus::start(), desk(LIMITS));
    let url = bus.url();
    let mut gateway = Gateway::start(&desk, &["--plugins", PLUGINS, "--workers", &url, "--lease", "20"]);
    let only = worker(&desk, &bus, &mut gateway);
    let sessions = [gateway.open(&json!({})), gateway.open(&json!({}))];
    for session in &sessions {
        reply(&gateway, session, &[user("first")]);
    }
    bus.kill_and_restart(true);
    for session in &sessions {
        assert_eq!(gateway.call(session, "calculate", &json!({"expression": "6*7"}))["content"][0]["text"], "42");
    }
    assert_eq!(gateway.ask("POST", &sessions[0].close, "", &json!({"answer": "1"})).1["ending"], "terminated");
    gateway.kill();
    let mut gateway = front(&desk, &bus, PLUGINS, &[]);
    assert!(gateway.notes.contains("the last gateway was killed: 1 open session kept"), "{}", gateway.notes);
    // The worker holds episodes of the new gateway.
    gateway.wait_for(" joined: ");
    let last = gateway.open(&json!({}));
    assert_eq!(gateway.ask("POST", &last.close, "", &json!({"answer": "1"})).0, 200);
    gateway.end();
    only.leave();
    let found = episodes(&desk.path("sessions"));
    let endings: Vec<Ending> = found.iter().map(|record| record.ending).collect();
    assert_eq!(endings, [Ending::Terminated, Ending::Dropped, Ending::AgentFailed]);
    assert_eq!(found[1].agent.as_ref().expect("a harness played").calls.len(), 1);
}

/// A gateway that ends does not wait for workers that are gone.
#[test]
fn the_end_does_not_wait_for_lost_workers() {
    let (bus, (desk, _peer)) = (Bus::start(), desk(LIMITS));
    let mut gateway = front(&desk, &bus, PLUGINS, &["--set", "gateway.wait_seconds=3600"]);
    let only = worker(&desk, &bus, &mut gateway);
    let session = gateway.open(&json!({}));
    only.send("KILL");
    only.end();
    gateway.wait_for(" stopped answering");
    let since = std::time::Instant::now();
    gateway.end();
    assert!(since.elapsed().as_secs() < 60, "{:?}", since.elapsed());
    let [record] = &episodes(&desk.path("sessions"))[..] else { panic!("one record") };
    assert_eq!((record.id.to_string(), record.ending), (session.episode, Ending::Dropped));
}
