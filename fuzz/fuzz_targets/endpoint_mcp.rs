//! Messages of MCP: the first byte chooses the endpoint and the revision, the others are the body.
#![no_main]

#[path = "../served/mod.rs"]
mod served;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The URL of an episode; it is closed once it was idle, and then unknown.
static EPISODE: LazyLock<String> = LazyLock::new(|| {
    let (status, answer) = served::ask("POST", "/mcp/episodes", &[], br#"{"environment":"frozen-lake","seed":1}"#);
    assert_eq!(status, 201);
    let opened: Value = serde_json::from_slice(&answer).expect("JSON");
    opened["mcp"].as_str().expect("a path").to_owned()
});

const REVISIONS: [&str; 4] = ["2025-03-26", "2025-11-25", "2026-07-28", "1999-01-01"];

fuzz_target!(|input: &[u8]| {
    let Some((first, body)) = input.split_first() else { return };
    let path = match first % 3 {
        0 => "/handles/mcp",
        1 => &EPISODE,
        _ => "/mcp/episodes",
    };
    let revision = REVISIONS[usize::from(first / 3) % REVISIONS.len()];
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", revision),
    ];
    let (status, answer) = served::ask("POST", path, &headers, body);
    // A notification has no answer.
    if status != 202 {
        assert!(serde_json::from_slice::<Value>(&answer).is_ok(), "{path}: {status}");
    }
    assert!(status < 500 || status == 503, "{path}: {status}");
});
