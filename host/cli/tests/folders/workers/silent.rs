//! A bus and workers that are stopped by a signal: the others say who is silent and for how long, and the run is the same.

use std::time::{Duration, Instant};

use super::{LEARNS, run, steps, undisturbed, worker};
use crate::common::Desk;
use crate::common::bus::Bus;
use crate::common::killed::assert_each_stored_once;
use crate::determinism::Essence;

/// Longer than the time after which a silent counterpart is reported, with the bound of one request.
const STOPPED: Duration = Duration::from_secs(45);

#[test]
fn a_stopped_bus_is_named_and_costs_nothing() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let worker = worker(&desk, &bus);
    trainer.wait_until(|| steps(&desk) >= LEARNS);
    bus.send("STOP");
    std::thread::sleep(STOPPED);
    assert!(trainer.is_running());
    bus.send("CONT");
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let silent = "the run waits for the bus: it has not answered for 3";
    assert!(outcome.talk.contains(silent) && outcome.talk.contains("check that nats-server runs"), "{}", outcome.talk);
    assert!(!outcome.talk.contains("no worker has answered"), "the bus is silent, not its workers: {}", outcome.talk);
    let worker = worker.end_soon();
    assert_eq!(worker.code, Some(0), "{worker:?}");
    assert!(worker.talk.contains("the bus has not answered for "), "{}", worker.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

#[test]
fn a_stopped_worker_is_named() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let worker = worker(&desk, &bus);
    trainer.wait_until(|| steps(&desk) >= LEARNS);
    worker.send("STOP");
    std::thread::sleep(STOPPED);
    assert!(trainer.is_running());
    worker.send("CONT");
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.talk.contains("groups wait, but no worker has answered for 30 s"), "{}", outcome.talk);
    assert_eq!(worker.end_soon().code, Some(0));
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

/// The kernel makes the connection, and the bus does not greet.
#[test]
fn a_stopped_bus_is_named_at_the_start() {
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    bus.send("STOP");
    let since = Instant::now();
    let told = run(&desk, &bus, &[]).end_soon().mistake("a run");
    assert!(told.contains(&format!("the bus at {} cannot be used: it did not answer for 10 s", bus.url())), "{told}");
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    assert!(!desk.path("out").exists(), "nothing was begun");
    bus.send("CONT");
}
