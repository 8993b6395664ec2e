//! What Prometheus reads of a run while it goes on.

mod common;

use std::collections::BTreeMap;
use std::net::TcpListener;

use common::served::serve;
use common::{Desk, SMALL_RUN, WORD_PROBLEMS};

/// The values of a page, by name and labels.
fn values(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').expect("a name and a value"))
        .map(|(name, value)| (name, value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))))
        .collect()
}

#[test]
fn a_run_is_watched_while_it_goes_on() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let pages = serve(&desk).pages();
    let read: Vec<_> = pages.iter().map(|page| values(page)).collect();
    let last = read.last().expect("at least one page");
    for wait in ["generate", "tool", "environment", "reward", "train", "queue"] {
        let count = last[&*format!("gymkhana_wait_seconds_count{{boundary=\"{wait}\"}}")];
        assert_eq!(count, last[&*format!("gymkhana_wait_seconds_bucket{{boundary=\"{wait}\",le=\"+Inf\"}}")]);
        assert!(count > 0.0 || wait == "tool", "no {wait} in {}", pages[pages.len() - 1]);
    }
    assert!(last["gymkhana_records_total"] >= 8.0, "both evaluations before the first stage");
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
fn an_address_that_cannot_be_listened_on_is_a_mistake() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one").to_string();
    let desk = Desk::with_run_file(SMALL_RUN);
    let told = desk.run(WORD_PROBLEMS, &["--metrics", &address]).mistake("an address that is taken");
    assert!(
        told.contains(&format!("error: --metrics {address} cannot be listened on; give an address of this machine"))
    );
    for none in ["9464", "localhost:9464", "127.0.0.1", "127.0.0.1:65536", ""] {
        let told = desk.run(WORD_PROBLEMS, &["--metrics", none]).mistake("no address");
        assert!(told.contains("--metrics <ADDRESS>") && told.contains("such as 127.0.0.1:9464"), "{told}");
    }
    assert!(!desk.path("out").exists(), "a folder was left behind");
}

#[test]
fn a_sandbox_that_holds_fewer_episodes_than_asked_for_says_so() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let run = |out: &str, places: &str| {
        let set = format!("sandbox.instances={places}");
        let outcome = desk.host(&["run", "run.toml", "--plugins", WORD_PROBLEMS, "--out", out, "--set", &set]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.talk
    };
    // An episode takes a place each for environment, tool and reward; the run asks for eight at once.
    let told = "policy.max_concurrent_sequences asks for 8 episodes in flight, but the sandbox's 23 places hold the plugins of 7;";
    assert!(run("few", "23").contains(told));
    assert!(!run("enough", "24").contains("policy.max_concurrent_sequences"));
}
