//! Requests of ORS: the first byte chooses the route, the second the session, the others are the body.
#![no_main]

#[path = "../served/mod.rs"]
mod served;

use libfuzzer_sys::fuzz_target;

const ROUTES: [&str; 9] = [
    "/create",
    "/call",
    "/frozen-lake/call",
    "/score_group",
    "/tasks",
    "/task",
    "/task_range",
    "/num_tasks",
    "/delete",
];

fuzz_target!(|input: &[u8]| {
    let [first, second, body @ ..] = input else { return };
    let route = ROUTES[usize::from(*first) % ROUTES.len()];
    let session = format!("s{}", second % 4);
    let (status, _) = served::ask("POST", route, &[("x-session-id", &session)], body);
    assert!(status < 500 || status == 503, "{route}: {status}");
});
