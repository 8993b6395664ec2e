//! A pace of connections and requests, so that a flood of them takes a bounded share of the process's time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::limits::RequestPace;

/// Times at which connections are accepted and requests answered.
pub(super) struct Pace {
    step: Duration,
    /// The next free time.
    next: Mutex<Instant>,
}

impl Pace {
    /// The pace of all connections and requests.
    pub(super) fn of_all(pace: RequestPace) -> Self {
        Self::new(if let RequestPace::All(step) = pace { step } else { Duration::ZERO })
    }

    /// The pace of refused requests.
    pub(super) fn of_refused(pace: RequestPace) -> Self {
        Self::new(if let RequestPace::Refused(step) = pace { step } else { Duration::ZERO })
    }

    /// One at a time, each `step` after the one before; zero for no pace.
    fn new(step: Duration) -> Self {
        Self { step, next: Mutex::new(Instant::now()) }
    }

    /// Waits for the next free time, in the order of the calls.
    pub(super) async fn keep(&self) {
        if self.step.is_zero() {
            return;
        }
        let now = Instant::now();
        let own = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let own = (*next).max(now);
            *next = own + self.step;
            own
        };
        if own > now {
            sleep_until(own).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_crowd_has_its_pace_and_a_single_client_does_not_wait() {
        let (pace, free) = (Pace::new(Duration::from_millis(10)), Pace::new(Duration::ZERO));
        let since = Instant::now();
        for _ in 0..100 {
            pace.keep().await;
            free.keep().await;
        }
        assert_eq!(since.elapsed(), Duration::from_millis(990));
        tokio::time::advance(Duration::from_secs(1)).await;
        let since = Instant::now();
        pace.keep().await;
        assert_eq!(since.elapsed(), Duration::ZERO);
    }
}
