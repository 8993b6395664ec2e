//! Cost of jobs and of requests at the bus alone, with synthetic messages at increasing load.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::stream::{self, RetentionPolicy};
use async_nats::jetstream::{AckKind, Context as JetStream};
use async_nats::{Client, Request};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::try_join_all;

use super::bus::Bus;

/// Bytes of a job.
const JOB: usize = 600;
/// Time that a request has.
const PATIENCE: Duration = Duration::from_secs(60);

/// Cost of an operation at some load.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Operations per second.
    pub rate: f64,
    /// Processor time of the bus for one, in seconds.
    pub cpu: f64,
}

/// Measures `count` operations.
async fn measured(bus: &Bus, count: usize, work: impl Future<Output = Result<()>>) -> Result<Cost> {
    let (before, begun) = (bus.traffic()?, Instant::now());
    work.await?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Cost { rate: count as f64 / seconds, cpu: (bus.traffic()? - before).cpu / count as f64 })
}

/// Requests with this many bytes each way, `at_once` at a time.
pub async fn requests(bus: &Bus, bytes: usize, at_once: usize, count: usize) -> Result<Cost> {
    let (asks, answers) = (async_nats::connect(bus.url()).await?, async_nats::connect(bus.url()).await?);
    let mut asked = answers.subscribe("bench.requests").await?;
    answers.flush().await?;
    let content = Bytes::from(vec![7; bytes]);
    let answer = content.clone();
    let answering = tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            if let Some(reply) = message.reply {
                // The bench ends where the bus is gone.
                let _ = answers.publish(reply, answer.clone()).await;
            }
        }
    });
    let each = count / at_once;
    let cost = measured(bus, each * at_once, async {
        let one = |()| {
            let (client, content) = (asks.clone(), content.clone());
            async move {
                for _ in 0..each {
                    let request = Request::new().payload(content.clone()).timeout(Some(PATIENCE));
                    client.send_request("bench.requests", request).await?;
                }
                anyhow::Ok(())
            }
        };
        try_join_all((0..at_once).map(|_| one(()))).await?;
        Ok(())
    });
    let cost = cost.await;
    answering.abort();
    cost
}

/// Jobs that pass through a work queue as those of a run do: kept, pulled one by one by `workers`, acknowledged, removed.
pub async fn jobs(bus: &Bus, workers: usize, count: usize) -> Result<Cost> {
    let client = async_nats::connect(bus.url()).await?;
    let jetstream = async_nats::jetstream::new(client);
    let config = stream::Config {
        name: "bench".to_owned(),
        subjects: vec!["bench.jobs".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        ..Default::default()
    };
    let queue = jetstream.create_stream(config).await?;
    let consumer = pull::Config {
        durable_name: Some("workers".to_owned()),
        ack_policy: AckPolicy::Explicit,
        max_ack_pending: -1,
        ..Default::default()
    };
    queue.create_consumer(consumer).await?;
    let each = count / workers;
    let players = try_join_all((0..workers).map(|_| async_nats::connect(bus.url()))).await?;
    let cost = measured(bus, each * workers, async {
        let publishing = publish(&jetstream, each * workers);
        let playing = try_join_all(players.into_iter().map(|client| play(client, each)));
        tokio::try_join!(publishing, playing)?;
        Ok(())
    });
    let cost = cost.await?;
    jetstream.delete_stream("bench").await?;
    Ok(cost)
}

async fn publish(jetstream: &JetStream, count: usize) -> Result<()> {
    let jetstream = Arc::new(jetstream.clone());
    let content = Bytes::from(vec![7; JOB]);
    for first in (0..count).step_by(64) {
        let kept = (first..count.min(first + 64)).map(|_| {
            let (jetstream, content) = (Arc::clone(&jetstream), content.clone());
            async move { Ok::<_, anyhow::Error>(jetstream.publish("bench.jobs", content).await?.await?) }
        });
        try_join_all(kept).await?;
    }
    Ok(())
}

/// Takes jobs one by one; each is removed from the queue after its acknowledgement, as the trainer does.
async fn play(client: Client, count: usize) -> Result<()> {
    let jetstream = async_nats::jetstream::new(client);
    let queue = jetstream.get_stream("bench").await?;
    let jobs: Consumer<pull::Config> = queue.get_consumer("workers").await.map_err(anyhow::Error::from_boxed)?;
    let mut taken = 0;
    while taken < count {
        let mut batch = jobs.batch().max_messages(1).expires(Duration::from_secs(2)).messages().await?;
        let Some(job) = batch.next().await else { continue };
        let job = job.map_err(anyhow::Error::from_boxed)?;
        let sequence = job.info().map_err(anyhow::Error::from_boxed)?.stream_sequence;
        job.ack_with(AckKind::Ack).await.map_err(anyhow::Error::from_boxed)?;
        // A job that was acknowledged first is gone.
        let _ = queue.delete_message(sequence).await;
        taken += 1;
    }
    Ok(())
}

/// Processor time of a small request, and of a byte, from a small and a large request. The bytes of the small one are in
/// its time as well: at high load it costs less than its bytes alone would in a large one.
pub fn line(small: Cost, large: (usize, Cost)) -> (f64, f64) {
    // A request and its answer both have these bytes.
    (small.cpu, large.1.cpu / (2.0 * large.0 as f64))
}
