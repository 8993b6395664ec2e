//! Runs with the embedded trainer, alone and with agent programs.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Fault, MAX_KILLS, PATIENCE, Soak, assert_none_runs_below, next_fault};
use crate::common::agents::{AGENT, PLUGINS, RUN};
use crate::common::killed::{Signalled, again, assert_each_stored_once};
use crate::common::{Desk, WORD_PROBLEMS};
use crate::determinism::Essence;
use crate::workers::undisturbed;

/// Longest time in milliseconds between two faults of a run.
const LONGEST: u64 = 2_500;

/// Deterministic runs, which end as an undisturbed one.
pub fn plain(soak: &Soak) {
    let expected = undisturbed();
    for round in (0..).take_while(|_| soak.goes_on()) {
        let desk = Desk::deterministic(5);
        to_the_end(soak, "plain", round, &desk, || Signalled::start(&desk, &again(&desk, WORD_PROBLEMS)));
        expected.assert_same(&Essence::of(&desk));
        soak.count("runs, equal", 1);
        soak.count("episodes", expected.records.len() as u64);
        assert_none_runs_below(&desk.path(""));
    }
}

/// Runs in which a program plays. They leave no program and no folder of one.
pub fn with_programs(soak: &Soak) {
    for round in (0..).take_while(|_| soak.goes_on()) {
        let desk = Desk::with_run_file(RUN).with_file("agent.py", AGENT);
        fs::create_dir(desk.path("temporary")).expect("a folder");
        to_the_end(soak, "programs", round, &desk, || {
            Signalled::of(desk.command(&again(&desk, PLUGINS)).env("TMPDIR", desk.path("temporary")))
        });
        // Two tasks before and after the stage, and three steps of two groups of two.
        let records = desk.episodes();
        assert_eq!(records.len(), 2 * 2 + 3 * 2 * 2);
        for record in &records {
            assert_eq!((record.failures.len(), record.policy_turns.len()), (0, 2), "{record:?}");
        }
        soak.count("runs with programs, whole", 1);
        soak.count("episodes", records.len() as u64);
        assert_none_runs_below(&desk.path(""));
        let since = Instant::now();
        while fs::read_dir(desk.path("temporary")).expect("a folder").next().is_some() {
            assert!(since.elapsed() < PATIENCE, "a folder of a program was left");
            sleep(Duration::from_millis(50));
        }
    }
}

/// Starts and resumes a run until it ends in success. Nothing is stored twice.
fn to_the_end(soak: &Soak, part: &str, round: u64, desk: &Desk, start: impl Fn() -> Signalled) {
    let (mut moments, mut run, mut kills) = (soak.moments(part, round), start(), 0);
    while kills < MAX_KILLS {
        let (pause, fault) = next_fault(&mut moments, LONGEST);
        if !run.lives_for(pause) {
            break;
        }
        match fault {
            Fault::Kill => {
                run.send("KILL");
                run.end();
                soak.count("killed run", 1);
                kills += 1;
                run = start();
            }
            Fault::Stop(time) => {
                run.send("STOP");
                sleep(time);
                run.send("CONT");
                soak.count("stopped run", 1);
            }
        }
    }
    let outcome = run.end();
    assert_eq!(outcome.code, Some(0), "{part} {round}: {outcome:?}");
    assert_each_stored_once(&desk.path("out"));
}
