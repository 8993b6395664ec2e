//! Workers in network namespaces whose link goes down: connections stay open, and nothing answers.

use std::time::Duration;

use super::{LEARNS, figure, run, steps, undisturbed};
use crate::common::Desk;
use crate::common::bus::Bus;
use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::common::namespace::Namespace;
use crate::determinism::Essence;

/// A worker in a namespace.
fn worker_in(namespace: &Namespace, desk: &Desk, bus: &Bus) -> Signalled {
    let url = format!("nats://{}:{}", namespace.outside(), bus.port());
    let command = desk.command(&["worker", &url, "--once", "--cache", "cache", "--groups", "2"]);
    Signalled::of(&mut namespace.inside(&command))
}

#[test]
fn links_that_go_down_change_nothing() {
    let (Some(one), Some(other)) = (Namespace::new(), Namespace::new()) else {
        // Namespaces need root and `ip`.
        return;
    };
    let expected = undisturbed();
    let (bus, desk) = (Bus::on_all_addresses(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let workers = [worker_in(&one, &desk, &bus), worker_in(&other, &desk, &bus)];
    trainer.wait_until(|| steps(&desk) >= 1);
    // One link is down for longer than a lease of a second; the other worker continues.
    one.set_up(false);
    trainer.wait_until(|| steps(&desk) >= LEARNS);
    // Both links are down: the run waits.
    other.set_up(false);
    std::thread::sleep(Duration::from_secs(3));
    let waiting = steps(&desk);
    std::thread::sleep(Duration::from_secs(1));
    assert!(trainer.is_running() && steps(&desk) == waiting, "the run goes on without workers");
    one.set_up(true);
    other.set_up(true);
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
