//! Stopping a run early: the request, and the position at which the run can be resumed.

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_store::StoreError;
use tokio::sync::watch;

use gymkhana_orchestration::RunError;

/// A request to stop a run at its next safe point: after the training step in progress, or at once during evaluations
/// and demonstrations. Clones share the request.
#[derive(Debug, Clone)]
pub struct StopRequest(Arc<watch::Sender<bool>>);

impl Default for StopRequest {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl StopRequest {
    /// Requests the stop.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    /// Whether the stop was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the stop is requested.
    pub async fn requested(&self) {
        // Waiting fails only without a sender, and this handle holds it.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}

/// A run that was stopped and can be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Name of the stage in progress.
    pub stage: String,
    /// Number of training steps that the stage has taken.
    pub step: u64,
    /// Number of training steps of the stage.
    pub steps: u64,
    /// The run's folder.
    pub folder: PathBuf,
}

/// The reason why a run ends before its last stage.
pub(crate) enum Halt {
    /// A [`StopRequest`].
    Stopped,
    /// An outage that lasted too long. The run has a position, as after a stop.
    Outage(RunError),
    /// Another error.
    Failed(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_reaches_every_clone() {
        let (stop, other) = (StopRequest::default(), StopRequest::default());
        let clone = stop.clone();
        assert!(!clone.is_requested());
        let waiting = tokio::spawn(async move { clone.requested().await });
        stop.request();
        waiting.await.expect("the wait ends");
        assert!(stop.is_requested() && !other.is_requested());
        // A request that was made before is seen as well.
        stop.requested().await;
    }
}
