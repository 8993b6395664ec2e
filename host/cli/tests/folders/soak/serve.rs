//! `host serve` with clients: what a killed server has answered is in its records, once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value as Json, json};

use super::{Fault, MAX_KILLS, Soak, assert_none_runs_below, next_fault, send};
use crate::common::gateway::ask;
use crate::common::killed::assert_each_stored_once;
use crate::common::server::Server;
use crate::common::{Desk, episodes};

/// Clients at the same time.
const CLIENTS: u64 = 3;
/// Turns of a trajectory.
const TURNS: u64 = 3;
/// Longest time in milliseconds between two faults.
const LONGEST: u64 = 3_000;

/// A server of a frozen lake.
pub fn start(desk: &Desk, more: &[&str]) -> Server {
    let serve = ["serve", "plugins/frozen-lake.wasm", "--config", "serve.toml", "--listen", "127.0.0.1:0"];
    Server::start(desk, &[&serve, more].concat())
}

/// A folder with the file of the server.
pub fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("serve.toml", "[verltool]\nenvironment = \"frozen-lake\"\n");
    desk
}

/// Plays a trajectory whose actions begin with `name`, as far as the server answers. Returns the answered actions, and
/// whether all were answered.
pub fn play(soak: &Soak, address: &str, name: &str) -> (Vec<String>, bool) {
    let mut answered = vec![];
    let turn = |action: &str, finish: bool| {
        let body = json!({
            "trajectory_ids": [name], "actions": [action], "finish": [finish], "is_last_step": [finish],
            "extra_fields": [{"seed": 1, "index": 2}],
        });
        let (status, answer) = ask(address, "POST", "/get_observation", "", &body)?;
        soak.count("answers of servers", 1);
        Some((status, answer))
    };
    for number in 0..TURNS {
        let action = format!("{name}-{number}.");
        match turn(&action, false) {
            Some((200, answer)) if answer["valids"] == json!([true]) => answered.push(action),
            _ => return (answered, false),
        }
    }
    (answered, turn("", true).is_some())
}

/// Servers that are killed and stopped while clients play.
pub fn disturbed(soak: &Soak) {
    for round in (0..).take_while(|_| soak.goes_on()) {
        let desk = desk();
        let (address, over, answered) = (Mutex::new(None), Mutex::new(false), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (address, over, answered) = (&address, &over, &answered);
                scope.spawn(move || {
                    for number in 0.. {
                        if *over.lock().unwrap_or_else(PoisonError::into_inner) {
                            break;
                        }
                        let now: Option<String> = address.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        let played = now.map(|address| play(soak, &address, &format!("c{client}t{number}")));
                        let (actions, is_whole) = played.unwrap_or_default();
                        answered.lock().unwrap_or_else(PoisonError::into_inner).extend(actions);
                        if !is_whole {
                            sleep(Duration::from_millis(20));
                        }
                    }
                });
            }
            let server = kill(soak, round, &desk, &address);
            *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            end(server);
        });
        check(soak, &desk, &answered.into_inner().unwrap_or_else(PoisonError::into_inner));
        assert_none_runs_below(&desk.path(""));
    }
}

/// Ends a server in order.
pub fn end(mut server: Server) {
    send(&server.child, Signal::TERM);
    assert!(server.child.wait().expect("it ended").success());
}

/// Kills and stops servers; returns the last one.
fn kill(soak: &Soak, round: u64, desk: &Desk, address: &Mutex<Option<String>>) -> Server {
    let set = |now: Option<String>| *address.lock().unwrap_or_else(PoisonError::into_inner) = now;
    let (mut moments, mut server) = (soak.moments("serve", round), start(desk, &[]));
    set(Some(server.address.clone()));
    for _ in 0..MAX_KILLS {
        let (pause, fault) = next_fault(&mut moments, LONGEST);
        sleep(pause);
        match fault {
            Fault::Kill => {
                server.child.kill().expect("it runs");
                server.child.wait().expect("it ended");
                set(None);
                soak.count("killed serve", 1);
                server = start(desk, &[]);
                set(Some(server.address.clone()));
            }
            Fault::Stop(time) => {
                send(&server.child, Signal::STOP);
                sleep(time);
                send(&server.child, Signal::CONT);
                soak.count("stopped serve", 1);
            }
        }
    }
    server
}

/// Every answered action is in one record, once, and no action is in two.
fn check(soak: &Soak, desk: &Desk, answered: &[String]) {
    let out = desk.path("served/frozen-lake");
    assert_each_stored_once(&out);
    let records = episodes(&out);
    let mut found = BTreeMap::<String, u64>::new();
    for record in &records {
        let turns = serde_json::to_value(&record.turns).expect("JSON");
        texts(&turns, &mut |text| {
            if text.starts_with('c') && text.ends_with('.') && text.contains('-') {
                *found.entry(text.to_owned()).or_default() += 1;
            }
        });
    }
    for action in answered {
        assert_eq!(found.get(action), Some(&1), "{action} was answered");
    }
    let twice: Vec<_> = found.iter().filter(|(_, number)| **number != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    soak.count("episodes", records.len() as u64);
    desk.host(&["replay", "served/frozen-lake"]).succeeded();
}

/// Visits all texts of a value.
fn texts(value: &Json, visit: &mut impl FnMut(&str)) {
    match value {
        Json::String(text) => visit(text),
        Json::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Json::Object(fields) => fields.values().for_each(|field| texts(field, visit)),
        _ => {}
    }
}
