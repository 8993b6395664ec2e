//! The right to live plugin instances.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::remote::WorkerPlace;

/// Right to live plugin instances; returned when dropped.
pub(super) enum LivePlace {
    /// In this process.
    Local { _permit: OwnedSemaphorePermit },
    /// At a worker. The episode there holds it, too.
    Remote(Arc<dyn WorkerPlace>),
}

impl LivePlace {
    /// The place of a permit.
    pub(super) fn of(permit: OwnedSemaphorePermit) -> Self {
        Self::Local { _permit: permit }
    }
}
