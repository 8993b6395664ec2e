//! Sessions with a server at a URL.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gymkhana_mcp::{Endpoint, McpLimits, McpServer, RemoteServer, plugin, tools_of};
use gymkhana_net::Secret;
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::ToolSession;
use serde_json::json;

use crate::{call, python, text};

/// A running HTTP server, killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server; returns it, its output after the port, and its address for sessions.
fn start() -> (Running, impl Iterator<Item = String>, RemoteServer) {
    start_with(&[])
}

/// Starts the server with more arguments.
fn start_with(more: &[&str]) -> (Running, impl Iterator<Item = String>, RemoteServer) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
    let mut child = Command::new(python()).args([program, "http"]).args(more).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = lines.next().unwrap();
    let secret = Some(("x-key".to_owned(), Secret::new("let me in")));
    let url = format!("http://127.0.0.1:{port}/mcp").parse().unwrap();
    (Running(child), lines, RemoteServer { url, private: true, secret })
}

fn server(remote: RemoteServer) -> McpServer {
    let limits = McpLimits { call: Duration::from_secs(20), start: Duration::from_secs(20), bytes: 256 << 10 };
    McpServer { name: "arithmetic".to_owned(), endpoint: Endpoint::Remote(remote), limits, only: vec![] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_at_a_url_answers_within_the_same_limits() {
    let (_running, mut lines, remote) = start();
    let server = server(remote);
    let list = tools_of(&server).unwrap();
    assert_eq!(lines.next().as_deref(), Some("deleted"), "the session is ended");
    let tool = plugin(list, Some(server)).unwrap();
    let mut session = ToolSession::open(&tool, None, &[], Seed(1)).await.unwrap();
    let sum = session.call(&call("add", &json!({"a": 2, "b": 40}))).await.unwrap();
    assert_eq!((text(&sum), sum.failed), ("42", false));
    let error = session.call(&call("misbehave", &json!({}))).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::ResultSize, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_cannot_be_read_fail_at_once() {
    let bodies = ["no-jsonrpc", "text-code", "nan", "half-surrogate"];
    let cases = bodies.into_iter().chain(["latin-1"]).map(|body| vec![body]);
    for more in cases.chain(bodies.into_iter().chain(["text-id"]).map(|body| vec![body, "events"])) {
        let (_running, _lines, remote) = start_with(&more);
        let server = server(remote);
        let tool = plugin(tools_of(&server).unwrap(), Some(server)).unwrap();
        let mut session = ToolSession::open(&tool, None, &[], Seed(1)).await.unwrap();
        let since = Instant::now();
        let error = session.call(&call("misbehave", &json!({}))).await.expect_err("no answer");
        assert_eq!(error.kind, FailureKind::Malformed, "{more:?}: {error}");
        assert!(error.message.starts_with("the server's answer cannot be read: "), "{error}");
        assert!(since.elapsed() < Duration::from_secs(15), "{more:?}: {:?}", since.elapsed());
    }
}

#[test]
fn addresses_and_keys_are_checked() {
    let (_running, _lines, remote) = start();
    let message = |remote: RemoteServer| tools_of(&server(remote)).map(drop).expect_err("no session").to_string();
    let private = message(RemoteServer { private: false, ..remote.clone() });
    assert!(private.contains("on this machine or in a private network"), "{private}");
    let keyless = message(RemoteServer { secret: None, ..remote });
    assert!(keyless.contains("403"), "{keyless}");
}
