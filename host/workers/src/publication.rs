//! What a run or a server has on the bus for its workers: its description and its files. QueueCreated again whenever the bus lost
//! them.

use std::path::PathBuf;

use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::object_store::ObjectStore;
use async_nats::jetstream::stream::DiscardPolicy;
use async_nats::jetstream::{kv, object_store, stream};
use gymkhana_orchestration::remote::RunPosition;
use gymkhana_orchestration::{Classify, RunResult};

use crate::bus::{Bus, Names, RUNS, RunKey};
use crate::description::Description;
use crate::files;
use crate::signature::Signer;

/// Code of the bus for what it does not have.
pub(crate) const NOT_FOUND: usize = 404;
pub(crate) const NOT_TAKEN: &str =
    "the bus does not keep the run\nhint: free space on its disk, or raise the limits of its JetStream account";

/// A name for a life of a trainer or a server.
pub(crate) fn new_epoch() -> RunResult<String> {
    Ok(format!("{:016x}", getrandom::u64().internal()?))
}

/// A run or a server on the bus.
#[derive(Clone)]
pub(crate) struct Publication {
    pub bus: Bus,
    pub run: RunKey,
    pub names: Names,
    /// Folder with the files.
    pub folder: PathBuf,
    pub description: Description,
    /// Signs what goes to workers; the description has its public key.
    pub signer: Signer,
}

impl Publication {
    /// The same in a new life.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn renewed(&self) -> RunResult<Self> {
        let epoch = new_epoch()?;
        let names = Names::new(self.run.clone(), epoch.clone());
        Ok(Self { names, description: Description { epoch, ..self.description.clone() }, ..self.clone() })
    }

    /// Removes what an earlier life left on the bus.
    pub async fn clear(&self) {
        let jetstream = &self.bus.jetstream;
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
        let files = self.files().await?;
        let bucket = self.names.files_bucket();
        files::publish(&self.bus, &bucket, &files, &self.folder, &self.description.files).await?;
        let runs = self.runs().await?;
        let description = serde_json::to_vec(&self.description).internal()?;
        runs.put(self.run.to_string(), description.into()).await.user_context(NOT_TAKEN)?;
        Ok(())
    }

    /// Whether the bus has lost the description, as one without its disk has after a restart.
    pub async fn is_lost(&self) -> bool {
        let jetstream = &self.bus.jetstream;
        match jetstream.get_key_value(RUNS).await {
            Ok(runs) => matches!(runs.get(self.run.to_string()).await, Ok(None)),
            Err(_) => match jetstream.get_stream(format!("KV_{RUNS}")).await.map_err(|error| error.kind()) {
                Err(GetStreamErrorKind::JetStream(error)) => error.code() == NOT_FOUND,
                Ok(_) | Err(_) => false,
            },
        }
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
}
