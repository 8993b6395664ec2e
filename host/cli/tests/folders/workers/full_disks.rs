//! Full disks of the bus and of workers: clear errors, or a run that waits and continues, without lost episodes.

use std::io::Write;
use std::time::Duration;

use async_nats::jetstream::stream;
use tokio::runtime::Runtime;

use super::client::Client;
use super::{figure, run, steps, undisturbed, worker};
use crate::common::Desk;
use crate::common::bus::{Bus, Limits};
use crate::common::finish;
use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::determinism::Essence;

#[test]
fn a_bus_without_space_for_the_run_is_left_clean() {
    let (bus, desk) = (Bus::with_limits(Limits { files: 64 << 10, ..Limits::default() }), Desk::deterministic(5));
    let full = run(&desk, &bus, &[]).end_soon().mistake("a full bus");
    assert!(full.contains("the bus does not take `plugins/"), "{full}");
    assert!(full.contains("hint: free space at the bus, or raise the limits of its JetStream account"), "{full}");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = async_nats::connect(bus.url()).await.expect("the bus");
        let mut names = async_nats::jetstream::new(client).stream_names();
        let mut left = Vec::new();
        while let Some(name) = futures::StreamExt::next(&mut names).await {
            left.push(name.expect("a name"));
        }
        assert_eq!(left, Vec::<String>::new());
    });
}

/// Results are larger than a message here, so that workers need space too.
#[test]
fn a_run_waits_for_a_full_bus() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::with_limits(Limits { payload: 20 << 10, files: 4 << 20 }), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let worker = worker(&desk, &bus);
    let runtime = Runtime::new().expect("a runtime");
    let client = runtime.block_on(Client::of_run(&bus));
    trainer.wait_until(|| steps(&desk) >= 6);
    runtime.block_on(async {
        let config =
            stream::Config { name: "other".to_owned(), subjects: vec!["other".to_owned()], ..Default::default() };
        let other = client.jetstream.create_stream(config).await.expect("a stream");
        for size in [8 << 10, 512] {
            let mut refused = 0;
            // The run goes on meanwhile, and frees space.
            while refused < 20 {
                match client.jetstream.publish("other", vec![0; size].into()).await.expect("sent").await {
                    Ok(_) => refused = 0,
                    Err(_) => refused += 1,
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(steps(&desk) < 10, "the run waits");
        other.purge().await.expect("purged");
        client.jetstream.delete_stream("other").await.expect("deleted");
    });
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let worker = worker.end();
    assert_eq!(worker.code, Some(0), "{worker:?}");
    let warned = outcome.talk.contains("the run waits for the bus: it does not take groups")
        || worker.talk.contains("the bus does not take a result of");
    assert!(warned, "{outcome:?} {worker:?}");
    assert_eq!(figure(&outcome.talk, "groups"), 64, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

/// The server ends JetStream when it cannot write, until it is started again.
#[test]
fn a_run_waits_for_a_bus_that_could_not_write() {
    let Some(mut bus) = Bus::on_small_disk(16) else {
        let skipped = "skipped: no file system of 16 MiB can be mounted here, which needs root";
        return writeln!(std::io::stderr(), "{skipped}").expect("standard error");
    };
    let expected = undisturbed();
    let desk = Desk::deterministic(5);
    let mut trainer = run(&desk, &bus, &[]);
    let worker = worker(&desk, &bus);
    trainer.wait_until(|| steps(&desk) >= 6);
    // The run must not end while the disk is being filled.
    worker.send("STOP");
    bus.fill();
    worker.send("CONT");
    // The trainer looks every two seconds.
    std::thread::sleep(Duration::from_secs(6));
    assert!(trainer.is_running() && steps(&desk) < 10, "the run waits");
    bus.free();
    bus.kill_and_restart(true);
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let worker = worker.end_soon();
    assert_eq!(worker.code, Some(0), "{worker:?}");
    assert!(outcome.talk.contains("the run waits for the bus: "), "{}", outcome.talk);
    assert_eq!(figure(&outcome.talk, "groups"), 64, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

#[test]
fn a_worker_with_a_full_disk_ends_and_another_one_plays() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let url = bus.url();
    let arguments = ["worker", &url, "--once", "--cache", "small"];
    let full = finish(&mut desk.command_with_file_limit(64, &arguments)).mistake("a full disk");
    assert!(full.contains("small/") && full.contains("` cannot be written"), "{full}");
    assert!(full.contains("hint: free space there, or choose another --cache or TMPDIR"), "{full}");
    assert!(trainer.is_running());
    let sound = Signalled::start(&desk, &arguments);
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(sound.end().code, Some(0));
    expected.assert_same(&Essence::of(&desk));
}
