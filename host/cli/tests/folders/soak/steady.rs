//! A gateway and a server that are stopped and never killed: neither memory nor descriptors grow with their sessions.
//! They keep no records, of which up to 256 MiB are in memory until they are moved to their files.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Soak, gateway, send, serve};
use crate::common::WORD_PROBLEMS;
use crate::common::gateway::Gateway;

/// Share of the soak after which the first measurement is made: caches are full then.
const WARM: u32 = 4;
/// Most descriptors that a process may have gained, such as those of connections that are being closed.
const MORE_DESCRIPTORS: usize = 12;
/// Most MiB of memory that a process may have gained.
const MORE_MEMORY: u64 = 32;
/// Sessions between two stops.
const STOP_EVERY: u64 = 50;

/// Memory in MiB and number of descriptors of a process.
#[derive(Debug, Clone, Copy)]
struct Held {
    memory: u64,
    descriptors: usize,
}

impl Held {
    fn of(id: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let memory = line.trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024;
        Self { memory, descriptors: fs::read_dir(format!("/proc/{id}/fd")).expect("descriptors").count() }
    }

    fn assert_not_above(self, before: Self, what: &str) {
        let (memory, descriptors) = (before.memory + MORE_MEMORY, before.descriptors + MORE_DESCRIPTORS);
        assert!(self.memory <= memory && self.descriptors <= descriptors, "{what}: {before:?}, then {self:?}");
    }
}

/// Plays sessions with both until the end.
pub fn growth(soak: &Soak) {
    let ((gateways, _peer), servers) = (gateway::desk(), serve::desk());
    let (gateway, server) = (
        Gateway::start(&gateways, &["--plugins", WORD_PROBLEMS, "--no-records"]),
        serve::start(&servers, &["--no-records"]),
    );
    let harnesses = gateway::Harnesses::default();
    harnesses.set_address(Some(&gateway.address));
    let held = || [Held::of(gateway.id()), Held::of(server.child.id())];
    let warm = Instant::now() + soak.until.saturating_duration_since(Instant::now()) / WARM;
    let mut before = held();
    for number in (0_u64..).take_while(|_| soak.goes_on()) {
        harnesses.play(soak).expect("a gateway that was never killed answers");
        let (_, is_whole) = serve::play(soak, &server.address, &format!("s{number}"));
        assert!(is_whole, "a server that was never killed answers");
        if number % STOP_EVERY == STOP_EVERY - 1 {
            for signal in [Signal::STOP, Signal::CONT] {
                gateway.send(signal);
                send(&server.child, signal);
                sleep(Duration::from_secs(1));
            }
            soak.count("stopped gateway", 1);
            soak.count("stopped serve", 1);
        }
        if Instant::now() < warm {
            before = held();
        }
        soak.count("sessions of the steady gateway and server", 1);
        sleep(Duration::from_millis(100));
    }
    sleep(Duration::from_secs(2));
    let [of_gateway, of_server] = held();
    for (what, before, after) in [("gateway", before[0], of_gateway), ("serve", before[1], of_server)] {
        after.assert_not_above(before, what);
        soak.count(&format!("MiB of the steady {what} when warm"), before.memory);
        soak.count(&format!("MiB of the steady {what} at the end"), after.memory);
        soak.count(&format!("descriptors of the steady {what} at the end"), after.descriptors as u64);
    }
    gateway.end();
    serve::end(server);
}
