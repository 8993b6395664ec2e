//! The messages of workers that the trainer receives in one life.

use async_nats::Subscriber;
use gymkhana_orchestration::{Classify, RunResult};

use super::streams::Streams;

/// Subscriptions of the trainer.
pub(crate) struct Inbox {
    /// Offered results.
    pub results: Subscriber,
    /// Policy calls.
    pub calls: Subscriber,
    /// Acknowledgements of jobs, which go to the bus and show that workers play.
    pub acknowledgements: Subscriber,
    /// Questions whether the trainer lives.
    pub questions: Subscriber,
}

impl Inbox {
    /// Subscribes to the messages of this life of the trainer.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn open(streams: &Streams) -> RunResult<Self> {
        let (client, names) = (&streams.publication.bus.client, &streams.publication.names);
        Ok(Self {
            results: client.subscribe(names.results()).await.user_error()?,
            calls: client.subscribe(names.policy()).await.user_error()?,
            acknowledgements: client.subscribe(names.acknowledgements()).await.user_error()?,
            questions: client.subscribe(names.alive()).await.user_error()?,
        })
    }
}
