//! Room for results that are being read: a bound on their number and on their bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most results that are read at once.
const MAX_RESULTS: usize = 16;
/// Most KiB of results that are read at once: two of the largest.
const MAX_KIB: usize = 2 << 20;

/// Permits for reading.
pub(crate) struct ReadingPermits {
    results: Arc<Semaphore>,
    kibibytes: Arc<Semaphore>,
}

/// The room of one result, free when it is dropped.
pub(crate) struct Room {
    _result: OwnedSemaphorePermit,
    _kibibytes: Option<OwnedSemaphorePermit>,
}

impl ReadingPermits {
    pub fn new() -> Self {
        Self { results: Arc::new(Semaphore::new(MAX_RESULTS)), kibibytes: Arc::new(Semaphore::new(MAX_KIB)) }
    }

    /// Whether another result may be read.
    pub fn has_room(&self) -> bool {
        self.results.available_permits() > 0
    }

    /// Takes the room of a result of this many bytes, which may be in use until other results have been read. `None`
    /// without room for another result.
    pub fn take(&self, bytes: u64) -> Option<impl Future<Output = Room> + Send + use<>> {
        let result = Arc::clone(&self.results).try_acquire_owned().ok()?;
        let wanted = usize::try_from(bytes.div_ceil(1 << 10)).unwrap_or(MAX_KIB).min(MAX_KIB);
        let kibibytes = Arc::clone(&self.kibibytes);
        Some(async move {
            // Waiting fails only if the semaphore is closed, which it never is.
            let kibibytes = kibibytes.acquire_many_owned(u32::try_from(wanted).unwrap_or(u32::MAX)).await.ok();
            Room { _result: result, _kibibytes: kibibytes }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The room, if it is free.
    fn free(room: impl Future<Output = Room>) -> Option<Room> {
        match std::pin::pin!(room).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        }
    }

    #[test]
    fn results_have_room_up_to_their_number() {
        let reading = ReadingPermits::new();
        let mut rooms: Vec<Room> = (0..16).map(|_| free(reading.take(1000).unwrap()).unwrap()).collect();
        assert!(!reading.has_room() && reading.take(0).is_none());
        rooms.pop();
        assert!(reading.has_room() && free(reading.take(0).unwrap()).is_some());
    }

    #[test]
    fn results_have_room_up_to_their_bytes() {
        let reading = ReadingPermits::new();
        let first = free(reading.take(1 << 30).unwrap()).unwrap();
        let second = free(reading.take((1 << 30) - 1024).unwrap());
        assert!(second.is_some());
        assert!(free(reading.take(1024).unwrap()).is_some());
        assert!(free(reading.take(1025).unwrap()).is_none(), "two kibibytes, of which one is free");
        drop(first);
        assert!(free(reading.take(1 << 30).unwrap()).is_some());
        drop(second);
        assert!(free(reading.take(u64::MAX).unwrap()).is_some(), "alone");
    }
}
