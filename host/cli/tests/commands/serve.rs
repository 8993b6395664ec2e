//! `host serve` as a user starts, kills and ends it, and the commands that read its records.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

use crate::common::Desk;

const CONFIG: &str = "[verltool]\nenvironment = \"frozen-lake\"\n";

/// A running server.
pub struct Server {
    pub child: Child,
    errors: BufReader<ChildStderr>,
    /// Lines before the one with the address.
    notes: Vec<String>,
    pub address: String,
}

impl Server {
    fn start(desk: &Desk) -> Self {
        Self::start_with(
            desk,
            &["serve", "plugins/frozen-lake.wasm", "--config", "serve.toml", "--listen", "127.0.0.1:0"],
        )
    }

    /// Starts `host` with these arguments and waits until it listens.
    pub fn start_with(desk: &Desk, arguments: &[&str]) -> Self {
        let mut command = desk.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the host can be started");
        let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut notes = Vec::new();
        loop {
            let mut line = String::new();
            assert!(errors.read_line(&mut line).expect("a line") > 0, "the server ended: {notes:?}");
            match line.trim().split_once(" at http://") {
                Some((_, address)) => return Self { child, errors, notes, address: address.to_owned() },
                None => notes.push(line),
            }
        }
    }

    /// Answer to a GET, with its head.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn observe(&self, trajectory: &str, action: &str) -> Json {
        let body = json!({
            "trajectory_ids": [trajectory], "actions": [action], "finish": [false], "is_last_step": [false],
            "extra_fields": [{ "seed": 1, "index": 2 }],
        })
        .to_string();
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let head = "POST /get_observation HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length:";
        write!(stream, "{head} {}\r\n\r\n{body}", body.len()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
    }
}

#[test]
fn a_killed_server_says_what_it_kept_and_records_replay() {
    let desk = Desk::new();
    desk.write("serve.toml", CONFIG);
    let mut server = Server::start(&desk);
    assert_eq!(server.observe("a", "nonsense")["valids"], json!([true]));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ended");
    let mut server = Server::start(&desk);
    let notes = server.notes.concat();
    assert!(notes.contains("the last server was killed: 1 unfinished episode"), "{notes}");
    assert_eq!(server.observe("a", "nonsense")["valids"], json!([true]));
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
    let mut page = Server::start_with(&desk, &["page", "served/frozen-lake", "--listen", "127.0.0.1:0"]);
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
