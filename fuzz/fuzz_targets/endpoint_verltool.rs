//! Requests of VerlTool's client: each is answered with status 200 and as many observations as it has trajectories.
#![no_main]

#[path = "../served/mod.rs"]
mod served;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let (status, answer) = served::ask("POST", "/get_observation", &[], body);
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    let count = |name: &str| answer[name].as_array().map(Vec::len).expect("a list");
    assert!(count("observations") > 0);
    assert_eq!((count("observations"), count("observations")), (count("dones"), count("valids")));
});
