//! Workers that announce what they are not, or answer what they were not asked: their sessions continue at a sound worker.

use futures::StreamExt;
use gymkhana_registry::Digest;
use gymkhana_tests::bus_messages::{Key, parts, read_reply};
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use super::sessions::{LAKE, LAKE_FILE, front, stop, turn, wait_for, worker};
use crate::common::Desk;
use crate::common::bus::Bus;

/// A client of the bus that knows the served catalog.
struct Intruder {
    key: Key,
    client: async_nats::Client,
    run: String,
    description: Json,
}

impl Intruder {
    async fn enter(bus: &Bus) -> Self {
        let client = async_nats::connect(bus.url()).await.expect("the bus");
        let jetstream = async_nats::jetstream::new(client.clone());
        let runs = jetstream.get_key_value("gymkhana-runs").await.expect("the bucket");
        let run = runs.keys().await.expect("keys").next().await.expect("a server").expect("a key");
        let text = runs.get(&run).await.expect("a bucket").expect("a description");
        Self { key: Key::new(), client, run, description: serde_json::from_slice(&text).expect("JSON") }
    }

    fn subject(&self, kind: &str) -> String {
        format!("gymkhana.{}.{kind}.{}", self.run, self.description["epoch"].as_str().expect("a text"))
    }

    /// The server's answer to a heartbeat with these changes.
    async fn beat(&self, change: &Json) -> String {
        let files = Digest::of(self.description["files"].to_string().as_bytes());
        let mut beat = json!({
            "worker": "intruder", "name": "intruder", "versions": self.description["versions"],
            "files": files.to_string(), "places": 1_000_000, "number": 1, "leaves": false,
        });
        beat.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let message = self.key.message(&self.subject("beats"), &beat.to_string(), b"");
        let answer = self.client.request(self.subject("beats"), message.clone().into()).await.expect("an answer");
        String::from_utf8_lossy(&read_reply(&self.description, &message, &answer.payload)).into_owned()
    }

    /// Announces a worker of this id; its answer to the first request has this header, with `{}` in place of a digest, and
    /// this body.
    async fn answer_once(&self, id: &str, change: &Json, body: &[u8]) {
        let subject = format!("{}.{id}", self.subject("places"));
        let mut requests = self.client.subscribe(subject.clone()).await.expect("a subscription");
        self.client.flush().await.expect("the bus");
        assert_eq!(self.beat(&json!({ "worker": id })).await, "\"known\"");
        let request = requests.next().await.expect("a request");
        let mut header: Json = serde_json::from_slice(parts(&request.payload).0).expect("a header");
        header["parts"] = json!([body.len(), 0, 0]);
        header["digest"] = json!(Digest::of(body).to_string());
        header["in_object"] = json!(false);
        header.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        let reply = request.reply.expect("a subject");
        let answer = self.key.message(&subject, &header.to_string(), body);
        // Neither an altered answer nor one of another key is the worker's.
        let other = Key::new().message(&subject, &header.to_string(), body);
        for message in [[&answer[..], b"x"].concat(), other, answer] {
            self.client.publish(reply.clone(), message.into()).await.expect("sent");
        }
        self.client.flush().await.expect("the bus");
    }
}

#[test]
fn workers_of_other_versions_and_files_are_refused() {
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", LAKE_FILE);
    let server = front(&desk, &bus, LAKE);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let intruder = Intruder::enter(&bus).await;
        let mut versions = intruder.description["versions"].clone();
        versions["host"] = json!("9.9.9");
        // Without an answer: neither is a heartbeat.
        for nonsense in [&b""[..], b"\xff\xff\xff\xff", b"\x02\0\0\0{}"] {
            intruder.client.publish(intruder.subject("beats"), nonsense.to_vec().into()).await.expect("sent");
        }
        for (change, reason) in [
            (json!({ "versions": versions }), "host version 9.9.9 of the worker"),
            (json!({ "files": Digest::of(b"other").to_string() }), "other plugins or settings"),
            (json!({ "places": 0 }), "has 0 places"),
            (json!({ "worker": "a.>" }), "malformed"),
            (json!({ "number": 2 }), "\"lost\""),
        ] {
            let answer = intruder.beat(&change).await;
            assert!(answer.contains(reason), "{reason}: {answer}");
        }
        // A server of another version.
        let jetstream = async_nats::jetstream::new(intruder.client.clone());
        let runs = jetstream.get_key_value("gymkhana-runs").await.expect("the bucket");
        let other = intruder
            .description
            .to_string()
            .replace(&intruder.description["versions"]["host"].to_string(), "\"9.9.9\"");
        runs.put(&intruder.run, other.into()).await.expect("it is stored");
        let refused = desk.host(&["worker", &bus.url(), "--cache", "cache"]).mistake("another version");
        assert!(refused.contains("host version 9.9.9 of the server is not"), "{refused}");
        assert!(refused.contains("hint: use the server's version of `host`"), "{refused}");
        // A changed plugin.
        let mut altered = intruder.description.clone();
        let files = altered["files"].as_array_mut().expect("files");
        let plugin =
            files.iter_mut().find(|file| file["path"].as_str().is_some_and(|path| path.starts_with("plugins")));
        plugin.expect("a plugin")["digest"] = json!(Digest::of(b"other").to_string());
        runs.put(&intruder.run, altered.to_string().into()).await.expect("it is stored");
        let refused = desk.host(&["worker", &bus.url(), "--cache", "other-cache"]).mistake("another plugin");
        assert!(refused.contains("cannot be fetched"), "{refused}");
    });
    stop(server);
}

#[test]
fn answers_of_a_hostile_worker_are_refused() {
    let (bus, desk) = (Bus::start(), Desk::new());
    desk.write("serve.toml", LAKE_FILE);
    let server = front(&desk, &bus, LAKE);
    let sound = worker(&desk, &bus);
    wait_for(&server, "workers", 1);
    let runtime = Runtime::new().expect("a runtime");
    let cases = [
        (
            "a",
            json!({ "digest": Digest::of(b"other").to_string() }),
            &b"\"started\""[..],
            "a message that is not the one of its digest",
        ),
        ("b", json!({ "parts": [u64::MAX, 0, 0] }), b"\"started\"", "a message of more than 1073741824 bytes"),
        ("c", json!({ "parts": [1, 1, 1] }), b"\"started\"", "a message of another size than it says"),
        ("d", json!({ "worker": "other" }), b"\"started\"", "a message of another worker"),
        // Another program may repeat an answer of the worker: it is dropped, and the worker is lost by its silence.
        ("e", json!({ "number": 7 }), b"\"started\"", ""),
        ("f", json!({}), b"{", "a malformed answer"),
        ("g", json!({}), b"\"started\"", "a malformed episode"),
        ("h", json!({}), b"{\"turn\":null}", "the answer to another request"),
    ];
    let ids: Vec<String> = (0..cases.len()).map(|number| format!("hostile{number}")).collect();
    for ((trajectory, change, body, _), id) in cases.iter().zip(&ids) {
        let intruder = runtime.block_on(Intruder::enter(&bus));
        let (id, change, body) = (id.clone(), change.clone(), body.to_vec());
        let answering = runtime.spawn(async move { intruder.answer_once(&id, &change, &body).await });
        wait_for(&server, "workers", 2);
        let answer = turn(&server, trajectory, "down");
        assert_eq!(answer["valids"], json!([true]), "{answer}");
        runtime.block_on(answering).expect("it answered");
        wait_for(&server, "workers", 1);
    }
    let talk = stop(server);
    for (_, _, _, reason) in cases {
        let said = match reason {
            "" => "worker intruder stopped answering".to_owned(),
            reason => format!("worker intruder was refused: it sent {reason}"),
        };
        assert!(talk.contains(&said), "{reason}: {talk}");
    }
    sound.leave();
}
