//! Sessions of `host serve` that workers hold: the same answers and records as without workers, also when a worker is lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gymkhana_record::{Boundary, Ending, EpisodeRecord};
use gymkhana_rollout::ReplayDifference;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

use crate::common::bus::{Bus, Limits};
use crate::common::killed::Signalled;
use crate::common::server::Server;
use crate::common::{Desk, episodes};

/// Longest time until a worker has joined.
const PATIENCE: Duration = Duration::from_secs(120);

/// Episodes with tools, and scores that depend on the calls.
const PROBLEMS: &[&str] = &["plugins/word-problems.wasm", "plugins/calculator.wasm", "plugins/answer-match.wasm"];
const PROBLEMS_FILE: &str = "success = \"answer-match.correct\"\n[verltool]\nenvironment = \"word-problems\"\n";
const PROBLEMS_TURNS: &[&str] = &[
    "<calculate>7/3</calculate>",
    "<calculate>1/0</calculate>",
    "<calculate>2*(3+4)</calculate>",
    "The answer is 42.",
];

/// Episodes of an environment with random moves.
pub const LAKE: &[&str] = &["plugins/frozen-lake.wasm"];
pub const LAKE_FILE: &str = "
[verltool]
environment = \"frozen-lake\"
[environments.frozen-lake.options]
slippery = true
map = \"8x8\"
";
const LAKE_TURNS: &[&str] = &["down", "nonsense", "right", "up", "down", "right", "left", "left"];

/// Episodes of an environment without snapshots.
const RECALL: &[&str] = &["plugins/guest-recall.wasm"];
const RECALL_FILE: &str = "[verltool]\nenvironment = \"guest-recall\"\n";

const TRAJECTORIES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn server(desk: &Desk, plugins: &[&str], more: &[&str]) -> Server {
    let common = ["--config", "serve.toml", "--listen", "127.0.0.1:0"];
    Server::start(desk, &[&["serve"], plugins, &common, more].concat())
}

/// A server whose sessions are at workers of the bus.
pub fn front(desk: &Desk, bus: &Bus, plugins: &[&str]) -> Server {
    server(desk, plugins, &["--workers", &bus.url(), "--lease", "2"])
}

pub fn worker(desk: &Desk, bus: &Bus) -> Signalled {
    Signalled::start(desk, &["worker", &bus.url(), "--cache", "cache"])
}

/// A figure of the server's metrics.
fn figure(server: &Server, name: &str) -> u64 {
    let page = server.get("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("gymkhana_serve_{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {page}")).trim().parse().expect("a number")
}

pub fn wait_for(server: &Server, name: &str, number: u64) {
    let since = Instant::now();
    while figure(server, name) != number {
        assert!(since.elapsed() < PATIENCE, "{name} is {} and not {number}", figure(server, name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The answer to a turn without its time.
pub fn turn(server: &Server, trajectory: &str, text: &str) -> Json {
    let row = json!({ "seed": trajectory.bytes().next().map(u64::from), "index": 0 });
    let mut answer = server.observe(trajectory, text, &row);
    answer.as_object_mut().expect("an object").remove("processing_time_ms");
    answer
}

/// Answers to these turns of all trajectories, which take turns.
fn turns(server: &Server, texts: &[&str]) -> Vec<Json> {
    let each = |text: &&str| TRAJECTORIES.map(|trajectory| turn(server, trajectory, text));
    texts.iter().flat_map(each).collect()
}

/// Ends a server in order; returns what it said.
pub fn stop(mut server: Server) -> String {
    kill_process(Pid::from_child(&server.child), Signal::TERM).expect("it runs");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut server.errors, &mut rest).expect("the rest");
    assert!(server.child.wait().expect("it ended").success(), "{rest}");
    rest
}

fn records(desk: &Desk, folder: &str) -> Vec<EpisodeRecord> {
    episodes(&desk.path(&format!("served/{folder}")))
}

fn assert_same(expected: &[EpisodeRecord], found: &[EpisodeRecord]) {
    assert_eq!(expected.len(), found.len());
    for (one, other) in expected.iter().zip(found) {
        assert_eq!((one.id, &one.task, one.seed, one.ending), (other.id, &other.task, other.seed, other.ending));
        assert_eq!((&one.rewards, &one.scores, one.success), (&other.rewards, &other.scores, other.success));
        assert_eq!(ReplayDifference::between(one, other), None, "{}", one.id);
    }
}

fn assert_replays(desk: &Desk, folder: &str, count: usize) {
    let replayed = desk.host(&["replay", &format!("served/{folder}")]).succeeded();
    assert_eq!(replayed, format!("{count} episodes replayed, every byte equal: {count}\n"));
}

/// Answers and records of a server without workers.
fn alone(plugins: &[&str], file: &str, texts: &[&str], folder: &str) -> (Vec<Json>, Vec<EpisodeRecord>) {
    let desk = Desk::new();
    desk.write("serve.toml", file);
    let server = server(&desk, plugins, &[]);
    let answers = turns(&server, texts);
    stop(server);
    (answers, records(&desk, folder))
}

#[test]
fn sessions_at_workers_are_those_of_a_server_alone() {
    for (plugins, file, texts, folder) in
        [(PROBLEMS, PROBLEMS_FILE, PROBLEMS_TURNS, "word-problems"), (LAKE, LAKE_FILE, LAKE_TURNS, "frozen-lake")]
    {
        let (expected, expected_records) = alone(plugins, file, texts, folder);
        let (bus, desk) = (Bus::start(), Desk::new());
        desk.write("serve.toml", file);
        let server = front(&desk, &bus, plugins);
        let url = bus.url();
        let once = || Signalled::start(&desk, &["worker", &url, "--cache", "cache", "--once"]);
        let workers = [once(), once()];
        wait_for(&server, "workers", 2);
        let answers = turns(&server, texts);
        assert_eq!(answers, expected);
        assert_eq!((figure(&server, "episodes_moved_total"), figure(&server, "episodes_lost_total")), (0, 0));
        let talk = stop(server);
        assert!(!talk.contains("continue elsewhere"), "{talk}");
        for worker in workers {
            let outcome = worker.end_soon();
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            assert!(outcome.talk.contains("held ") && !outcome.talk.contains("played"), "{}", outcome.talk);
        }
        let found = records(&desk, folder);
        assert_same(&expected_records, &found);
        assert_replays(&desk, folder, found.len());
    }
}

#[test]
fn sessions_of_a_killed_worker_continue_at_another() {
    let (expected, expected_records) = alone(PROBLEMS, PROBLEMS_FILE, PROBLEMS_TURNS, "word-problems");
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", PROBLEMS_FILE);
    let server = front(&desk, &bus, PROBLEMS);
    let (killed, stays) = (worker(&desk, &bus), worker(&desk, &bus));
    wait_for(&server, "workers", 2);
    let (first, second) = PROBLEMS_TURNS.split_at(2);
    let mut answers = turns(&server, first);
    killed.send("KILL");
    killed.end();
    // Another worker joins later and takes sessions, too.
    let late = worker(&desk, &bus);
    answers.extend(turns(&server, second));
    assert_eq!(answers, expected);
    let moved = figure(&server, "episodes_moved_total");
    assert!((2..=3).contains(&moved), "{moved} of five episodes were at the killed worker");
    assert_eq!(figure(&server, "episodes_lost_total"), 0);
    let talk = stop(server);
    assert!(talk.contains(" stopped answering; "), "{talk}");
    stays.leave();
    late.leave();
    let found = records(&desk, "word-problems");
    assert_same(&expected_records, &found);
    assert_replays(&desk, "word-problems", found.len());
}

/// States that are larger than a message of the bus go through its object store, in both directions.
#[test]
fn large_states_move_between_workers() {
    let (expected, expected_records) = alone(PROBLEMS, PROBLEMS_FILE, PROBLEMS_TURNS, "word-problems");
    let (bus, desk) = (Bus::with_limits(Limits { payload: 18 << 10, ..Limits::default() }), Desk::new());
    desk.write("serve.toml", PROBLEMS_FILE);
    let server = front(&desk, &bus, PROBLEMS);
    let (killed, stays) = (worker(&desk, &bus), worker(&desk, &bus));
    wait_for(&server, "workers", 2);
    let (first, second) = PROBLEMS_TURNS.split_at(3);
    let mut answers = turns(&server, first);
    killed.send("KILL");
    killed.end();
    answers.extend(turns(&server, second));
    assert_eq!(answers, expected);
    assert!(figure(&server, "episodes_moved_total") >= 2);
    stop(server);
    stays.leave();
    assert_same(&expected_records, &records(&desk, "word-problems"));
}

/// A session of tools keeps what they remember.
#[test]
fn sessions_of_tools_move_with_their_state() {
    let call = |text: &str| format!("<tool_call>{text}</tool_call>");
    let texts = [
        call(r#"{"name": "memory_insert", "arguments": {"text": "the key is under the stone"}}"#),
        call(r#"{"name": "memory_insert", "arguments": {"text": "the lamp is green"}}"#),
        call(r#"{"name": "memory_search", "arguments": {"query": ""}}"#),
    ];
    let texts = texts.each_ref().map(String::as_str);
    let plugins = ["plugins/memory.wasm"];
    let (expected, expected_records) = alone(&plugins, "", &texts, "tools-only");
    assert!(expected.last().is_some_and(|last| last.to_string().contains("under the stone")), "{expected:?}");
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", "");
    let server = front(&desk, &bus, &plugins);
    let (killed, stays) = (worker(&desk, &bus), worker(&desk, &bus));
    wait_for(&server, "workers", 2);
    let mut answers = turns(&server, &texts[..2]);
    killed.send("KILL");
    killed.end();
    answers.extend(turns(&server, &texts[2..]));
    assert_eq!(answers, expected);
    assert!(figure(&server, "episodes_moved_total") >= 2);
    stop(server);
    stays.leave();
    let found = records(&desk, "tools-only");
    assert_same(&expected_records, &found);
    assert_replays(&desk, "tools-only", found.len());
}

/// When more sessions are open than the workers have places, idle ones are parked and come back.
#[test]
fn parked_sessions_give_their_places_to_others() {
    let file = format!("{LAKE_FILE}[sessions]\nlive = 1\n");
    let (expected, expected_records) = alone(LAKE, &file, LAKE_TURNS, "frozen-lake");
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", file);
    let server = front(&desk, &bus, LAKE);
    let workers = [worker(&desk, &bus), worker(&desk, &bus)];
    wait_for(&server, "places", 2);
    assert_eq!(turns(&server, LAKE_TURNS), expected);
    assert!(figure(&server, "sessions_parked_total") >= 3);
    assert!(figure(&server, "sessions_live") <= 2);
    stop(server);
    for worker in workers {
        worker.leave();
    }
    assert_same(&expected_records, &records(&desk, "frozen-lake"));
}

/// The turn that a stopped worker does not answer is taken at another worker. What the stopped one does with it later counts
/// nothing.
#[test]
fn a_stopped_worker_is_left_and_joins_again() {
    let (expected, expected_records) = alone(LAKE, LAKE_FILE, LAKE_TURNS, "frozen-lake");
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", LAKE_FILE);
    let server = front(&desk, &bus, LAKE);
    let (stopped, stays) = (worker(&desk, &bus), worker(&desk, &bus));
    wait_for(&server, "workers", 2);
    let (first, rest) = LAKE_TURNS.split_at(3);
    let (second, third) = rest.split_at(2);
    let mut answers = turns(&server, first);
    stopped.send("STOP");
    answers.extend(turns(&server, second));
    assert_eq!(figure(&server, "workers"), 1);
    assert!(figure(&server, "episodes_moved_total") >= 2);
    stopped.send("CONT");
    wait_for(&server, "workers", 2);
    answers.extend(turns(&server, third));
    assert_eq!(answers, expected);
    assert_eq!(figure(&server, "episodes_lost_total"), 0);
    stop(server);
    let talk = stopped.leave();
    assert!(talk.contains("the server timed this worker out"), "{talk}");
    stays.leave();
    let found = records(&desk, "frozen-lake");
    assert_same(&expected_records, &found);
    assert_replays(&desk, "frozen-lake", found.len());
}

/// Sessions of a plugin without snapshots end with their worker, and those of other workers go on.
#[test]
fn sessions_without_snapshots_are_reported_as_lost() {
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", RECALL_FILE);
    let server = front(&desk, &bus, RECALL);
    let (killed, stays) = (worker(&desk, &bus), worker(&desk, &bus));
    wait_for(&server, "workers", 2);
    for answer in turns(&server, &["?"]) {
        assert_eq!(answer["valids"], json!([true]), "{answer}");
    }
    killed.send("KILL");
    killed.end();
    let answers: BTreeMap<&str, Json> =
        TRAJECTORIES.map(|trajectory| (trajectory, turn(&server, trajectory, "B"))).into();
    let (ended, lost): (Vec<_>, Vec<_>) =
        answers.iter().partition(|(_, answer)| answer["observations"][0]["owner"].is_null());
    assert!((2..=3).contains(&lost.len()) && ended.len() + lost.len() == 5, "{answers:?}");
    for (trajectory, answer) in lost.iter().copied() {
        let observation = &answer["observations"][0];
        assert_eq!((&observation["owner"], &answer["dones"][0]), (&json!("host"), &json!(true)), "{answer}");
        let text = observation["obs"].as_str().expect("a text");
        assert!(text.starts_with("the episode is lost: worker ") && text.contains("has no snapshot"), "{text}");
        assert!(text.contains("hint: reset the session"), "{text}");
        // It is over and does not begin again by itself.
        let after = turn(&server, trajectory, "again");
        assert!(after["observations"][0]["obs"].as_str().expect("a text").contains("it has ended"), "{after}");
    }
    for (_, answer) in ended.iter().copied() {
        assert_eq!((&answer["dones"][0], &answer["valids"][0]), (&json!(true), &json!(true)), "{answer}");
    }
    assert_eq!(figure(&server, "episodes_lost_total"), lost.len() as u64);
    stop(server);
    stays.leave();
    let found = records(&desk, "guest-recall");
    assert_eq!(found.len(), 5);
    let dropped: Vec<&EpisodeRecord> = found.iter().filter(|record| record.ending == Ending::Dropped).collect();
    assert_eq!(dropped.len(), lost.len());
    for record in dropped {
        let failure = record.failures.last().expect("a failure");
        assert_eq!(failure.at, Boundary::Host);
        assert!(failure.message.contains("stopped answering"), "{}", failure.message);
        assert!(record.turns.len() >= 3, "the turn before is in the record: {:?}", record.turns);
    }
}

#[test]
fn requests_wait_for_a_worker_and_then_say_that_none_came() {
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", format!("{LAKE_FILE}[sessions]\nwait_seconds = 0.5\n"));
    let server = front(&desk, &bus, LAKE);
    let refused = turn(&server, "a", "down");
    let observation = &refused["observations"][0];
    assert_eq!((&observation["owner"], &observation["invalid_reason"]), (&json!("host"), &json!("full")), "{refused}");
    let text = observation["obs"].as_str().expect("a text");
    assert!(text.contains("no worker joined for 0.5 s") && text.contains("hint: start `host worker`"), "{text}");
    stop(server);
    // A worker that comes in time takes the session.
    desk.write("serve.toml", format!("{LAKE_FILE}[sessions]\nwait_seconds = 50\n"));
    let server = front(&desk, &bus, LAKE);
    let late = worker(&desk, &bus);
    let answer = turn(&server, "a", "down");
    assert_eq!(answer["valids"], json!([true]), "{answer}");
    // Without a worker at the end, the record is what the server knows.
    late.leave();
    let talk = stop(server);
    assert!(talk.contains(" has left; 1 of its episodes"), "{talk}");
    let found = records(&desk, "frozen-lake");
    let last = found.last().expect("a record");
    assert_eq!(last.ending, Ending::Dropped);
    assert!(last.turns.len() >= 2, "{:?}", last.turns);
}

#[test]
fn a_bus_without_its_disk_gets_the_catalog_again() {
    let (expected, expected_records) = alone(LAKE, LAKE_FILE, LAKE_TURNS, "frozen-lake");
    let (mut bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", LAKE_FILE);
    let server = front(&desk, &bus, LAKE);
    let first = worker(&desk, &bus);
    wait_for(&server, "workers", 1);
    let (before, after) = LAKE_TURNS.split_at(3);
    let mut answers = turns(&server, before);
    bus.kill_and_restart(false);
    answers.extend(turns(&server, after));
    assert_eq!(answers, expected);
    let second = worker(&desk, &bus);
    wait_for(&server, "workers", 2);
    let talk = stop(server);
    assert!(talk.contains("the bus had lost the served catalog"), "{talk}");
    first.leave();
    second.leave();
    assert_same(&expected_records, &records(&desk, "frozen-lake"));
}

#[test]
fn only_workers_of_known_keys_hold_sessions() {
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", LAKE_FILE);
    let key = desk.host(&["worker", "--new-key", "own.key"]).succeeded().trim().to_owned();
    desk.write("keys", format!("{key} the only machine\n"));
    let server = server(&desk, LAKE, &["--workers", &bus.url(), "--lease", "2", "--worker-keys", "keys"]);
    let refused = desk.host(&["worker", &bus.url(), "--cache", "cache"]).mistake("a worker without a key");
    assert!(refused.contains("the server refused this worker: key "), "{refused}");
    assert!(refused.contains("is not one of the trainer's --worker-keys"), "{refused}");
    let known = Signalled::start(&desk, &["worker", &bus.url(), "--cache", "cache", "--key", "own.key"]);
    wait_for(&server, "workers", 1);
    assert_eq!(turn(&server, "a", "down")["valids"], json!([true]));
    let talk = stop(server);
    assert!(talk.contains("was refused: key "), "{talk}");
    known.leave();
}
