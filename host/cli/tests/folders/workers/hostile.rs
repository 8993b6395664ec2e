//! Workers that send what they were not asked for: they are refused, and a sound worker plays the groups.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use futures::StreamExt;
use gymkhana_registry::Digest;
use gymkhana_tests::bus_messages::parts;
use serde_json::json;
use tokio::runtime::Runtime;

use super::client::Client;
use super::{figure, run, undisturbed, worker};
use crate::common::Desk;
use crate::common::bus::Bus;
use crate::common::killed::{Signalled, assert_each_stored_once};
use crate::determinism::Essence;

#[test]
fn results_of_a_hostile_worker_are_refused() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let mut versions = client.description["versions"].clone();
        versions["host"] = json!("9.9.9");
        // Without an answer: neither is a result.
        for nonsense in [&b""[..], b"\xff\xff\xff\xff", b"\x02\0\0\0{}"] {
            client.client.publish(client.subject("results"), nonsense.to_vec().into()).await.expect("sent");
        }
        for (change, records, reason) in [
            (json!({}), &b""[..], "it has no records"),
            (json!({}), b"no records", "another length"),
            (json!({ "records": Digest::of(b"other").to_string() }), b"", "not those of its digest"),
            (json!({ "object": 2_u64 << 30 }), b"", "larger than"),
            (json!({ "versions": versions }), b"", "host version 9.9.9 of the worker"),
            (json!({ "lock": Digest::of(b"other").to_string() }), b"", "other plugins"),
            (json!({ "worker": "w".repeat(200) }), b"", "has 200 bytes"),
            (json!({ "job": 1_000_000 }), b"", "not-wanted"),
        ] {
            let answer = client.offer(client.result(&change, records)).await;
            assert!(answer.contains(reason), "{reason}: {answer}");
        }
    });
    assert!(trainer.is_running());
    let worker = worker(&desk, &bus);
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(worker.end().code, Some(0));
    assert_eq!((figure(&outcome.talk, "refused"), figure(&outcome.talk, "not wanted")), (7, 1), "{}", outcome.talk);
    assert!(outcome.talk.contains("a result of worker hostile was refused: it has no records"), "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
}

/// Two workers that send the records of another run of the same seed, whose tokens this trainer never sampled.
#[test]
fn tokens_that_the_trainer_did_not_sample_are_refused() {
    let runtime = Runtime::new().expect("a runtime");
    let (bus, other) = (Bus::start(), Desk::deterministic(5));
    let trainer = run(&other, &bus, &[]);
    let records = runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let mut results = client.client.subscribe(client.subject("results")).await.expect("a subscription");
        let worker = worker(&other, &bus);
        let first = results.next().await.expect("a result").payload;
        assert_eq!(worker.end().code, Some(0));
        parts(&first).1.to_vec()
    });
    assert_eq!(trainer.end().code, Some(0));
    let expected = Essence::of(&other);
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let offer = |worker, job: u64| client.offer(client.result(&json!({ "worker": worker, "job": job }), &records));
        let is_refused = |answer: &str| answer.contains("of weight version 0, but the trainer sampled none");
        // Jobs are numbered in the order in which the groups begin, which differs between runs.
        let (mut job, since) = (0, Instant::now());
        loop {
            let answer = offer("a", job).await;
            if is_refused(&answer) {
                break;
            }
            if answer.contains("is not one of group") {
                job += 1;
            } else {
                assert!(since.elapsed() < Duration::from_secs(60), "{answer}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let again = offer("b", job).await;
        assert!(is_refused(&again), "{again}");
    });
    assert!(trainer.is_running());
    let worker = worker(&desk, &bus);
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(worker.end().code, Some(0));
    expected.assert_same(&Essence::of(&desk));
}

/// Workers without a key, and with one that the trainer does not know, bring nothing into the run and take nothing from it.
#[test]
fn only_workers_of_known_keys_are_heard() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let key = |name: &str| desk.host(&["worker", "--new-key", name]).succeeded().trim().to_owned();
    let (own, stranger) = (key("own.key"), key("stranger.key"));
    assert_ne!(own, stranger);
    desk.write("keys", format!("{own} the only machine\n"));
    let mut trainer = run(&desk, &bus, &["--worker-keys", "keys"]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let header = client.header(&json!({}), b"");
        let unsigned = [&(header.len() as u32).to_le_bytes()[..], header.as_bytes(), &[0]].concat();
        let answer = client.offer(unsigned).await;
        assert!(answer.contains("it is not signed"), "{answer}");
        // A signed result of a key that the trainer does not know, and a policy call: the seventh answer is a refusal, and the
        // sixth of its reasons the key.
        let answer = client.offer(client.result(&json!({}), b"")).await;
        assert!(answer.contains("is not one of the trainer's --worker-keys"), "{answer}");
        let call = client.message("policy", "null", &release("hostile", 1));
        assert_eq!(client.ask("policy", call).await, [6, 5]);
    });
    let arguments = |key: &'static str| ["worker", "--once", "--cache", "cache", "--key", key].map(str::to_owned);
    let with = |key| {
        let arguments = arguments(key);
        let url = bus.url();
        let all: Vec<&str> = arguments.iter().map(String::as_str).chain([url.as_str()]).collect();
        Signalled::start(&desk, &all)
    };
    let refused = with("stranger.key").end();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.talk.contains("is not one of the trainer's --worker-keys"), "{refused:?}");
    assert!(refused.talk.contains("if the worker is yours"), "{refused:?}");
    assert!(trainer.is_running());
    let worker = with("own.key");
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let worker = worker.end();
    assert_eq!(worker.code, Some(0), "{worker:?}");
    assert!(worker.talk.contains(&format!("results are signed with key {own}")), "{worker:?}");
    assert!(figure(&outcome.talk, "refused") >= 2, "{}", outcome.talk);
    assert!(figure(&outcome.talk, "messages dropped") >= 1, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));

    let missing = desk.host(&["worker", &bus.url(), "--key", "none.key"]).mistake("a missing key");
    assert!(missing.contains("make a key with `host worker --new-key FILE`"), "{missing}");
}

/// A worker that acknowledges a job and plays nothing.
#[test]
fn a_job_that_is_taken_off_the_queue_is_queued_again() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let jobs = client.jetstream.get_stream(format!("gymkhana-{}-jobs", client.run)).await.expect("a stream");
        let epoch = client.description["epoch"].as_str().expect("a text");
        let queue = jobs.get_consumer::<pull::Config>(&format!("workers-{epoch}")).await.expect("a queue");
        let mut pulled = queue.fetch().max_messages(1).messages().await.expect("a pull");
        let job = pulled.next().await.expect("a job").expect("a message");
        job.double_ack().await.expect("acknowledged");
    });
    let worker = worker(&desk, &bus);
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(worker.end().code, Some(0));
    assert_eq!(outcome.talk.matches("was lost from the queue, and is queued again").count(), 1, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
}

/// Bytes of a policy call that releases a conversation, in the encoding of the bus.
fn release(worker: &str, delivery: u8) -> Vec<u8> {
    let length = worker.len();
    let name = [vec![(length & 0x7f) as u8 | 0x80, (length >> 7) as u8], worker.as_bytes().to_vec()].concat();
    let (job, call, seat, kind, conversation) = (0, 0, 0, 2, 0);
    [name, vec![job, delivery, call, seat, kind, conversation]].concat()
}

#[test]
fn policy_calls_above_a_limit_are_refused() {
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let (released, refused) = (3, 6);
        let call = |worker: &str, delivery| client.message("policy", "null", &release(worker, delivery));
        let sound = client.ask("policy", call(&"w".repeat(128), 1)).await;
        assert_eq!(sound, [released]);
        for wrong in [call(&"w".repeat(129), 1), call("w", 0), call("w", 33)] {
            let answer = client.ask("policy", wrong).await;
            assert_eq!(answer[0], refused, "{answer:?}");
        }
    });
    assert!(trainer.is_running());
    trainer.send("INT");
    assert_eq!(trainer.end_soon().code, Some(130));
}

#[test]
fn a_failure_of_single_workers_does_not_end_the_run() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let mut trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        for worker in ["a", "b", "a"] {
            let failed = json!({ "worker": worker, "end": { "failed": "its disk is full" } });
            assert_eq!(client.offer(client.result(&failed, b"")).await, "\"elsewhere\"");
        }
    });
    assert!(trainer.is_running());
    let worker = worker(&desk, &bus);
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(worker.end().code, Some(0));
    assert_eq!(figure(&outcome.talk, "failed"), 3, "{}", outcome.talk);
    assert!(outcome.talk.contains("worker a failed to play a group: its disk is full"), "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
}

#[test]
fn a_group_that_three_workers_cannot_play_ends_the_run() {
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        for (worker, why) in [("a", "out of memory"), ("b", "no permission"), ("c", "its disk is full")] {
            let failed = json!({ "worker": worker, "end": { "failed": why } });
            assert_eq!(client.offer(client.result(&failed, b"")).await, "\"elsewhere\"");
        }
    });
    let outcome = trainer.end_soon();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.talk.contains("several workers failed at it, the last of them c: its disk is full"), "{outcome:?}");
    assert!(outcome.talk.contains("hint: correct the failure at the workers"), "{outcome:?}");
}

/// Every result comes three times, and once more behind those of later groups.
#[test]
fn repeated_and_reordered_results_are_stored_once() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    let worker = runtime.block_on(async {
        let client = Client::of_run(&bus).await;
        let mut results = client.client.subscribe(client.subject("results")).await.expect("a subscription");
        let worker = worker(&desk, &bus);
        let mut captured = Vec::new();
        while captured.len() < 6 {
            let message = results.next().await.expect("a result").payload.to_vec();
            if captured.contains(&message) {
                continue;
            }
            for _ in 0..2 {
                client.client.publish(client.subject("results"), message.clone().into()).await.expect("sent");
            }
            captured.push(message);
        }
        for message in captured.into_iter().rev() {
            // A copy may be read before the original, which then is the one that is not wanted.
            let answer = client.offer(message).await;
            assert!(["\"not-wanted\"", "\"accepted\""].contains(&&answer[..]), "{answer}");
        }
        worker
    });
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(worker.end().code, Some(0));
    // As many groups as without repetitions, and three repetitions of six results.
    assert_eq!((figure(&outcome.talk, "groups"), figure(&outcome.talk, "not wanted")), (64, 18), "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
    assert_each_stored_once(&desk.path("out"));
}

/// A program on the bus that answers every request of a worker before the trainer does, and sends each message of a worker
/// again with one bit changed: the run and its workers do not notice.
#[test]
fn damaged_and_forged_messages_change_nothing() {
    let expected = undisturbed();
    let (bus, desk) = (Bus::start(), Desk::deterministic(5));
    let trainer = run(&desk, &bus, &[]);
    let runtime = Runtime::new().expect("a runtime");
    let (client, mut heard) = runtime.block_on(async {
        let run = Client::of_run(&bus).await.run;
        let client = async_nats::ConnectOptions::new().no_echo().connect(bus.url()).await.expect("the bus");
        let heard = client.subscribe(format!("gymkhana.{run}.>")).await.expect("a subscription");
        client.flush().await.expect("the bus");
        (client, heard)
    });
    let forger = runtime.spawn(async move {
        let mut sent = 0_usize;
        while let Some(message) = heard.next().await {
            let mut flipped = message.payload.to_vec();
            let place = sent * 37 % flipped.len().max(1);
            flipped.get_mut(place).into_iter().for_each(|byte| *byte ^= 1 << (sent % 8));
            sent += 1;
            let of_worker = message.reply.filter(|_| !message.subject.contains(".jobs."));
            let Some(reply) = of_worker else {
                client.publish(message.subject, flipped.into()).await.expect("sent");
                continue;
            };
            // A refusal by number of stop texts, and verdicts, with and without the bytes of a signature.
            for body in [&b"\x06\x03\x05\x01"[..], b"{\"refused\":\"x\"}", b"\"not-wanted\"", b"\xff"] {
                client.publish(reply.clone(), body.to_vec().into()).await.expect("sent");
                client.publish(reply.clone(), [&[7; 64], body].concat().into()).await.expect("sent");
            }
            client.publish_with_reply(message.subject, reply, flipped.into()).await.expect("sent");
        }
    });
    let worker = worker(&desk, &bus);
    let outcome = trainer.end();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let worker = worker.end();
    assert_eq!(worker.code, Some(0), "{worker:?}");
    forger.abort();
    assert!(figure(&outcome.talk, "messages dropped") > 100, "{}", outcome.talk);
    for (talk, what) in [(&outcome.talk, "was dropped: it"), (&worker.talk, "a reply on the bus was dropped")] {
        assert!(talk.contains(what), "{talk}");
        assert!(talk.contains("hint: check who may write to the bus"), "{talk}");
    }
    assert_eq!(figure(&outcome.talk, "failed"), 0, "{}", outcome.talk);
    expected.assert_same(&Essence::of(&desk));
}
