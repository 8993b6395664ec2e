//! What a run has on the bus: its description, its files and the queue of its jobs. Made again whenever the bus lost it.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::{ConsumerInfoErrorKind, GetStreamErrorKind};
use async_nats::jetstream::object_store::ObjectStore;
use async_nats::jetstream::stream::{DiscardPolicy, RawMessageErrorKind, RetentionPolicy, StorageType};
use async_nats::jetstream::{kv, object_store, stream};
use gymkhana_orchestration::remote::RunPosition;
use gymkhana_orchestration::{Classify, RunResult};

use crate::bus::{Bus, Names, RUNS, RunKey};
use crate::description::Description;
use crate::files;
use crate::messages::Job;

/// Time in which a job that was published twice is stored once.
const DUPLICATES: Duration = Duration::from_secs(120);
/// Time in which the bus counts jobs that it has confirmed.
const COUNTED: Duration = Duration::from_secs(1);
/// Code of the bus for what it does not have.
const NOT_FOUND: usize = 404;
const NOT_TAKEN: &str =
    "the bus does not keep the run\nhint: free space on its disk, or raise the limits of its JetStream account";

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

/// A name for a life of a trainer.
pub(crate) fn new_epoch() -> RunResult<String> {
    Ok(format!("{:016x}", getrandom::u64().internal()?))
}

/// The run on the bus.
#[derive(Clone)]
pub(crate) struct Streams {
    pub bus: Bus,
    pub run: RunKey,
    pub names: Names,
    pub folder: PathBuf,
    pub description: Description,
}

impl Streams {
    /// The same run in a new life of its trainer.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn renewed(&self) -> RunResult<Self> {
        let epoch = new_epoch()?;
        let names = Names::new(self.run.clone(), epoch.clone());
        Ok(Self { names, description: Description { epoch, ..self.description.clone() }, ..self.clone() })
    }

    /// Removes what an earlier trainer of the run left on the bus.
    pub async fn clear(&self) {
        let jetstream = &self.bus.jetstream;
        self.remove_queue().await;
        // What does not exist needs no removal.
        let _ = jetstream.delete_object_store(self.names.files_bucket()).await;
        if let Ok(runs) = jetstream.get_key_value(RUNS).await {
            let _ = runs.delete(self.run.to_string()).await;
            let _ = runs.delete(self.names.position()).await;
        }
    }

    /// Makes what is missing. The description comes last, since workers begin with it.
    ///
    /// # Errors
    /// If the bus refuses.
    pub async fn make(&self) -> RunResult<()> {
        let jetstream = &self.bus.jetstream;
        let jobs = stream::Config {
            name: self.names.jobs_stream(),
            subjects: vec![self.names.all_jobs()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            duplicate_window: DUPLICATES,
            ..Default::default()
        };
        let jobs = jetstream.get_or_create_stream(jobs).await.user_context(NOT_TAKEN)?;
        let workers = pull::Config {
            durable_name: Some(self.names.consumer()),
            filter_subject: self.names.jobs(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_millis(self.description.lease_ms),
            // The stream bounds the number of jobs.
            max_ack_pending: -1,
            ..Default::default()
        };
        jobs.get_or_create_consumer(&self.names.consumer(), workers).await.user_context(NOT_TAKEN)?;
        let files = self.files().await?;
        let bucket = self.names.files_bucket();
        files::publish(&self.bus, &bucket, &files, &self.folder, &self.description.files).await?;
        let runs = self.runs().await?;
        let description = serde_json::to_vec(&self.description).internal()?;
        runs.put(self.run.to_string(), description.into()).await.user_context(NOT_TAKEN)?;
        Ok(())
    }

    /// Writes the run's position beside its description.
    ///
    /// # Errors
    /// If the bus does not take it.
    pub async fn show(&self, position: &RunPosition) -> RunResult<()> {
        let runs = self.bus.jetstream.get_key_value(RUNS).await.user_error()?;
        let position = serde_json::to_vec(position).internal()?;
        runs.put(self.names.position(), position.into()).await.user_error()?;
        Ok(())
    }

    /// The bucket with the descriptions of all runs, made if it is missing. The stream is made here, because the client's
    /// own function needs fields that servers before 2.10 do not send.
    async fn runs(&self) -> RunResult<kv::Store> {
        let jetstream = &self.bus.jetstream;
        if let Ok(runs) = jetstream.get_key_value(RUNS).await {
            return Ok(runs);
        }
        let runs = stream::Config {
            name: format!("KV_{RUNS}"),
            subjects: vec![format!("$KV.{RUNS}.>")],
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            ..Default::default()
        };
        jetstream.get_or_create_stream(runs).await.user_context(NOT_TAKEN)?;
        jetstream.get_key_value(RUNS).await.user_context(NOT_TAKEN)
    }

    /// The bucket of files, made if it is missing.
    pub async fn files(&self) -> RunResult<ObjectStore> {
        let (jetstream, bucket) = (&self.bus.jetstream, self.names.files_bucket());
        match jetstream.get_object_store(&bucket).await {
            Ok(files) => Ok(files),
            Err(_) => jetstream
                .create_object_store(object_store::Config { bucket, ..Default::default() })
                .await
                .user_context(NOT_TAKEN),
        }
    }

    /// What the bus has of the queue. `queued` are the places of jobs that must be there.
    pub async fn look(&self, queued: &[u64]) -> QueueState {
        match self.look_once(queued).await {
            // A bus may count new jobs later than it confirms them.
            QueueState::Stuck => {
                tokio::time::sleep(COUNTED).await;
                self.look_once(queued).await
            }
            found => found,
        }
    }

    async fn look_once(&self, queued: &[u64]) -> QueueState {
        let jobs = match self.bus.jetstream.get_stream(self.names.jobs_stream()).await {
            Ok(jobs) => jobs,
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if error.code() == NOT_FOUND => return QueueState::Gone,
                _ => return QueueState::Unknown,
            },
        };
        let known = match jobs.consumer_info(self.names.consumer()).await {
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
        let _ = self.bus.jetstream.delete_stream(self.names.jobs_stream()).await;
    }

    /// Adds a job to the queue; returns its place there. A name that the bus knows is not queued again.
    ///
    /// # Errors
    /// In words, if the bus does not confirm it.
    pub async fn add(&self, job: &Job, name: &str) -> Result<u64, String> {
        let text = serde_json::to_vec(job).map_err(|error| error.to_string())?;
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", name);
        let sent = self.bus.jetstream.publish_with_headers(self.names.jobs(), headers, text.into()).await;
        let confirmed = sent.map_err(|error| error.to_string())?.await;
        confirmed.map(|ack| ack.sequence).map_err(|error| error.to_string())
    }

    /// Removes a job from the queue, whether or not a worker has it.
    pub async fn remove(&self, sequence: u64) {
        if let Ok(jobs) = self.bus.jetstream.get_stream_no_info(self.names.jobs_stream()).await {
            // A job that the worker has acknowledged is gone.
            let _ = jobs.delete_message(sequence).await;
        }
    }
}
