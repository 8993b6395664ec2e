//! The right to live plugin instances.

use tokio::sync::OwnedSemaphorePermit;

/// Right to live plugin instances; returned when dropped.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// The place of a permit.
    pub(super) fn of(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}
