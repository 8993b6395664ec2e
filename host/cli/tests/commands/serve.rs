//! `host serve` as a user starts, kills and ends it, and the commands that read its records.

use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

use crate::common::Desk;
use crate::common::server::Server;

const CONFIG: &str = "[verltool]\nenvironment = \"frozen-lake\"\n";

/// A server of a frozen lake.
fn start(desk: &Desk) -> Server {
    Server::start(desk, &["serve", "plugins/frozen-lake.wasm", "--config", "serve.toml", "--listen", "127.0.0.1:0"])
}

/// The answer to a turn of a trajectory.
fn observe(server: &Server, trajectory: &str, action: &str) -> Json {
    server.observe(trajectory, action, &json!({ "seed": 1, "index": 2 }))
}

#[test]
fn a_killed_server_says_what_it_kept_and_records_replay() {
    let desk = Desk::new();
    desk.write("serve.toml", CONFIG);
    let mut server = start(&desk);
    assert_eq!(observe(&server, "a", "nonsense")["valids"], json!([true]));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ended");
    let mut server = start(&desk);
    let notes = server.notes.concat();
    assert!(notes.contains("the last server was killed: 1 unfinished episode"), "{notes}");
    assert_eq!(observe(&server, "a", "nonsense")["valids"], json!([true]));
    let pid = Pid::from_child(&server.child);
    kill_process(pid, Signal::TERM).expect("it runs");
    let mut rest = String::new();
    server.errors.read_to_string(&mut rest).expect("the rest");
    assert!(server.child.wait().expect("it ended").success(), "{rest}");
    let shown = desk.host(&["show", "served/frozen-lake"]).succeeded();
    assert!(shown.contains("2 episodes like 0.served.0.0.0.0"), "{shown}");
    let replayed = desk.host(&["replay", "served/frozen-lake"]).succeeded();
    assert!(replayed.contains("1 episode replayed, every byte equal: 1"), "{replayed}");
    assert!(replayed.contains("1 episode skipped: dropped when recorded"), "{replayed}");
    let mut page = Server::start(&desk, &["page", "served/frozen-lake", "--listen", "127.0.0.1:0"]);
    let episodes = page.get("/runs/0/episodes");
    assert!(episodes.contains("200 OK") && episodes.contains("2 episodes, 1 to 2 shown"), "{episodes}");
    kill_process(Pid::from_child(&page.child), Signal::TERM).expect("it runs");
    assert!(page.child.wait().expect("it ended").success());
}

#[test]
fn a_page_refuses_short_tokens_and_folders_without_runs() {
    let desk = Desk::new();
    desk.write("run.toml", "seed = 1\n");
    let short = desk.host(&["page", ".", "--token", "short"]).mistake("a short token");
    assert!(short.contains("the token is too short"), "{short}");
    let none = desk.host(&["page", "."]).mistake("a folder without a run");
    assert!(none.contains("does not hold a run"), "{none}");
}

#[test]
fn an_address_that_others_reach_needs_tokens() {
    let desk = Desk::new();
    let refused = desk.host(&["serve", "plugins/calculator.wasm", "--listen", "0.0.0.0:0", "--no-records"]);
    let text = refused.mistake("an open address");
    assert!(text.contains("no client has a token") && text.contains("[clients.NAME]"), "{text}");
}
