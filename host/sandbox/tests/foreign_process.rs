//! A sandbox in the process of another program: the same failures without signals, and snapshots that are stored.

mod common;
#[allow(dead_code, reason = "each test program uses a part of this")]
#[path = "common/parts.rs"]
mod parts;

use std::fs;

use common::{call, component, config, load, text_of};
use gymkhana_record::{FailureKind, Seed};
use gymkhana_sandbox::{Grants, Plugin, ProcessOwner, Sandbox, SandboxConfig, Snapshot, ToolSession};
use parts::with_module;

fn sandbox() -> Sandbox {
    let foreign = SandboxConfig { owner: ProcessOwner::Foreign, compile_in_parallel: false, ..config() };
    Sandbox::new(&foreign).expect("a sandbox")
}

fn plugin() -> Plugin {
    load(&sandbox(), "guest-hostile-tool")
}

/// Whether this process handles the signal of this number.
fn is_handled(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
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

/// A module that looks for data of other instances in its memory, traps if it finds some, and leaves its own.
fn searching(pages: u32, more: u32) -> Vec<u8> {
    let text = format!(
        r#"(module (memory {pages})
            (func $search (local $at i32)
                (loop $next
                    (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
                    (local.set $at (i32.add (local.get $at) (i32.const 8)))
                    (br_if $next (i32.lt_u (local.get $at) (i32.mul (memory.size) (i32.const 65536))))))
            (func $attack
                (call $search)
                (if (i32.ne (memory.grow (i32.const {more})) (i32.const {pages})) (then unreachable))
                (call $search)
                (memory.fill (i32.const 0) (i32.const 170) (i32.mul (memory.size) (i32.const 65536))))
            (start $attack))"#
    );
    wat::parse_str(text).expect("sound text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_instance_finds_data_of_another() {
    let sandbox = sandbox();
    let tool = fs::read(component("guest-hostile-tool")).expect("built");
    // Memories that are kept whole, kept in part, and not kept.
    let searchers = [(1, 1), (40, 20), (2, 90)].map(|(pages, more)| {
        let attack = with_module(&tool, &searching(pages, more));
        Plugin::from_bytes(&sandbox, "searching.wasm", &attack, &Grants::default()).expect("it loads")
    });
    // The search finds what is there.
    let finder = wat::parse_str(
        r#"(module (memory 1) (data (i32.const 8) "\01") (func $search
            (if (i64.ne (i64.load (i32.const 8)) (i64.const 0)) (then unreachable))) (start $search))"#,
    );
    let finder = with_module(&tool, &finder.expect("sound text"));
    let finder = Plugin::from_bytes(&sandbox, "finding.wasm", &finder, &Grants::default()).expect("it loads");
    let found = ToolSession::open(&finder, None, &[], Seed(1)).await.err().expect("its data are found");
    assert_eq!(found.kind, FailureKind::Trap, "{found}");
    let tasks: Vec<_> = (0..4)
        .map(|first: usize| {
            let searchers = searchers.clone();
            tokio::spawn(async move {
                for round in 0..40 {
                    let plugin = &searchers[(first + round * (first + 1)) % searchers.len()];
                    let mut session = ToolSession::open(plugin, None, &[], Seed(1)).await.expect("nothing is found");
                    assert_eq!(text_of(&session.call(&call("state", "{}")).await.expect("an answer")), "1");
                    if round % 3 == 0 {
                        session.call(&call("trap", "{}")).await.expect_err("a trap");
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no instance found data");
    }
}
