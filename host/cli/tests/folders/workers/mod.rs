//! Runs whose groups workers play: the same run as in one process, also when a worker, the bus or the trainer is killed.

mod client;
mod clocks;
mod faults;
mod full_disks;
mod hostile;
mod hostile_sessions;
mod namespaces;
mod sessions;
mod silent;

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use gymkhana_record::{Seed, Stream};

use crate::common::bus::Bus;
use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::common::{Desk, Outcome, SMALL_RUN, TIC_TAC_TOE, WORD_PROBLEMS, run_arguments};
use crate::determinism::Essence;

/// Lines of metrics after which the stage of reinforcement learning has begun: five steps of demonstrations, and one.
const LEARNS: usize = 6;

pub fn undisturbed() -> Essence {
    let desk = Desk::deterministic(5);
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    Essence::of(&desk)
}

fn worker(desk: &Desk, bus: &Bus) -> Signalled {
    Signalled::start(desk, &["worker", &bus.url(), "--once", "--cache", "cache", "--groups", "2"])
}

fn run(desk: &Desk, bus: &Bus, more: &[&str]) -> Signalled {
    let url = bus.url();
    Signalled::start(desk, &run_arguments(WORD_PROBLEMS, &[&["--workers", &url, "--lease", "1"], more].concat()))
}

/// The trainer, which resumes the run if it has begun.
fn run_or_resume(desk: &Desk, bus: &Bus) -> Signalled {
    let begun = desk.path("out/run.toml").exists();
    run(desk, bus, if begun { &["--resume"] } else { &[] })
}

/// Lines of metrics so far.
fn steps(desk: &Desk) -> usize {
    fs::read_to_string(desk.path("out/metrics.jsonl")).unwrap_or_default().lines().count()
}

/// The figure behind this word in the last line about workers.
fn figure(talk: &str, word: &str) -> u64 {
    let line = talk.lines().rfind(|line| line.contains("workers: ")).unwrap_or_else(|| panic!("{talk}"));
    let behind = line.split(&format!("{word}: ")).nth(1).unwrap_or_else(|| panic!("{word} in {line}"));
    behind.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|text| text.parse().ok()).expect(line)
}

#[test]
fn any_number_of_workers_plays_the_run_of_one_process() {
    let expected = undisturbed();
    let bus = Bus::start();
    for count in [1, 3] {
        let desk = Desk::deterministic(5);
        let workers: Vec<Signalled> = (0..count).map(|_| worker(&desk, &bus)).collect();
        let outcome = run(&desk, &bus, &[]).end();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let played: u64 = workers
            .into_iter()
            .map(|worker| {
                let worker = worker.end();
                assert_eq!(worker.code, Some(0), "{worker:?}");
                let line = worker.talk.lines().rfind(|line| line.contains("played ")).expect("a summary");
                line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).expect("a number")
            })
            .sum();
        assert_eq!(figure(&outcome.talk, "groups"), played, "{}", outcome.talk);
        // Two evaluations of four tasks, each greedy and sampled, before, between and after; 20 demonstrations; 20 groups.
        assert_eq!(played, 3 * 2 * 4 + 20 + 20);
        expected.assert_same(&Essence::of(&desk));
        assert_each_stored_once(&desk.path("out"));
    }
}

#[test]
fn killed_stopped_and_late_workers_change_nothing() {
    let expected = undisturbed();
    let bus = Bus::start();
    let desk = Desk::deterministic(5);
    let mut trainer = run(&desk, &bus, &[]);
    let (killed, frozen) = (worker(&desk, &bus), worker(&desk, &bus));
    trainer.wait_until(|| steps(&desk) >= 1);
    killed.send("KILL");
    trainer.wait_until(|| steps(&desk) >= 2);
    frozen.send("STOP");
    let late = worker(&desk, &bus);
    trainer.wait_until(|| steps(&desk) >= 4);
    frozen.send("CONT");
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for worker in [frozen, late] {
        let worker = worker.end();
        assert_eq!(worker.code, Some(0), "{worker:?}");
    }
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
    let replayed = desk.host(&["replay", "out"]).succeeded();
    let count = expected.records.len();
    assert_eq!(replayed, format!("{count} episodes replayed, every byte equal: {count}\n"));
}

/// With its disk the bus still has the queue; without it the trainer makes the run there again.
#[test]
fn a_killed_bus_changes_nothing() {
    let expected = undisturbed();
    for with_disk in [true, false] {
        let mut bus = Bus::start();
        let desk = Desk::deterministic(5);
        let mut trainer = run(&desk, &bus, &[]);
        let worker = worker(&desk, &bus);
        trainer.wait_until(|| steps(&desk) >= 1);
        bus.kill_and_restart(with_disk);
        let outcome = trainer.end();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(outcome.talk.contains("the bus had lost the run's queue"), !with_disk, "{}", outcome.talk);
        let worker = worker.end();
        assert_eq!(worker.code, Some(0), "{worker:?}");
        expected.assert_same(&Essence::of(&desk));
        assert_each_stored_once(&desk.path("out"));
    }
}

#[test]
fn a_killed_trainer_resumes_with_the_same_workers() {
    let expected = undisturbed();
    let bus = Bus::start();
    let desk = Desk::deterministic(5);
    let mut trainer = run(&desk, &bus, &[]);
    let stays = Signalled::start(&desk, &["worker", &bus.url(), "--cache", "cache"]);
    trainer.wait_until(|| steps(&desk) >= 3);
    trainer.send("KILL");
    trainer.end();
    let outcome = run(&desk, &bus, &["--resume"]).end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
    stays.send("TERM");
    let stays = stays.end();
    assert_eq!(stays.code, Some(0), "{stays:?}");
    assert_eq!(stays.talk.matches("playing groups of run ").count(), 2, "{}", stays.talk);
}

/// Both seats of an episode have a conversation with the trainer's model.
#[test]
fn games_of_several_seats_are_played_by_workers() {
    let game = || Desk::with_run_file(&format!("deterministic = true\n{}", crate::common::SMALL_GAME));
    let alone = game();
    alone.run(TIC_TAC_TOE, &[]).succeeded();
    let (bus, desk) = (Bus::start(), game());
    let workers = [worker(&desk, &bus), worker(&desk, &bus)];
    let url = bus.url();
    desk.run(TIC_TAC_TOE, &["--workers", &url]).succeeded();
    for worker in workers {
        let worker = worker.end();
        assert_eq!(worker.code, Some(0), "{worker:?}");
    }
    Essence::of(&alone).assert_same(&Essence::of(&desk));
}

#[test]
fn mistakes_are_refused() {
    let nothing = Desk::with_run_file(SMALL_RUN);
    let away = nothing.run(WORD_PROBLEMS, &["--workers", "nats://127.0.0.1:9"]).mistake("no bus");
    assert!(away.contains("the bus at nats://127.0.0.1:9 cannot be used"), "{away}");
    assert!(away.contains("hint: start `nats-server --jetstream`"), "{away}");
    let away = nothing.host(&["worker", "nats://me:secret@127.0.0.1:9"]).mistake("no bus");
    assert!(away.contains("nats://127.0.0.1:9") && !away.contains("secret"), "{away}");
    let alone = nothing.run(WORD_PROBLEMS, &["--lease", "5"]).mistake("no workers");
    assert!(alone.contains("--workers"), "{alone}");
    // A run that starts programs is played by workers that allow it alone.
    let bus = Bus::start();
    let agent = Desk::with_run_file(&format!("{SMALL_RUN}\n[agent]\ncommand = [\"true\"]\nmcp = true\n"));
    let mut trainer = run(&agent, &bus, &[]);
    let refused = agent.host(&["worker", &bus.url(), "--cache", "cache"]).mistake("an agent program");
    assert!(refused.contains("the run starts a program on its workers: agent.command is"), "{refused}");
    assert!(refused.contains("hint: start the worker with --allow-programs"), "{refused}");
    assert!(trainer.is_running(), "it waits for other workers");
    trainer.send("INT");
    std::thread::sleep(Duration::from_millis(200));
    assert!(trainer.end().code.is_some());
}

/// Most faults of a run, so that it ends.
const MAX_FAULTS: u32 = 12;

/// Plays one run and disturbs it at random moments. Returns the faults.
pub fn disturb(expected: &Essence, moments: &mut Stream) -> Vec<&'static str> {
    let (mut bus, desk) = (Bus::start(), Desk::deterministic(5));
    let any = |bus: &Bus| Signalled::start(&desk, &["worker", &bus.url(), "--cache", "cache", "--groups", "2"]);
    let mut trainer = run_or_resume(&desk, &bus);
    let mut workers: Vec<Signalled> = (0..3).map(|_| any(&bus)).collect();
    let mut faults = Vec::new();
    for _ in 0..MAX_FAULTS {
        std::thread::sleep(Duration::from_millis(300 + moments.below(1_500)));
        if !trainer.is_running() {
            break;
        }
        let chosen = moments.below(3) as usize;
        let fault = moments.below(6);
        faults.push(["kill", "stop", "bus", "empty-bus", "trainer", "leave"][fault as usize]);
        match fault {
            0 | 5 => {
                let gone = std::mem::replace(&mut workers[chosen], any(&bus));
                gone.send(if fault == 0 { "KILL" } else { "TERM" });
                gone.end();
            }
            1 => {
                workers[chosen].send("STOP");
                std::thread::sleep(Duration::from_millis(2_500));
                workers[chosen].send("CONT");
            }
            2 | 3 => bus.kill_and_restart(fault == 2),
            _ => {
                trainer.send("KILL");
                trainer.end();
                trainer = run_or_resume(&desk, &bus);
            }
        }
    }
    workers.push(any(&bus));
    // A program that starts while the bus is away, or goes away, says so and ends.
    let away = ["cannot be used: ", "went away while it took", "does not keep the run"];
    let is_too_early =
        |outcome: &Outcome| outcome.code == Some(2) && away.iter().any(|words| outcome.talk.contains(words));
    let mut outcome = trainer.end();
    while is_too_early(&outcome) {
        outcome = run_or_resume(&desk, &bus).end();
    }
    assert_eq!(outcome.code, Some(0), "{faults:?}: {outcome:?}");
    for worker in workers {
        worker.send("TERM");
        let worker = worker.end();
        // A signal that comes before the program handles signals ends it.
        let has_just_begun = worker.code.is_none() && worker.talk.is_empty();
        assert!(worker.code == Some(0) || has_just_begun || is_too_early(&worker), "{faults:?}: {worker:?}");
    }
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
    faults
}

/// No episode is lost or counted twice. `GYMKHANA_SOAK_SECONDS` repeats the run with other faults for that long.
#[test]
#[ignore = "takes half an hour; `cargo xtask test --reference workers` runs it"]
fn faults_at_random_moments_change_nothing() {
    let seconds = std::env::var("GYMKHANA_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (since, expected) = (Instant::now(), undisturbed());
    let mut rounds = 0_u64;
    while rounds == 0 || since.elapsed() < Duration::from_secs(seconds) {
        disturb(&expected, &mut Seed(77).child(rounds).stream());
        rounds += 1;
        writeln!(std::io::stderr(), "{rounds} rounds in {:.0} s", since.elapsed().as_secs_f64())
            .expect("standard error");
    }
}
