//! A sandbox in the process of another program: the same failures without signals, and snapshots that are stored.

mod common;

use common::{call, config, load, text_of};
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::{Plugin, ProcessOwner, Sandbox, SandboxConfig, Snapshot, ToolSession};

fn plugin() -> Plugin {
    let foreign = SandboxConfig { owner: ProcessOwner::Foreign, compile_in_parallel: false, ..config() };
    load(&Sandbox::new(&foreign).expect("a sandbox"), "guest-hostile-tool")
}

/// Whether this process handles the signal of this number.
fn is_handled(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal") >> (signal - 1) & 1 == 1
}

#[tokio::test]
async fn faults_of_guests_are_no_signals() {
    let plugin = plugin();
    for (function, kind) in [
        ("trap", FailureKind::Trap),
        ("recurse", FailureKind::Trap),
        ("loop", FailureKind::Budget),
        ("memory", FailureKind::Memory),
    ] {
        let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
        let error = session.call(&call(function, "{}")).await.expect_err(function);
        assert_eq!(error.kind, kind, "{function}: {error}");
    }
    // SIGILL and SIGFPE, which Rust's own test programs do not handle.
    assert!(!is_handled(4) && !is_handled(8));
}

#[tokio::test]
async fn a_snapshot_is_stored_and_read() {
    let plugin = plugin();
    let mut session = ToolSession::open(&plugin, None, &[], Seed(1)).await.expect("a session");
    for _ in 0..3 {
        session.call(&call("random", "{}")).await.expect("numbers");
    }
    let snapshot = session.snapshot().await.expect("a snapshot");
    let stored = serde_json::to_string(&snapshot).expect("JSON");
    let read: Snapshot = serde_json::from_str(&stored).expect("a snapshot");
    assert_eq!(read, snapshot);
    let mut copy = ToolSession::restore(&plugin, &read, Seed(1)).await.expect("a session");
    for function in ["state", "random"] {
        let answers = [session.call(&call(function, "{}")).await, copy.call(&call(function, "{}")).await];
        let [own, copied] = answers.map(|answer| text_of(&answer.expect("an answer")));
        assert_eq!(own, copied, "{function}");
    }
}
