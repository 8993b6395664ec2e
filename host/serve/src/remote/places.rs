//! The workers of a server, as the table of sessions sees them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::messages::{PlaceAnswer, PlaceRequest};
use crate::error::{ErrorKind, ServeError};

/// Places of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceCounts {
    /// Workers that are present.
    pub workers: usize,
    /// Episodes that they can hold.
    pub places: usize,
    /// Episodes that they hold.
    pub taken: usize,
}

/// Workers on other machines that hold the plugin instances of sessions.
pub trait SessionWorkers: Send + Sync {
    /// A place at the worker with the most free ones; `None` if no worker has one.
    fn take(&self) -> Option<Arc<dyn WorkerPlace>>;

    /// Numbers of places now.
    fn counts(&self) -> PlaceCounts;
}

/// A worker does not answer any more, or does not have the episode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("worker {worker} {why}")]
pub struct PlaceLost {
    /// Name of the worker.
    pub worker: String,
    /// The reason, such as `stopped answering`.
    pub why: String,
}

/// Workers that one request may lose. A request that ends its worker must not end all of them.
pub(crate) const MAX_LOST: u32 = 3;

/// The error of an episode that no worker could take. `lost` says how the last one was lost.
pub(crate) fn unplaced(lost: &str) -> ServeError {
    let message = format!("the episode has no worker: {lost}, as others before\nhint: repeat the request later");
    ServeError::host(ErrorKind::Failed, message)
}

/// Time between two looks for a place that a worker gives back.
const GIVEN_BACK: Duration = Duration::from_millis(2);

/// A place at a worker that becomes free in time.
pub(crate) async fn awaited_place(workers: &dyn SessionWorkers, deadline: Instant) -> Option<Arc<dyn WorkerPlace>> {
    loop {
        if let Some(place) = workers.take() {
            return Some(place);
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(GIVEN_BACK).await;
    }
}

/// Answer of a worker, when it comes.
pub type PlaceFuture<'a> = Pin<Box<dyn Future<Output = Result<PlaceAnswer, PlaceLost>> + Send + 'a>>;

/// Room for one episode at one worker, free when it is dropped.
pub trait WorkerPlace: Send + Sync {
    /// Name of the worker.
    fn worker(&self) -> &str;

    /// Asks the worker. Requests of a place come one after the other.
    ///
    /// # Errors
    /// If the worker is lost. Whether it performed the request is then unknown, and its later answers are ignored.
    fn ask(&self, request: PlaceRequest) -> PlaceFuture<'_>;

    /// Reports an answer that is not one of the request: the worker is not asked again.
    fn refuse(&self, why: &str) -> PlaceLost;
}
