//! Cost of policy calls and results at a real trainer: a client of this bench plays the part of the workers.
//!
//! The calls ask for no tokens. The trainer reads them, looks up their job, starts a task, and sends an answer as for any
//! call, but asks no model. The results belong to jobs that are not wanted, which the trainer finds out after it has read
//! and checked their records.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::{Client, Request};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::try_join_all;
use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeRecord, Seed};
use gymkhana_registry::Digest;
use gymkhana_store::encode_episodes;
use gymkhana_tests::bus_messages::{Key, owner_parts};
use serde::Serialize;
use serde_json::{Value, json};

use super::bus::Bus;
use super::process::{Process, processor_seconds};
use super::shapes::Shape;

/// Index of the answer "failed", which is what a call without tokens gets.
const FAILED: u8 = 2;
/// Time that the trainer has for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A policy call, field by field as `host/workers` writes it.
#[derive(Serialize)]
struct PolicyCall {
    worker: &'static str,
    job: u64,
    delivery: u64,
    call: u64,
    seat: u32,
    request: PolicyRequest,
}

#[derive(Serialize)]
enum PolicyRequest {
    Generate {
        conversation: u64,
        place: u32,
        tokens: Vec<u32>,
        max_tokens: u64,
        stop: Vec<u32>,
        stop_texts: Vec<String>,
        sampling: Sampling,
        seed: Seed,
    },
}

/// Cost of an operation at the trainer.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Operations per second.
    pub rate: f64,
    /// Processor time of the trainer for one, in seconds.
    pub cpu: f64,
    /// Bytes of one operation's message.
    pub bytes: f64,
}

/// A trainer that waits for its workers.
pub struct Trainer {
    process: Process,
    client: Client,
    key: Key,
    description: Value,
    run: String,
    job: u64,
    next: u64,
    _bus: Bus,
}

impl Trainer {
    /// Starts a run of this shape, and takes one of its jobs.
    pub async fn start(shape: &Shape, folder: &Path, shared: &Path) -> Result<Self> {
        let bus = Bus::start()?;
        let process = shape.start(folder, shared, &["--workers", &bus.url()])?;
        let client = async_nats::connect(bus.url()).await?;
        let jetstream = async_nats::jetstream::new(client.clone());
        let since = Instant::now();
        let (run, description) = loop {
            ensure!(since.elapsed() < PATIENCE, "the run is not on the bus: {}", process.talk());
            if let Ok(runs) = jetstream.get_key_value("gymkhana-runs").await
                && let Some(Ok(key)) = runs.keys().await?.next().await
                && let Some(text) = runs.get(&key).await?
            {
                break (key, serde_json::from_slice::<Value>(&text)?);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let queue = jetstream.get_stream(format!("gymkhana-{run}-jobs")).await?;
        let consumer = format!("workers-{}", epoch(&description)?);
        let jobs: Consumer<pull::Config> = queue.get_consumer(&consumer).await.map_err(anyhow::Error::from_boxed)?;
        let mut batch = jobs.batch().max_messages(1).expires(Duration::from_secs(30)).messages().await?;
        let job = batch.next().await.context("the run has no job")?.map_err(anyhow::Error::from_boxed)?;
        let job: Value = serde_json::from_slice(owner_parts(&job.payload).1)?;
        let job = job["number"].as_u64().context("a job has a number")?;
        Ok(Self { process, client, key: Key::new(), description, run, job, next: 0, _bus: bus })
    }

    /// Calls with prompts of this many tokens, `at_once` at a time.
    pub async fn calls(&mut self, tokens: usize, at_once: usize, count: usize) -> Result<Cost> {
        let subject = format!("gymkhana.{}.policy.{}", self.run, epoch(&self.description)?);
        let each = count / at_once;
        let messages = (0..each * at_once).map(|_| self.call(&subject, tokens)).collect::<Result<Vec<Bytes>>>()?;
        let bytes = messages[0].len() as f64;
        let (rate, cpu) = self.measured(&subject, &messages, at_once, |answer| answer.first() == Some(&FAILED)).await?;
        Ok(Cost { rate, cpu, bytes })
    }

    /// Results with these records, of jobs that the trainer does not know.
    pub async fn results(&self, records: &[EpisodeRecord], at_once: usize, count: usize) -> Result<Cost> {
        let subject = format!("gymkhana.{}.results.{}", self.run, epoch(&self.description)?);
        let records = encode_episodes(records)?;
        let files = self.description["files"].as_array().context("a run has files")?;
        let lock = files.iter().find(|file| file["path"] == "gymkhana.lock").context("a run has a lock")?;
        let header = json!({
            "worker": "bench", "versions": self.description["versions"], "lock": lock["digest"], "job": 1_000_000_000,
            "delivery": 1, "end": "played", "failed_forks": [0, ""], "records": Digest::of(&records).to_string(),
            "object": null,
        })
        .to_string();
        let messages = vec![Bytes::from(self.key.message(&subject, &header, &records)); count];
        let (rate, cpu) = self.measured(&subject, &messages, at_once, |answer| answer == b"\"not-wanted\"").await?;
        Ok(Cost { rate, cpu, bytes: records.len() as f64 })
    }

    /// Sends the messages, `at_once` at a time; returns their number per second and the trainer's processor time of one.
    async fn measured(
        &self,
        subject: &str,
        messages: &[Bytes],
        at_once: usize,
        is_expected: fn(&[u8]) -> bool,
    ) -> Result<(f64, f64)> {
        let (before, begun) = (processor_seconds(self.process.id())?, Instant::now());
        let parts = messages.chunks(messages.len().div_ceil(at_once)).map(async |part| {
            for message in part {
                let request = Request::new().payload(message.clone()).timeout(Some(PATIENCE));
                let answer = self.client.send_request(subject.to_owned(), request).await?;
                let (_, answer) = owner_parts(&answer.payload);
                ensure!(is_expected(answer), "the trainer gave another answer: {answer:?}");
            }
            Ok(())
        });
        try_join_all(parts).await?;
        let (seconds, count) = (begun.elapsed().as_secs_f64(), messages.len() as f64);
        Ok((count / seconds, (processor_seconds(self.process.id())? - before) / count))
    }

    fn call(&mut self, subject: &str, tokens: usize) -> Result<Bytes> {
        self.next += 1;
        let request = PolicyRequest::Generate {
            // A group has some conversations, each with several calls.
            conversation: self.next % 8,
            place: 0,
            tokens: vec![1000; tokens],
            max_tokens: 0,
            stop: vec![2],
            stop_texts: vec![],
            sampling: Sampling::at(1.0),
            seed: Seed(self.next),
        };
        let call = PolicyCall { worker: "bench", job: self.job, delivery: 1, call: self.next, seat: 0, request };
        Ok(self.key.message(subject, "null", &postcard::to_allocvec(&call)?).into())
    }
}

fn epoch(description: &Value) -> Result<&str> {
    description["epoch"].as_str().context("a run has an epoch")
}
