//! Sessions with real processes: answers, isolation, hostile servers, and the end of their processes.
//!
//! The servers are `server.py`, a program of Python's standard library.

#![allow(clippy::unwrap_used)]

mod children;
mod over_http;
mod replay;

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use gymkhana_mcp::{ChildServer, Endpoint, McpError, McpLimits, McpServer, ToolList, plugin, tools_of};
use gymkhana_record::{Call, FailureKind, Part, Seed};
use gymkhana_sandbox::{CallError, ToolOutput, ToolSession};
use serde_json::{Value, json};

/// A server that runs `server.py` with this behaviour.
pub fn server(behaviour: &str) -> McpServer {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    server_of("arithmetic", vec![python(), program.display().to_string(), behaviour.to_owned()])
}

/// The Python itself: `python3` may be a program that looks for it by variables, which servers do not get.
pub fn python() -> String {
    static PYTHON: LazyLock<String> = LazyLock::new(|| {
        let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    });
    PYTHON.clone()
}

/// A server that runs this command.
pub fn server_of(name: &str, command: Vec<String>) -> McpServer {
    let child = ChildServer { command, env: vec![], folder: None, network: false };
    let limits = McpLimits { call: Duration::from_secs(20), start: Duration::from_secs(30), bytes: 256 << 10 };
    McpServer { name: name.to_owned(), endpoint: Endpoint::Child(child), limits, only: vec![] }
}

fn with_env(mut server: McpServer, name: &str, value: &str) -> McpServer {
    let Endpoint::Child(child) = &mut server.endpoint else { unreachable!("a child") };
    child.env.push((name.to_owned(), value.to_owned()));
    server
}

/// A call of this function.
pub fn call(name: &str, arguments: &Value) -> Call {
    Call { id: "call-0".to_owned(), name: name.to_owned(), arguments: arguments.to_string() }
}

async fn open(server: &McpServer) -> Result<ToolSession, CallError> {
    let list = tools_of(&self::server("plain")).unwrap();
    ToolSession::open(&plugin(list, Some(server.clone())).unwrap(), None, &[], Seed(1)).await
}

async fn ask(server: &McpServer, name: &str, arguments: Value) -> Result<ToolOutput, CallError> {
    open(server).await?.call(&call(name, &arguments)).await
}

/// The text of an answer that is one text.
pub fn text(answer: &ToolOutput) -> &str {
    match &answer.content[..] {
        [Part::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_its_own_process_and_state() {
    let server = server("plain");
    let list = tools_of(&server).unwrap();
    assert_eq!((list.server.name.as_str(), list.server.version.as_str()), ("arithmetic", "1.4.0"));
    assert_eq!(list.protocol, "2025-11-25");
    assert_eq!(list.to_file().unwrap(), tools_of(&server).unwrap().to_file().unwrap(), "equal files");
    let tool = plugin(list, Some(server)).unwrap();
    let functions = tool.functions(&[]).await.unwrap();
    assert_eq!(functions[0].name, "add");
    assert_eq!(functions[1].name, "count_calls", "a dot is not allowed in a function's name");
    // The author's order of the properties is kept.
    assert!(
        functions[0].parameters.starts_with(r#"{"type":"object","properties":{"b":"#),
        "{}",
        functions[0].parameters
    );
    let mut one = ToolSession::open(&tool, None, &[], Seed(1)).await.unwrap();
    let mut other = ToolSession::open(&tool, None, &[], Seed(1)).await.unwrap();
    let sum = one.call(&call("add", &json!({"a": 2, "b": 40}))).await.unwrap();
    assert_eq!((text(&sum), sum.failed), ("42", false));
    assert_eq!(text(&one.call(&call("count_calls", &json!({}))).await.unwrap()), "2");
    assert_eq!(text(&other.call(&call("count_calls", &json!({}))).await.unwrap()), "1");
    let picture = one.call(&call("picture", &json!({}))).await.unwrap();
    assert!(
        matches!(&picture.content[..], [Part::Image(media)] if media.bytes == *b"\x89PNG\r\n\x1a\n"),
        "{picture:?}"
    );
    let failed = one.call(&call("fail", &json!({}))).await.unwrap();
    assert_eq!((text(&failed), failed.failed), ("it does not work", true));
    let refused = one.call(&call("refuse", &json!({}))).await.unwrap();
    assert_eq!((text(&refused), refused.failed), ("the arguments are not right", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_sees_a_list_of_variables_and_no_network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let closed = with_env(server("plain"), "PROBE_PORT", &port);
    let seen: Value = serde_json::from_str(text(&ask(&closed, "look", json!({})).await.unwrap())).unwrap();
    let expected = ["HOME", "LANG", "PATH", "PROBE_PORT", "TMPDIR"];
    let seen_env: Vec<&str> = seen["env"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // Python itself adds LC_CTYPE in some builds.
    let seen_env: Vec<&str> = seen_env.into_iter().filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(seen_env, expected);
    assert_eq!(seen["folder"], seen["home"]);
    assert_eq!(seen["connects"], false);
    let mut open = closed;
    let Endpoint::Child(child) = &mut open.endpoint else { unreachable!("a child") };
    child.network = true;
    let seen: Value = serde_json::from_str(text(&ask(&open, "look", json!({})).await.unwrap())).unwrap();
    assert_eq!(seen["connects"], true, "with the grant");
    // The session is over, and with it its folder.
    let folder = seen["folder"].as_str().unwrap().to_owned();
    let gone = wait_until(|| !Path::new(&folder).exists()).await;
    assert!(gone, "{folder}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_ends_with_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let mut server = with_env(server("hang"), "PIDS", &pids.display().to_string());
    server.limits.call = Duration::from_secs(2);
    let since = Instant::now();
    let error = ask(&server, "misbehave", json!({})).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (FailureKind::Deadline, "the MCP server `arithmetic` did not answer for 2 s")
    );
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let pids = std::fs::read_to_string(pids).unwrap();
    for pid in pids.split(' ') {
        let ended = wait_until(|| !is_running(pid)).await;
        assert!(ended, "process {pid} of {pids} is alive");
    }
}

/// The process is stopped by a signal: it holds its pipes and says nothing. Other sessions go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_is_named_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let mut server = with_env(server("stop"), "PIDS", &pids.display().to_string());
    server.limits.call = Duration::from_secs(2);
    let mut other = open(&self::server("plain")).await.unwrap();
    let since = Instant::now();
    let error = ask(&server, "misbehave", json!({})).await.unwrap_err();
    let named = "the MCP server `arithmetic` did not answer for 2 s";
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Deadline, named));
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let pid = std::fs::read_to_string(pids).unwrap();
    assert!(wait_until(|| !is_running(&pid)).await, "process {pid} is alive");
    assert_eq!(text(&other.call(&call("add", &json!({"a": 2, "b": 40}))).await.unwrap()), "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_at_the_start_is_named() {
    let mut server = server("stop-at-start");
    server.limits.start = Duration::from_secs(2);
    let error = tools_of(&server).unwrap_err();
    assert!(matches!(error, McpError::StartTime { .. }), "{error}");
    assert!(error.to_string().starts_with("it was not ready after 2 s"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_end_their_session_and_nothing_else() {
    for (behaviour, kind, message) in [
        ("flood", FailureKind::ResultSize, "the server sent more than 256 KiB before its answer was complete"),
        ("large", FailureKind::ResultSize, "the server sent more than 256 KiB before its answer was complete"),
        ("endless-line", FailureKind::ResultSize, "the server sent more than 256 KiB before its answer was complete"),
        ("die", FailureKind::Trap, "the server closed the connection"),
        ("wrong", FailureKind::Malformed, "the server's answer is not that of a finished call"),
    ] {
        let error = ask(&server(behaviour), "misbehave", json!({})).await.expect_err(behaviour);
        assert_eq!((error.kind, error.message.as_str()), (kind, message), "{behaviour}");
    }
    // Lines that are not messages, and requests that the client does not answer, are passed over.
    for behaviour in ["garbage", "ask"] {
        let answer = ask(&server(behaviour), "misbehave", json!({})).await.unwrap();
        assert_eq!(text(&answer), "well", "{behaviour}");
    }
}

/// The server waits after its answer, as if it had none.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_cannot_be_read_fail_at_once() {
    for (behaviour, reason) in [
        ("no-jsonrpc", "it lacks `\"jsonrpc\": \"2.0\"`"),
        ("text-code", "its `error.code` is not an integer"),
        ("text-id", "its `id` is not that of the request"),
        ("nan", "it is not JSON, which has no `NaN`"),
        ("half-surrogate", "it is not JSON: a text has half of a surrogate pair"),
        ("latin-1", "it is not UTF-8"),
    ] {
        let since = Instant::now();
        let error = ask(&server(behaviour), "misbehave", json!({})).await.expect_err(behaviour);
        assert_eq!(error.kind, FailureKind::Malformed, "{behaviour}: {error}");
        assert!(error.message.starts_with(&format!("the server's answer cannot be read: {reason}")), "{error}");
        assert!(since.elapsed() < Duration::from_secs(15), "{behaviour}: {:?}", since.elapsed());
    }
}

#[test]
fn the_order_of_the_list_is_no_difference() {
    let (plain, turned) = (tools_of(&server("plain")).unwrap(), tools_of(&server("turned")).unwrap());
    assert_eq!(plain.to_file().unwrap(), turned.to_file().unwrap());
    // A run of an earlier version keeps the order that it has.
    let mut earlier = plain.clone();
    earlier.tools.reverse();
    earlier.check(&turned).unwrap();
    for (behaviour, part) in
        [("turned-and-changed", "the tool `add` differs"), ("turned-and-fewer", "the tool `add` is missing")]
    {
        let changed = earlier.check(&tools_of(&server(behaviour)).unwrap()).expect_err(behaviour).to_string();
        assert!(changed.contains(part), "{changed}");
    }
}

#[test]
fn fields_that_a_server_leaves_out_are_named() {
    for (behaviour, part) in [
        ("no-version", "its answer to `initialize` lacks a text `serverInfo.version`"),
        ("number-version", "its answer to `initialize` lacks a text `serverInfo.version`"),
        ("no-name", "its answer to `initialize` lacks a text `serverInfo.name`"),
        ("no-server-info", "its answer to `initialize` lacks an object `serverInfo`"),
        ("no-capabilities", "its answer to `initialize` lacks an object `capabilities`"),
        ("no-schema", "its answer to `tools/list` is not a list of tools with `name` and `inputSchema`"),
    ] {
        let error = tools_of(&server(behaviour)).map(drop).expect_err(behaviour).to_string();
        assert!(error.starts_with(&format!("it failed at the start: {part}")), "{behaviour}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_list_of_tools_ends_the_run() {
    for (behaviour, part) in [
        ("fewer", "the tool `misbehave` is missing"),
        ("newer", "the server is `arithmetic 2.0.0`, not `arithmetic 1.4.0`"),
    ] {
        let error = open(&server(behaviour)).await.map(drop).expect_err(behaviour);
        assert_eq!(error.kind, FailureKind::Fault);
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[test]
fn a_server_that_does_not_start_is_an_error_with_its_words() {
    let message = |server: &McpServer| tools_of(server).map(drop).expect_err("no server").to_string();
    let complaint = message(&server("complain"));
    assert!(complaint.contains("cannot find the database"), "{complaint}");
    let mut slow = server("hang-at-start");
    slow.limits.start = Duration::from_millis(1500);
    assert!(message(&slow).starts_with("it was not ready after 1.5 s"), "{}", message(&slow));
    let mut absent = server("plain");
    let Endpoint::Child(child) = &mut absent.endpoint else { unreachable!("a child") };
    child.command = vec!["no-such-program-here".to_owned()];
    assert!(matches!(tools_of(&absent), Err(McpError::Spawn { .. })));
    assert!(message(&server("same-names")).contains("the same function name `a_b`"));
    let wanted = McpServer { only: vec!["subtract".to_owned()], ..server("plain") };
    assert!(message(&wanted).starts_with("it offers no tool `subtract`\nhint: its tools are `add`, `count.calls`"));
}

#[test]
fn a_plugin_file_holds_the_list_and_nothing_else() {
    let only = vec!["add".to_owned()];
    let list = tools_of(&McpServer { only, ..server("plain") }).unwrap();
    let file = list.to_file().unwrap();
    assert_eq!(ToolList::in_file(&file).unwrap().unwrap(), list);
    let manifest = gymkhana_registry::read_manifest(&file).unwrap();
    assert_eq!((manifest.name.to_string(), manifest.version.to_string()), ("mcp/arithmetic".into(), "1.4.0".into()));
    manifest.check_contract().unwrap();
    let longer = [&file[..], &[0, 2, 1, b'x']].concat();
    assert!(matches!(ToolList::in_file(&longer), Some(Err(McpError::Damaged))));
    assert!(ToolList::in_file(b"\0asm\x0d\0\x01\0").is_none());
    for end in 0..file.len() {
        // A truncated file is damaged, or too short to be a list at all.
        assert!(ToolList::in_file(&file[..end]).is_none_or(|list| list.is_err()), "{end}");
    }
}

/// Whether a process exists and has not ended. A process that has ended but was not waited for counts as ended.
fn is_running(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn wait_until(done: impl Fn() -> bool) -> bool {
    for _ in 0..200 {
        if done() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}
