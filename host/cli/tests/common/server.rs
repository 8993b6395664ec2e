//! A server that `host` runs, and a client that writes its requests by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::{Value as Json, json};

use super::Desk;

/// A running server.
pub struct Server {
    pub child: Child,
    /// Standard error behind the line with the address.
    pub errors: BufReader<ChildStderr>,
    /// Lines before the one with the address.
    pub notes: Vec<String>,
    pub address: String,
}

impl Server {
    /// Starts `host` with these arguments and waits until it listens.
    pub fn start(desk: &Desk, arguments: &[&str]) -> Self {
        Self::of(desk.command(arguments))
    }

    /// Starts a command of `host` and waits until it listens.
    pub fn of(mut command: Command) -> Self {
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

    /// The next line of standard error with this text.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.errors.read_line(&mut line).expect("a line") > 0, "the server ended before `{text}`");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Answer to a GET, with its head.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// VerlTool's answer to a turn of a trajectory; `extra` is its data row.
    pub fn observe(&self, trajectory: &str, action: &str, extra: &Json) -> Json {
        Self::observe_at(&self.address, trajectory, action, extra)
    }

    /// As [`Server::observe`], of the server at an address.
    pub fn observe_at(address: &str, trajectory: &str, action: &str, extra: &Json) -> Json {
        let body = json!({
            "trajectory_ids": [trajectory], "actions": [action], "finish": [false], "is_last_step": [false],
            "extra_fields": [extra],
        })
        .to_string();
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let head = "POST /get_observation HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length:";
        write!(stream, "{head} {}\r\n\r\n{body}", body.len()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that a test ended has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
