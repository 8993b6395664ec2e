//! Networks, trainers and files that are lost: a run continues, waits or ends with a reason.

use std::time::Duration;

use gymkhana_record::{EpisodeRecord, Phase};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::client::Client;
use super::{LEARNS, figure, run, steps, undisturbed, worker};
use crate::common::Desk;
use crate::common::bus::{Bus, Relay};
use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::determinism::Essence;

#[test]
fn a_stop_waits_for_workers_alone_that_play() {
    let expected = undisturbed();
    let bus = Bus::start();
    for is_killed in [true, false] {
        let desk = Desk::deterministic(5);
        let mut trainer = run(&desk, &bus, &[]);
        let first = worker(&desk, &bus);
        trainer.wait_until(|| steps(&desk) >= LEARNS);
        if is_killed {
            first.send("KILL");
        }
        trainer.send("INT");
        let outcome = trainer.end_soon();
        assert_eq!(outcome.code, Some(130), "{outcome:?}");
        assert!(outcome.talk.contains("continue with `host run --resume out`"), "{}", outcome.talk);
        if !is_killed {
            assert!(!outcome.talk.contains("is given up"), "{}", outcome.talk);
        }
        first.end();
        let second = worker(&desk, &bus);
        let outcome = run(&desk, &bus, &["--resume"]).end();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(second.end().code, Some(0));
        expected.assert_same(&Essence::of(&desk));
        assert_each_stored_once(&desk.path("out"));
    }
}

/// The step waits for groups that no worker has. The stop ends this wait.
#[test]
fn a_stop_gives_up_a_step_without_workers() {
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let first = worker(&desk, &bus);
    trainer.wait_until(|| steps(&desk) >= LEARNS);
    first.send("KILL");
    first.end();
    // The step that is being trained ends, and the next one begins.
    std::thread::sleep(Duration::from_secs(4));
    assert!(trainer.is_running());
    trainer.send("INT");
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(130), "{outcome:?}");
    assert!(outcome.talk.contains("no worker plays: step "), "{}", outcome.talk);
    assert!(outcome.talk.contains("continue with `host run --resume out`"), "{}", outcome.talk);
}

#[test]
fn a_network_that_is_cut_longer_than_a_lease_changes_nothing() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let relay = Relay::to(&bus);
    let mut trainer = run(&desk, &bus, &[]);
    let cut = Signalled::start(&desk, &["worker", &relay.url(), "--once", "--cache", "cache", "--groups", "2"]);
    trainer.wait_until(|| steps(&desk) >= 1);
    relay.set_cut(true);
    let other = worker(&desk, &bus);
    // The groups of the worker that is cut off come back when their lease of a second ends.
    trainer.wait_until(|| steps(&desk) >= LEARNS);
    relay.set_cut(false);
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for worker in [cut, other] {
        let worker = worker.end_soon();
        assert_eq!(worker.code, Some(0), "{worker:?}");
    }
    assert_eq!(figure(&outcome.talk, "groups"), 64, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

#[test]
fn a_worker_leaves_a_run_that_lost_its_trainer_and_comes_back() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let url = bus.url();
    let patient = ["worker", &url, "--cache", "cache", "--trainer-timeout", "2"];
    let stays = Signalled::start(&desk, &patient);
    let once = Signalled::start(&desk, &[&patient[..], &["--once"]].concat());
    trainer.wait_until(|| steps(&desk) >= 3);
    trainer.send("KILL");
    trainer.end();
    let once = once.end_soon();
    assert_eq!(once.code, Some(0), "{once:?}");
    assert!(once.talk.contains("has not answered for 2 s, so that this worker leaves the run"), "{}", once.talk);
    let outcome = run(&desk, &bus, &["--resume"]).end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    stays.send("TERM");
    let stays = stays.end_soon();
    assert_eq!(stays.code, Some(0), "{stays:?}");
    assert_eq!(stays.talk.matches("playing groups of run ").count(), 2, "{}", stays.talk);
    expected.assert_same(&Essence::of(&desk));
}

#[test]
fn a_worker_ends_if_the_bus_lost_a_file() {
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let bucket = format!("gymkhana-{}", client.run);
        let stream = client.jetstream.get_stream(format!("OBJ_{bucket}")).await.expect("a bucket");
        stream.purge().filter(format!("$O.{bucket}.C.>")).await.expect("purged");
    });
    let worker = worker(&desk, &bus).end_soon().mistake("a file without its content");
    assert!(worker.contains("`run.toml` of the run cannot be fetched"), "{worker}");
    assert!(worker.contains("the bus sent nothing of it for 15 s"), "{worker}");
    assert!(worker.contains("hint: restart the run"), "{worker}");
    assert!(trainer.is_running());
    trainer.send("INT");
    trainer.end_soon();
}

#[test]
fn the_bus_shows_the_position_of_a_run() {
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    let (worker, runs, key, seen) = runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let worker = worker(&desk, &bus);
        let runs = client.jetstream.get_key_value("gymkhana-runs").await.expect("a bucket");
        let key = format!("{}.position", client.run);
        let seen = loop {
            if let Some(text) = runs.get(&key).await.expect("the bucket") {
                let position: Value = serde_json::from_slice(&text).expect("JSON");
                if position["stage"] == "rl" && (1..5).contains(&position["step"].as_u64().expect("a number")) {
                    break position;
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        (worker, runs, key, seen)
    });
    assert_eq!(trainer.end().code, Some(0));
    assert_eq!(worker.end().code, Some(0));
    // The episodes of the step that follows have tokens of this version.
    let step = seen["step"].as_u64().expect("a number");
    let follows =
        |record: &EpisodeRecord| (record.id.stage, record.id.phase, record.id.step) == (1, Phase::Train, step);
    let record = desk.episodes().into_iter().find(follows).expect("a step that follows");
    let version = record.segments[0].versions().iter().max();
    assert_eq!(seen, json!({ "stage": "rl", "step": step, "steps": 5, "weight_version": version }));
    assert_eq!(runtime.block_on(async { runs.get(&key).await.expect("the bucket") }), None, "it ends with the run");
}
