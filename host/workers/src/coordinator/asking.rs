//! One place at a worker: its requests are repeated until the worker answers or is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::StatusCode;
use bytes::Bytes;
use futures::StreamExt;
use gymkhana_serve::error::{ErrorKind, ServeError};
use gymkhana_serve::remote::{
    EpisodeOutcome, EpisodeRequest, PlaceAnswer, PlaceFuture, PlaceId, PlaceLost, PlaceRequest, WorkerPlace,
};
use gymkhana_waits::{Counterpart, within};
use tokio::sync::{Semaphore, watch};

use super::CoordinatorLoop;
use super::registry::{Gone, ReservedPlace};
use crate::codec::{CodecError, MessageDirection, MessageHeader, Parts};
use crate::objects::PutError;
use crate::signature::WorkerKeys;

/// Time after which a request without an answer is sent again.
const AGAIN: Duration = Duration::from_secs(2);
/// Time between two tries while the worker has no connection.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Time after which a large request is given up that the bus does not store.
const STORING: Duration = Duration::from_secs(10);
/// Most MiB of large answers that are read at once: two of the largest.
const MAX_MIB: u32 = 2 << 10;

/// Room for answers that are read as objects.
pub(super) struct LargeMessages {
    mebibytes: Semaphore,
}

impl Default for LargeMessages {
    fn default() -> Self {
        Self { mebibytes: Semaphore::new(MAX_MIB as usize) }
    }
}

/// A place that a session holds; free when it is dropped.
pub(super) struct TakenWorkerPlace {
    address: Arc<Address>,
    /// Number of the next request.
    next: AtomicU64,
}

/// Where requests of a place go.
struct Address {
    front: Arc<CoordinatorLoop>,
    /// Id of the worker.
    id: String,
    /// Its name in messages.
    name: String,
    /// The key of its answers.
    key: WorkerKeys,
    place: PlaceId,
    gone: watch::Receiver<Gone>,
}

impl TakenWorkerPlace {
    pub fn new(front: Arc<CoordinatorLoop>, taken: ReservedPlace, place: u64) -> Self {
        let ReservedPlace { worker: id, name, key, gone } = taken;
        let address = Address { front, id, name, key: WorkerKeys::only(&key), place: PlaceId(place), gone };
        Self { address: Arc::new(address), next: AtomicU64::new(0) }
    }

    fn start(&self, request: PlaceRequest) -> tokio::task::JoinHandle<Result<PlaceAnswer, NotAsked>> {
        let (address, number) = (Arc::clone(&self.address), self.next.fetch_add(1, Ordering::Relaxed));
        // Threads of plugin calls have no sockets.
        self.address.front.host.spawn(async move { address.ask(number, request).await })
    }
}

impl WorkerPlace for TakenWorkerPlace {
    fn worker(&self) -> &str {
        &self.address.name
    }

    fn ask(&self, request: PlaceRequest) -> PlaceFuture<'_> {
        let mut asking = AbortedOnDrop(self.start(request));
        Box::pin(async move {
            match (&mut asking.0).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(NotAsked::Lost(lost))) => Err(lost),
                Ok(Err(NotAsked::Unsent(error))) => {
                    // The worker has not seen the number. Requests of a place come one after the other.
                    self.next.fetch_sub(1, Ordering::Relaxed);
                    Ok(EpisodeOutcome::Failed(error).into())
                }
                Err(error) => Err(self.address.lost(&format!("could not be asked: {error}"))),
            }
        })
    }

    fn refuse(&self, why: &str) -> PlaceLost {
        self.address.front.expel(&self.address.id, why);
        self.address.lost(&format!("was refused: {why}"))
    }
}

impl Drop for TakenWorkerPlace {
    fn drop(&mut self) {
        let (address, asking) = (Arc::clone(&self.address), self.start(EpisodeRequest::Release.into()));
        self.address.front.host.spawn(async move {
            // The worker has a place for another episode when it has forgotten this one, or is gone.
            let _ = asking.await;
            address.front.members().free(&address.id);
        });
    }
}

impl Address {
    fn lost(&self, why: &str) -> PlaceLost {
        PlaceLost { worker: self.name.clone(), why: why.to_owned() }
    }

    /// The loss of a worker that gets no further requests.
    fn expelled(&self, why: &str) -> NotAsked {
        self.front.expel(&self.id, why);
        NotAsked::Lost(self.lost(&format!("was refused: {why}")))
    }

    async fn ask(&self, number: u64, request: PlaceRequest) -> Result<PlaceAnswer, NotAsked> {
        let mut gone = self.gone.clone();
        let gone = async {
            let why = gone.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            why.unwrap_or_else(|| "is gone".to_owned())
        };
        tokio::select! {
            biased;
            why = gone => Err(NotAsked::Lost(self.lost(&why))),
            answer = self.until_answered(number, request) => answer,
        }
    }

    async fn until_answered(&self, number: u64, request: PlaceRequest) -> Result<PlaceAnswer, NotAsked> {
        let message = self.pack(number, request).await.map_err(NotAsked::Unsent)?;
        loop {
            match self.send(number, message.clone()).await {
                Sent::Answered(header, body) => match self.read(&header, &body).await {
                    Ok(answer) => return Ok(answer),
                    Err(CodecError::Refused(why)) => return Err(self.expelled(&why)),
                    Err(CodecError::Damaged(why)) => {
                        self.front.dropped.add("an answer", &why);
                        tokio::time::sleep(AGAIN).await;
                    }
                    Err(CodecError::Unreachable(why)) => {
                        tracing::debug!("an answer of worker {} was not read: {why}", self.name);
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                },
                Sent::Refused(why) => return Err(self.expelled(&why)),
                Sent::Unreachable => tokio::time::sleep(RETRY_DELAY).await,
                Sent::Silent => {}
            }
        }
    }

    async fn pack(&self, number: u64, request: PlaceRequest) -> Result<Bytes, ServeError> {
        let PlaceRequest { request, data, plugins } = request;
        let failed = |why: &dyn std::fmt::Display| {
            let message = format!("the session cannot continue: the bus does not take its state: {why}");
            ServeError::host(ErrorKind::Failed, message)
        };
        let request = serde_json::to_vec(&request).map_err(|error| failed(&error))?;
        let parts = Parts([request.into(), Bytes::from_owner(data), Bytes::from_owner(plugins)]);
        let address = (&*self.id, self.place, number);
        let deadline = Instant::now() + STORING;
        loop {
            match self.front.office.pack(MessageDirection::ToWorker, address, &parts).await {
                Ok(message) => return Ok(message),
                Err(PutError::Unreachable(why)) if Instant::now() < deadline => {
                    tracing::debug!("a request for worker {} was not stored: {why}", self.name);
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Sends a request once. Answers that are not the worker's, or to other requests, are dropped.
    async fn send(&self, number: u64, message: Bytes) -> Sent {
        within(Counterpart::Worker, AGAIN, self.send_once(number, message)).await.unwrap_or(Sent::Silent)
    }

    async fn send_once(&self, number: u64, message: Bytes) -> Sent {
        let (client, subject) = (&self.front.office.bus.client, self.front.office.names.places(&self.id));
        let inbox = client.new_inbox();
        let Ok(mut answers) = client.subscribe(inbox.clone()).await else { return Sent::Unreachable };
        if client.publish_with_reply(subject, inbox, message).await.is_err() {
            return Sent::Unreachable;
        }
        while let Some(answer) = answers.next().await {
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return Sent::Unreachable;
            }
            match self.front.office.header(&answer.payload, &self.id, &self.key) {
                Ok((header, body)) if (header.place, header.number) == (self.place, number) => {
                    return Sent::Answered(Box::new(header), answer.payload.slice_ref(body));
                }
                Ok(_) => self.front.dropped.add("an answer", "it is the answer to another request"),
                Err(CodecError::Refused(why)) => return Sent::Refused(why),
                Err(error) => self.front.dropped.add("an answer", &error.to_string()),
            }
        }
        Sent::Unreachable
    }

    async fn read(&self, header: &MessageHeader, body: &[u8]) -> Result<PlaceAnswer, CodecError> {
        let _room = self.room(header).await;
        let Parts([outcome, data, plugins]) = self.front.office.parts(MessageDirection::ToServer, header, body).await?;
        let malformed = |error| CodecError::Refused(format!("it sent a malformed answer: {error}"));
        let outcome: EpisodeOutcome = serde_json::from_slice(&outcome).map_err(malformed)?;
        Ok(PlaceAnswer { outcome, data: data[..].into(), plugins: plugins[..].into() })
    }

    /// Room for the parts of an answer, when other large ones have been read.
    async fn room(&self, header: &MessageHeader) -> Option<tokio::sync::SemaphorePermit<'_>> {
        if !header.in_object {
            return None;
        }
        let wanted = u32::try_from(header.bytes().div_ceil(1 << 20)).unwrap_or(MAX_MIB).clamp(1, MAX_MIB);
        // The semaphore is never closed.
        self.front.large.mebibytes.acquire_many(wanted).await.ok()
    }
}

/// A request that ends when its caller stops waiting.
struct AbortedOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortedOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reason why a request has no answer.
enum NotAsked {
    /// The worker is lost.
    Lost(PlaceLost),
    /// The request was not sent.
    Unsent(ServeError),
}

/// Result of a request that was sent once.
enum Sent {
    Answered(Box<MessageHeader>, Bytes),
    /// The worker signed what it must not send.
    Refused(String),
    /// The worker or the bus has no connection.
    Unreachable,
    /// No answer came in time; the worker may still be at work.
    Silent,
}
