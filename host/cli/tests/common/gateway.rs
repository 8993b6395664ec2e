//! `host gateway` as a child process, and requests to it as a harness sends them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

use super::{Desk, fill};

/// A gateway in front of a server, with records in `sessions`.
pub struct Gateway {
    child: Child,
    errors: BufReader<ChildStderr>,
    pub address: String,
    /// Lines before the address.
    pub notes: String,
}

impl Gateway {
    pub fn start(desk: &Desk, more: &[&str]) -> Self {
        let mut arguments = vec!["gateway", "gateway.toml", "--listen", "127.0.0.1:0"];
        if !more.contains(&"--no-records") {
            arguments.extend(["--out", "sessions"]);
        }
        arguments.extend(more);
        let mut command = desk.command_on_small_disk(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the host can be started");
        let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut notes = String::new();
        loop {
            let mut line = String::new();
            assert!(errors.read_line(&mut line).expect("a line") > 0, "the gateway ended: {notes}");
            match line.trim().split_once("the gateway is at http://") {
                Some((_, address)) => return Self { child, errors, address: address.to_owned(), notes },
                None => notes.push_str(&line),
            }
        }
    }

    /// Reads what it says up to the line with this text; returns that line.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.errors.read_line(&mut line).expect("a line") > 0, "the gateway ended before `{text}`");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Calls a function of the session's tools; returns its answer.
    pub fn call(&self, session: &Session, name: &str, arguments: &Json) -> Json {
        let params = serde_json::json!({"name": name, "arguments": arguments});
        let call = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut answer = self.ask("POST", &session.mcp, "", &call).1;
        answer["result"].take()
    }

    /// Sends a request and returns the status and the body.
    pub fn ask(&self, method: &str, path: &str, key: &str, body: &Json) -> (u16, Json) {
        ask(&self.address, method, path, key, body).expect("an answer")
    }

    /// Opens a session.
    pub fn open(&self, wanted: &Json) -> Session {
        let (status, session) = self.ask("POST", "/sessions", "", wanted);
        assert_eq!(status, 201, "{session}");
        let text = |name: &str| session[name].as_str().expect("a text").to_owned();
        Session {
            chat: format!("{}/chat/completions", self.path(&session["base_url"])),
            mcp: self.path(&session["mcp_url"]),
            close: format!("/sessions/{}/close", text("id")),
            key: text("api_key"),
            episode: text("episode"),
        }
    }

    /// A URL of the gateway without its address.
    pub fn path(&self, url: &Json) -> String {
        url.as_str().expect("a URL").split_once(&self.address).expect("its address").1.to_owned()
    }

    /// Fills or frees its disk.
    pub fn fill_disk(&self, is_full: bool) {
        fill(&self.child, is_full);
    }

    /// Sends it a signal.
    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
    }

    pub fn end(mut self) {
        self.send(Signal::TERM);
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("the rest");
        assert!(self.child.wait().expect("it ended").success(), "{rest}");
    }
}

/// Where a harness finds its session.
pub struct Session {
    pub chat: String,
    pub mcp: String,
    pub close: String,
    pub key: String,
    pub episode: String,
}

/// Writes the file of a gateway with `more` in front of its policy: the model in `model`, at a server.
pub fn write_file(desk: &Desk, more: &str, url: &str) {
    let server = format!("{{ url = \"{url}\", protocol = \"vllm\", name = \"tiny\", retries = 1 }}");
    let policy = format!("[policy]\ncheckpoint = \"model\"\nserver = {server}\n");
    desk.write("gateway.toml", format!("{more}\n{policy}"));
}

/// Sends a request to a server; returns the status and the body. `None` without a whole answer.
pub fn ask(address: &str, method: &str, path: &str, key: &str, body: &Json) -> Option<(u16, Json)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let body = body.to_string();
    let accept = "application/json, text/event-stream";
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: {accept}\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    write!(stream, "{head}{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}
