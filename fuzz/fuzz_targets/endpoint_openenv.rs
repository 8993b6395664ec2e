//! Requests and messages of OpenEnv: the first byte chooses the route, the others are the body.
#![no_main]

#[path = "../served/mod.rs"]
mod served;

use gymkhana_serve::endpoints::read_openenv_message;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const ROUTES: [&str; 4] = ["/reset", "/step", "/mcp", "/openenv/frozen-lake/mcp"];

fuzz_target!(|input: &[u8]| {
    let Some((first, body)) = input.split_first() else { return };
    if let Ok(text) = std::str::from_utf8(body) {
        read_openenv_message(text);
    }
    let route = ROUTES[usize::from(*first) % ROUTES.len()];
    let (status, answer) = served::ask("POST", route, &[("content-type", "application/json")], body);
    assert!(serde_json::from_slice::<Value>(&answer).is_ok(), "{route}: {status}");
    assert!(status == 200 || !route.ends_with("/mcp"), "JSON-RPC is answered with status 200, not {status}");
});
