//! All parts at once, with programs that are killed and stopped at random moments: every run ends as an undisturbed one,
//! and nothing is lost, counted twice or left behind.

mod gateway;
mod runs;
mod serve;
mod steady;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gymkhana_record::{Seed, Stream};
use rustix::process::{Pid, Signal, kill_process};

use crate::workers::{disturb, undisturbed};

/// Time that processes have to end with the one that started them.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two reports.
const REPORT: Duration = Duration::from_secs(20);
/// Most kills of one run, one server's records, or one gateway's, so that each ends.
const MAX_KILLS: u64 = 12;

/// Time and counts of a soak.
pub struct Soak {
    until: Instant,
    seed: Seed,
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Soak {
    fn new(length: Duration) -> Self {
        let seed = std::env::var("GYMKHANA_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(77);
        Self { until: Instant::now() + length, seed: Seed(seed), counts: Mutex::default() }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// The random moments of a round of a part.
    fn moments(&self, part: &str, round: u64) -> Stream {
        self.seed.child(part).child(round).stream()
    }

    fn count(&self, what: &str, number: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += number;
    }

    fn say(&self) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let kills: u64 = counts.iter().filter(|(what, _)| what.starts_with("killed")).map(|(_, number)| number).sum();
        let listed: Vec<String> = counts.iter().map(|(what, number)| format!("{what}: {number}")).collect();
        let left = self.until.saturating_duration_since(Instant::now()).as_secs();
        writeln!(std::io::stderr(), "{left} s left, {kills} kills; {}", listed.join("; ")).expect("standard error");
    }
}

/// A fault of a process at a random moment.
enum Fault {
    Kill,
    /// It is stopped for this time.
    Stop(Duration),
}

/// The next fault, three kills for each stop, and the time until then.
fn next_fault(moments: &mut Stream, longest: u64) -> (Duration, Fault) {
    let pause = Duration::from_millis(20 + moments.below(longest));
    match moments.below(4) {
        0 => (pause, Fault::Stop(Duration::from_millis(200 + moments.below(2_500)))),
        _ => (pause, Fault::Kill),
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Waits until no process has its working folder below this one.
fn assert_none_runs_below(folder: &Path) {
    let below = || {
        let entries = fs::read_dir("/proc").expect("processes").flatten();
        let folders =
            entries.filter_map(|entry| Some((entry.file_name(), fs::read_link(entry.path().join("cwd")).ok()?)));
        folders.filter(|(_, cwd)| cwd.starts_with(folder)).map(|(id, _)| id).collect::<Vec<_>>()
    };
    let since = Instant::now();
    while !below().is_empty() {
        assert!(since.elapsed() < PATIENCE, "processes were left: {:?}", below());
        sleep(Duration::from_millis(50));
    }
}

/// Runs of workers, whose workers, bus and trainer are killed and stopped.
fn workers(soak: &Soak) {
    let expected = undisturbed();
    for round in (0..).take_while(|_| soak.goes_on()) {
        for fault in disturb(&expected, &mut soak.moments("workers", round)) {
            let what = match fault {
                "kill" => "killed worker",
                "trainer" => "killed run with workers",
                "bus" | "empty-bus" => "killed bus",
                "stop" => "stopped worker",
                _ => "ended worker",
            };
            soak.count(what, 1);
        }
        soak.count("runs with workers, equal", 1);
        soak.count("episodes", expected.records.len() as u64);
    }
}

/// `GYMKHANA_SOAK_SECONDS` is the length; without it every part has one round.
#[test]
#[ignore = "takes an hour; `cargo xtask test --reference soak` runs it"]
fn all_parts_at_once_lose_nothing() {
    let seconds = std::env::var("GYMKHANA_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let soak = Soak::new(Duration::from_secs(seconds));
    let parts: [fn(&Soak); 6] =
        [runs::plain, runs::with_programs, workers, gateway::disturbed, serve::disturbed, steady::growth];
    std::thread::scope(|scope| {
        let soak = &soak;
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || part(soak))).into();
        while parts.iter().any(|part| !part.is_finished()) {
            sleep(REPORT);
            soak.say();
        }
        for part in parts {
            part.join().expect("a part failed");
        }
    });
    soak.say();
}
