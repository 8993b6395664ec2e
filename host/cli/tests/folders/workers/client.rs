//! A client of the bus beside the trainer and its workers: reads what a run has there, and sends messages of workers.

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, Context};
use futures::StreamExt;
use gymkhana_registry::Digest;
use gymkhana_tests::bus_messages::{Key, read_reply};
use serde_json::{Value, json};

use crate::common::bus::Bus;

/// Longest time until a run is on the bus.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run on the bus.
pub struct Client {
    key: Key,
    pub client: async_nats::Client,
    pub jetstream: Context,
    /// Name of the run there.
    pub run: String,
    pub description: Value,
}

impl Client {
    /// Waits for the first run on the bus, and for its first job.
    pub async fn of_run(bus: &Bus) -> Self {
        let client = async_nats::connect(bus.url()).await.expect("the bus");
        let jetstream = jetstream::new(client.clone());
        let since = Instant::now();
        loop {
            if let Ok(runs) = jetstream.get_key_value("gymkhana-runs").await
                && let Some(Ok(run)) = runs.keys().await.expect("keys").next().await
                && !run.contains('.')
                && let Ok(jobs) = jetstream.get_stream(format!("gymkhana-{run}-jobs")).await
                && jobs.cached_info().state.last_sequence > 0
            {
                let text = runs.get(&run).await.expect("a bucket").expect("a description");
                let description = serde_json::from_slice(&text).expect("JSON");
                return Self { key: Key::new(), client, jetstream, run, description };
            }
            assert!(since.elapsed() < PATIENCE, "the run is not on the bus");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A subject of the trainer: `results` or `policy`.
    pub fn subject(&self, kind: &str) -> String {
        let epoch = self.description["epoch"].as_str().expect("a text");
        format!("gymkhana.{}.{kind}.{epoch}", self.run)
    }

    /// A message to this subject of the trainer, signed with the client's key.
    pub fn message(&self, kind: &str, header: &str, body: &[u8]) -> Vec<u8> {
        self.key.message(&self.subject(kind), header, body)
    }

    /// A signed result of job 0 with these records, whose header has these changes.
    pub fn result(&self, change: &Value, records: &[u8]) -> Vec<u8> {
        self.message("results", &self.header(change, records), records)
    }

    /// The header of a result of job 0 with these records and changes.
    pub fn header(&self, change: &Value, records: &[u8]) -> String {
        let files = self.description["files"].as_array().expect("files");
        let lock = files.iter().find(|file| file["path"] == "gymkhana.lock").expect("a lock");
        let mut header = json!({
            "worker": "hostile", "versions": self.description["versions"], "lock": lock["digest"], "job": 0,
            "delivery": 1, "end": "played", "failed_forks": [0, ""], "records": Digest::of(records).to_string(),
            "object": null,
        });
        header.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        header.to_string()
    }

    /// The trainer's answer to a message.
    pub async fn ask(&self, kind: &str, message: Vec<u8>) -> Vec<u8> {
        let answer = self.client.request(self.subject(kind), message.clone().into()).await.expect("an answer");
        read_reply(&self.description, &message, &answer.payload)
    }

    /// The trainer's verdict on a result.
    pub async fn offer(&self, result: Vec<u8>) -> String {
        String::from_utf8_lossy(&self.ask("results", result).await).into_owned()
    }
}
