//! The activity of a session: its requests in flight, and the time of the last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The activity of a session.
#[derive(Debug, Clone)]
pub struct Activity(Arc<RequestCounters>);

#[derive(Debug)]
struct RequestCounters {
    since: Instant,
    /// Requests that are not answered.
    in_flight: AtomicU64,
    /// Time of the last request or answer, in milliseconds after `since`.
    last: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Self {
        let (in_flight, last) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(RequestCounters { since: Instant::now(), in_flight, last }))
    }

    /// Time since the last request or answer; zero while one is in flight.
    #[must_use]
    pub fn idle(&self) -> Duration {
        if self.0.in_flight.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        self.0.since.elapsed().saturating_sub(Duration::from_millis(self.0.last.load(Ordering::Relaxed)))
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn request(&self) -> RequestInFlight {
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestInFlight(self.clone())
    }
}

/// A request in flight.
pub(super) struct RequestInFlight(Activity);

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let RequestCounters { since, in_flight, last } = &*self.0.0;
        last.store(since.elapsed().as_millis() as u64, Ordering::Relaxed);
        in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_with_a_request_in_flight_is_not_idle() {
        let activity = Activity::new();
        std::thread::sleep(Duration::from_millis(5));
        assert!(activity.idle() >= Duration::from_millis(5));
        let request = activity.request();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(activity.idle(), Duration::ZERO);
        drop(request);
        assert!(activity.idle() < Duration::from_millis(5));
    }
}
