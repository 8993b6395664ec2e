//! Hostile tools: every attack is a typed failure or has no effect, and other sessions continue.

use std::time::{Duration, Instant};

use crate::common::{call, config, load, logging, plugin, sandbox, text_of};
use gymkhana_record::{FailureKind, LOG_TRUNCATED, LogLevel, NamedValue, Seed, Value};
use gymkhana_sandbox::{CallError, Limits, Sandbox, SandboxConfig, ToolSession};

async fn session() -> ToolSession {
    ToolSession::open(&plugin("guest-hostile-tool"), None, &[], Seed(7)).await.expect("a session")
}

async fn failure(function: &str, arguments: &str) -> CallError {
    let mut session = session().await;
    session.call(&call("state", "{}")).await.expect("the first call is harmless");
    let error = session.call(&call(function, arguments)).await.expect_err(function);
    let after = session.call(&call("state", "{}")).await.expect_err("its state is lost");
    assert_eq!(after.kind, error.kind);
    assert!(after.message.contains("state was lost"), "{after}");
    error
}

async fn answer(function: &str) -> String {
    let mut session = session().await;
    text_of(&session.call(&call(function, "{}")).await.expect(function))
}

#[tokio::test]
async fn a_panic_is_a_trap_with_its_message() {
    let error = failure("trap", "{}").await;
    assert_eq!(error.kind, FailureKind::Trap);
    let place = error.message.strip_prefix("the plugin panicked at tests/guests/hostile-tool/src/lib.rs:");
    assert!(place.is_some_and(|rest| rest.ends_with(": a panic, as asked")), "{error}");
}

#[tokio::test]
async fn endless_recursion_is_a_trap() {
    assert_eq!(failure("recurse", "{}").await.kind, FailureKind::Trap);
}

#[tokio::test]
async fn an_endless_loop_ends_with_its_budget() {
    let error = failure("loop", "{}").await;
    assert_eq!((error.kind, error.message.contains("budget of 300 ms")), (FailureKind::Budget, true), "{error}");
}

#[tokio::test]
async fn the_wall_clock_limit_applies_below_the_budget() {
    let limits = Limits { budget: Duration::from_secs(60), wall: Duration::from_millis(50), ..Limits::default() };
    let sandbox = Sandbox::new(&SandboxConfig { limits, ..config() }).expect("a sandbox");
    let plugin = load(&sandbox, "guest-hostile-tool");
    let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
    let error = session.call(&call("loop", "{}")).await.expect_err("endless");
    assert_eq!(error.kind, FailureKind::Deadline, "{error}");
    let after = session.call(&call("state", "{}")).await.expect_err("its state is lost");
    assert_eq!(after.kind, FailureKind::Deadline, "{after}");
}

#[tokio::test]
async fn an_endless_loop_of_host_calls_ends_with_its_budget() {
    assert_eq!(failure("host-calls", "{}").await.kind, FailureKind::Budget);
}

#[tokio::test]
async fn allocating_without_end_is_a_memory_failure() {
    let error = failure("memory", "{}").await;
    assert_eq!(error.kind, FailureKind::Memory, "{error}");
}

#[tokio::test]
async fn a_result_above_the_cap_is_refused_and_one_below_is_not() {
    assert_eq!(failure("huge", r#"{"size": 9000000}"#).await.kind, FailureKind::ResultSize);
    let mut session = session().await;
    let answer = session.call(&call("huge", r#"{"size": 8000000}"#)).await.expect("below 8 MiB");
    assert_eq!(text_of(&answer).len(), 8_000_000);
}

/// The guest returns a string whose declared length of four gigabytes exceeds its memory.
#[tokio::test]
async fn a_result_longer_than_the_guests_memory_is_malformed() {
    let error = failure("claim", "{}").await;
    assert_eq!(error.kind, FailureKind::Malformed, "{error}");
}

#[tokio::test]
async fn functions_whose_schema_is_no_json_are_refused() {
    let tool = plugin("guest-hostile-tool");
    let with = |flag| vec![NamedValue { name: "bad-schema".to_owned(), value: Value::Flag(flag) }];
    let error = tool.functions(&with(true)).await.expect_err("no JSON");
    assert_eq!(error.kind, FailureKind::Malformed);
    assert!(error.message.contains("`echo` are not the JSON text of an object"), "{error}");
    assert!(tool.functions(&with(false)).await.is_ok());
}

#[tokio::test]
async fn an_error_of_the_plugin_leaves_its_state() {
    let mut session = session().await;
    let error = session.call(&call("error", "{}")).await.expect_err("as asked");
    assert_eq!(error.kind, FailureKind::Refused);
    let answer = session.call(&call("state", "{}")).await.expect("still alive");
    assert_eq!(text_of(&answer), "2");
}

#[tokio::test]
async fn a_failed_answer_is_no_failure() {
    let answer = session().await.call(&call("failed", "{}")).await.expect("an answer");
    assert!(answer.failed);
}

#[tokio::test]
async fn there_is_no_file_no_variable_and_no_network() {
    assert!(answer("environment-variables").await.starts_with("0 environment variables"));
    let files = answer("files").await;
    assert!(files.starts_with("reading denied") && files.contains("writing denied"), "{files}");
    assert!(!std::path::Path::new("/tmp/gymkhana-guest").exists());
    assert!(answer("sockets").await.starts_with("denied"));
}

#[tokio::test]
async fn a_sleep_takes_no_time_and_moves_the_virtual_clock() {
    let started = Instant::now();
    assert_eq!(answer("sleep").await, "slept 3600 s");
    assert!(started.elapsed() < Duration::from_secs(10), "an hour was not waited for");
}

#[tokio::test]
async fn clocks_tell_the_same_time_on_every_run() {
    let first = answer("clock").await;
    // 2000-01-01, and a microsecond for each reading.
    assert_eq!(first, "wall 946684800000000000, elapsed 1000, episode 3000");
}

#[tokio::test]
async fn a_flood_of_log_and_output_is_cut() {
    let (plugin, log) = logging(&plugin("guest-hostile-tool"));
    let mut session = ToolSession::open(&plugin, None, &[], Seed(7)).await.expect("a session");
    for (function, size, first) in [("flood-log", 50_000, "line 0 "), ("output", 5_000, "zzz")] {
        session.call(&call(function, &format!("{{\"size\": {size}}}"))).await.expect("writing is allowed");
        let mut lines = log.take();
        assert_eq!(lines.pop().expect("a mark").message, LOG_TRUNCATED, "{function}");
        // A line counts 32 bytes beside its text.
        let bytes: usize = lines.iter().map(|line| 32 + line.message.len()).sum();
        assert!((65_500..=65_536).contains(&bytes), "{function}: {bytes} bytes of a cap of 65,536");
        assert!(lines[0].message.starts_with(first), "{:?}", lines[0]);
    }
    session.call(&call("output", r#"{"size": 2}"#)).await.expect("printing is allowed");
    let levels: Vec<LogLevel> = log.take().iter().map(|line| line.level).collect();
    assert_eq!(levels, [LogLevel::Info, LogLevel::Info, LogLevel::Warn, LogLevel::Warn]);
}

#[tokio::test]
async fn the_log_of_a_call_that_failed_is_passed_on() {
    let (plugin, log) = logging(&plugin("guest-hostile-tool"));
    let mut session = ToolSession::open(&plugin, None, &[], Seed(7)).await.expect("a session");
    session.call(&call("trap", "{}")).await.expect_err("a trap");
    assert!(log.take().iter().any(|line| line.message.contains("a panic, as asked")));
    session.call(&call("state", "{}")).await.expect_err("its state is lost");
    assert!(log.take().is_empty(), "no call was made");
}

#[tokio::test]
async fn a_cancelled_call_ends_the_session_alone() {
    let sandbox = sandbox();
    let plugin = load(&sandbox, "guest-hostile-tool");
    let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
    let busy = call("loop", "{}");
    tokio::time::timeout(Duration::from_millis(20), session.call(&busy)).await.expect_err("cancelled");
    let error = session.call(&call("state", "{}")).await.expect_err("its state is lost");
    assert!(error.message.contains("cancelled"), "{error}");
    assert_eq!(sandbox.counters().free_places, 32, "its place is free");
}

#[tokio::test]
async fn a_plugin_that_loops_while_it_starts_is_stopped() {
    let plugin = plugin("guest-start-loop");
    let error = ToolSession::open(&plugin, None, &[], Seed(1)).await.err().expect("it never starts");
    assert_eq!(error.kind, FailureKind::Budget);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runaways_leave_their_neighbours_alive() {
    let plugin = plugin("guest-hostile-tool");
    let runaway = |function: &'static str| {
        let plugin = plugin.clone();
        tokio::spawn(async move {
            let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
            session.call(&call(function, "{}")).await.expect_err(function).kind
        })
    };
    let mut good = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
    let runaways = ["loop", "trap", "loop", "memory", "recurse", "loop", "host-calls"].map(runaway);
    for count in 1..=200 {
        let answer = good.call(&call("state", "{}")).await.expect("innocent");
        assert_eq!(text_of(&answer), count.to_string());
        tokio::task::yield_now().await;
    }
    use FailureKind::{Budget, Memory, Trap};
    for (runaway, expected) in runaways.into_iter().zip([Budget, Trap, Budget, Memory, Trap, Budget, Budget]) {
        assert_eq!(runaway.await.expect("no panic of the host"), expected);
    }
}
