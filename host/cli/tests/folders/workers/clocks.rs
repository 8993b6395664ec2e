//! Clocks that jump, and machines that are suspended: no group is lost, and a long wait is reported.

use std::time::Duration;

use super::{figure, steps, undisturbed, worker};
use crate::common::bus::Bus;
use crate::common::clock::Clocks;
use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::common::{Desk, WORD_PROBLEMS, run_arguments};
use crate::determinism::Essence;

const DAY: i64 = 86_400;

fn start(clocks: &Clocks, desk: &Desk, arguments: &[&str]) -> Signalled {
    Signalled::of(&mut clocks.of(desk.command(arguments)))
}

/// Arguments of a run that workers play, whose lease has a second.
fn run(url: &str) -> Vec<&str> {
    run_arguments(WORD_PROBLEMS, &["--workers", url, "--lease", "1"])
}

#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    let expected = undisturbed();
    let (bus, desk, clocks) = (Bus::start(), Desk::deterministic(5), Clocks::new());
    let url = bus.url();
    let mut trainer = start(&clocks, &desk, &run(&url));
    let worker = start(&clocks, &desk, &["worker", &url, "--once", "--cache", "cache", "--groups", "2"]);
    for (step, wall) in [(1, DAY), (3, -DAY), (6, 30 * DAY)] {
        trainer.wait_until(|| steps(&desk) >= step);
        clocks.set(wall, 0);
    }
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(worker.end_soon().code, Some(0));
    assert_eq!(figure(&outcome.talk, "groups"), 64, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
    let text = std::fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let times =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["time"].as_f64());
    let times: Vec<f64> = times.map(|time| time.expect("a number")).collect();
    assert!(!times.is_sorted(), "the clock did not jump: {times:?}");
}

/// All processes stop for three leases, as on a machine that sleeps.
#[test]
fn a_suspended_machine_changes_nothing() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let url = bus.url();
    let mut trainer = Signalled::start(&desk, &run(&url));
    let workers = [worker(&desk, &bus), worker(&desk, &bus)];
    let send = |trainer: &Signalled, signal: &str| {
        bus.send(signal);
        trainer.send(signal);
        workers.iter().for_each(|worker| worker.send(signal));
    };
    for step in [2, 6] {
        trainer.wait_until(|| steps(&desk) >= step);
        send(&trainer, "STOP");
        std::thread::sleep(Duration::from_secs(3));
        send(&trainer, "CONT");
    }
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for worker in workers {
        let worker = worker.end_soon();
        assert_eq!(worker.code, Some(0), "{worker:?}");
    }
    assert_eq!(figure(&outcome.talk, "groups"), 64, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

/// No worker plays the groups of the first step, and five minutes pass.
#[test]
fn a_run_says_how_long_a_step_has_waited() {
    let stage = "[[stages]]\nkind = \"rl\"\nsteps = 2\ngroups = 2\ngroup_size = 2";
    let (bus, desk, clocks) = (Bus::start(), Desk::of_groups(stage), Clocks::new());
    let url = bus.url();
    let mut trainer = start(&clocks, &desk, &run(&url));
    trainer.wait_until(|| desk.path("out/state.json").exists());
    // The step waits for its groups.
    std::thread::sleep(Duration::from_secs(2));
    clocks.set(0, 301);
    std::thread::sleep(Duration::from_secs(3));
    trainer.send("INT");
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert!(outcome.talk.contains("step 0 has waited 30"), "{}", outcome.talk);
    assert!(outcome.talk.contains("no worker plays: step 0 is given up"), "{}", outcome.talk);
}
