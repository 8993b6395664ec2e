//! The queue of a run's jobs on the bus, beside its publication. QueueCreated again whenever the bus lost it.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::{ConsumerInfoErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream;
use async_nats::jetstream::stream::{DiscardPolicy, RawMessageErrorKind, RetentionPolicy, StorageType};
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_registry::Digest;
use gymkhana_waits::{Counterpart, within};

use crate::messages::WorkerJob;
use crate::publication::{NOT_FOUND, NOT_TAKEN, Publication};

/// Time in which a job that was published twice is stored once.
const DUPLICATES: Duration = Duration::from_secs(120);
/// Time in which the bus counts jobs that it has confirmed.
const COUNTED: Duration = Duration::from_secs(1);

/// Longest time of a look at the queue.
const LOOKED: Duration = Duration::from_secs(15);

/// What the bus has of the queue.
pub(crate) enum QueueState {
    /// The queue, without the jobs at these places: a worker removed them, or a full disk lost them.
    Here { missing: Vec<u64> },
    /// A queue that delivers fewer jobs than it has, as after a restart with a full disk.
    Stuck,
    /// Nothing.
    Gone,
    /// It does not say so, as after a timeout.
    Unknown,
}

/// The run on the bus.
#[derive(Clone)]
pub(crate) struct Streams {
    pub publication: Publication,
}

impl Streams {
    /// The same run in a new life of its trainer.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn renewed(&self) -> RunResult<Self> {
        Ok(Self { publication: self.publication.renewed()? })
    }

    /// Removes what an earlier trainer of the run left on the bus.
    pub async fn clear(&self) {
        self.remove_queue().await;
        self.publication.clear().await;
    }

    /// Makes what is missing. The description comes last, since workers begin with it.
    ///
    /// # Errors
    /// If the bus refuses.
    pub async fn make(&self) -> RunResult<()> {
        let (jetstream, names) = (&self.publication.bus.jetstream, &self.publication.names);
        let jobs = stream::Config {
            name: names.jobs_stream(),
            subjects: vec![names.all_jobs()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            duplicate_window: DUPLICATES,
            ..Default::default()
        };
        let jobs = jetstream.get_or_create_stream(jobs).await.user_context(NOT_TAKEN)?;
        let workers = pull::Config {
            durable_name: Some(names.consumer()),
            filter_subject: names.jobs(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_millis(self.publication.description.lease_ms),
            // The stream bounds the number of jobs.
            max_ack_pending: -1,
            ..Default::default()
        };
        jobs.get_or_create_consumer(&names.consumer(), workers).await.user_context(NOT_TAKEN)?;
        self.publication.make().await
    }

    /// What the bus has of the queue. `queued` are the places of jobs that must be there.
    pub async fn poll(&self, queued: &[u64]) -> QueueState {
        match self.look_in_time(queued).await {
            // A bus may count new jobs later than it confirms them.
            QueueState::Stuck => {
                tokio::time::sleep(COUNTED).await;
                self.look_in_time(queued).await
            }
            found => found,
        }
    }

    async fn look_in_time(&self, queued: &[u64]) -> QueueState {
        within(Counterpart::Bus, LOOKED, self.look_once(queued)).await.unwrap_or(QueueState::Unknown)
    }

    async fn look_once(&self, queued: &[u64]) -> QueueState {
        let jobs = match self.publication.bus.jetstream.get_stream(self.publication.names.jobs_stream()).await {
            Ok(jobs) => jobs,
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if error.code() == NOT_FOUND => return QueueState::Gone,
                _ => return QueueState::Unknown,
            },
        };
        let known = match jobs.consumer_info(self.publication.names.consumer()).await {
            Ok(workers) => workers.num_pending + workers.num_ack_pending as u64,
            Err(error) => match error.kind() {
                ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => return QueueState::Gone,
                ConsumerInfoErrorKind::JetStream(error) if error.code() == NOT_FOUND => return QueueState::Gone,
                _ => return QueueState::Unknown,
            },
        };
        let mut missing = Vec::new();
        if known.min(jobs.cached_info().state.messages) < queued.len() as u64 {
            for sequence in queued {
                let found = jobs.get_raw_message(*sequence).await;
                let is_missing = found.is_err_and(|error| match error.kind() {
                    RawMessageErrorKind::NoMessageFound => true,
                    RawMessageErrorKind::JetStream(error) => error.code() == NOT_FOUND,
                    _ => false,
                });
                missing.extend(is_missing.then_some(*sequence));
            }
        }
        // Jobs that are there now were there when the bus counted.
        let is_stuck = known < (queued.len() - missing.len()) as u64;
        if is_stuck { QueueState::Stuck } else { QueueState::Here { missing } }
    }

    /// Removes the queue.
    pub async fn remove_queue(&self) {
        // What does not exist needs no removal.
        let _ = self.publication.bus.jetstream.delete_stream(self.publication.names.jobs_stream()).await;
    }

    /// Adds a job to the queue; returns its place there. A name that the bus knows is not queued again.
    ///
    /// # Errors
    /// In words, if the bus does not confirm it.
    pub async fn add(&self, job: &WorkerJob, name: &str) -> Result<u64, String> {
        let text = serde_json::to_vec(job).map_err(|error| error.to_string())?;
        let subject = self.publication.names.jobs();
        let job = self.publication.signer.state(&Digest::of(subject.as_bytes()), &text).ok_or("it cannot be signed")?;
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", name);
        let sent = self.publication.bus.jetstream.publish_with_headers(subject, headers, job).await;
        let confirmed = sent.map_err(|error| error.to_string())?.await;
        confirmed.map(|ack| ack.sequence).map_err(|error| error.to_string())
    }

    /// Removes a job from the queue, whether or not a worker has it.
    pub async fn remove(&self, sequence: u64) {
        if let Ok(jobs) = self.publication.bus.jetstream.get_stream_no_info(self.publication.names.jobs_stream()).await
        {
            // A job that the worker has acknowledged is gone.
            let _ = jobs.delete_message(sequence).await;
        }
    }
}
