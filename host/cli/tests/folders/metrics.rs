//! The Prometheus page of a run in progress.

use std::collections::BTreeMap;
use std::net::TcpListener;

use crate::common::served::serve;
use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};

/// The values of a page, by name and labels.
fn values(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').expect("a name and a value"))
        .map(|(name, value)| (name, value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))))
        .collect()
}

#[test]
fn a_run_serves_its_metrics() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let pages = serve(&desk).pages();
    let read: Vec<_> = pages.iter().map(|page| values(page)).collect();
    let last = read.last().expect("at least one page");
    for wait in ["generate", "tool", "environment", "reward", "train", "queue"] {
        let count = last[&*format!("gymkhana_wait_seconds_count{{kind=\"{wait}\"}}")];
        assert_eq!(count, last[&*format!("gymkhana_wait_seconds_bucket{{le=\"+Inf\",kind=\"{wait}\"}}")]);
        assert!(count > 0.0, "no {wait} in {}", pages[pages.len() - 1]);
    }
    assert!(last["gymkhana_episodes_total"] >= 8.0, "both evaluations before the first stage");
    assert!(last["gymkhana_plugin_places"] >= 1.0);
    assert!(last["gymkhana_trainer_idle_seconds_total"] > 0.0);
    assert!(last.contains_key("gymkhana_policy_idle_seconds_total{model=\"policy\"}"));
    for (earlier, later) in read.iter().zip(&read[1..]) {
        for (name, value) in earlier {
            let counts = ["_total", "_count", "_sum", "_bucket"].iter().any(|kind| name.contains(kind));
            assert!(!counts || later[name] >= *value, "{name} fell from {value} to {}", later[name]);
        }
    }
}

#[test]
fn an_address_that_cannot_be_bound_is_a_user_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one").to_string();
    let desk = Desk::with_run_file(SMALL_RUN);
    let told = desk.run(WORD_PROBLEMS, &["--metrics", &address]).mistake("an address that is taken");
    assert!(told.contains(&format!("error: --metrics {address} cannot be bound\n")), "{told}");
    assert!(told.contains("hint: use a local address and a free port"), "{told}");
    for none in ["9464", "localhost:9464", "127.0.0.1", "127.0.0.1:65536", ""] {
        let told = desk.run(WORD_PROBLEMS, &["--metrics", none]).mistake("no address");
        assert!(told.contains("--metrics <ADDRESS>") && told.contains("such as 127.0.0.1:9464"), "{told}");
    }
    assert!(!desk.path("out").exists(), "a folder was left behind");
}

#[test]
fn a_sandbox_that_limits_episodes_in_flight_is_reported() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let run = |out: &str, places: &str| {
        let set = format!("sandbox.instances={places}");
        let outcome = desk.host(&["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", out, "--set", &set]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.talk
    };
    // An episode takes an instance each of environment, tool and reward; the run wants eight episodes in flight.
    let told =
        "the sandbox limits episodes in flight to 7, below policy.max_concurrent_sequences = 8: it holds 23 plugin";
    assert!(run("few", "23").contains(told));
    assert!(!run("enough", "24").contains("policy.max_concurrent_sequences"));
}
