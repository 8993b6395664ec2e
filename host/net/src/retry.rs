//! Retries with exponential backoff, used by every client of the host.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};

/// Number of repetitions of a failed attempt, and their delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first one.
    pub retries: u32,
    /// Delay before the second attempt; each later delay is twice as long.
    pub first_delay: Duration,
    /// Upper bound of every delay, including one that the server requests.
    pub max_delay: Duration,
}

/// A failed attempt.
#[derive(Debug)]
pub enum Failed<E> {
    /// The next attempt may succeed.
    Transient {
        /// Reason of the failure.
        error: E,
        /// Delay that the server requests, as in `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No later attempt can succeed.
    Permanent(E),
}

impl<E> Failed<E> {
    /// Creates a transient failure without a delay requested by the server.
    pub fn transient(error: E) -> Self {
        Self::Transient { error, retry_after: None }
    }
}

/// The failure that ended the attempts.
#[derive(Debug)]
pub struct GaveUp<E> {
    /// The last failure, with its kind.
    pub failed: Failed<E>,
    /// Number of attempts made, at least 1.
    pub attempts: u32,
}

impl Retry {
    /// Sum of all delays, unless the server asks for others.
    #[must_use]
    pub fn delays(&self) -> Duration {
        let delay = |number: u32| self.first_delay.saturating_mul(2_u32.saturating_pow(number)).min(self.max_delay);
        (0..self.retries).map(delay).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Repeats `attempt` while it fails transiently, at most `retries` times. Calls `on_retry` with each failure that is
    /// followed by another attempt.
    ///
    /// # Errors
    /// The last failure and the number of attempts.
    pub async fn run<T, E, Fut>(
        &self,
        mut attempt: impl FnMut() -> Fut,
        mut on_retry: impl FnMut(&E),
    ) -> Result<T, GaveUp<E>>
    where
        Fut: Future<Output = Result<T, Failed<E>>>,
    {
        let mut attempts = 0;
        let delays = ExponentialBuilder::new()
            .with_factor(2.0)
            .with_min_delay(self.first_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(self.retries as usize);
        let counted = || {
            attempts += 1;
            attempt()
        };
        let result = counted
            .retry(delays)
            .when(|failed| matches!(failed, Failed::Transient { .. }))
            .adjust(|failed, delay| match failed {
                Failed::Transient { retry_after: Some(asked), .. } => delay.map(|_| (*asked).min(self.max_delay)),
                Failed::Transient { .. } | Failed::Permanent(_) => delay,
            })
            .notify(|failed, _| {
                if let Failed::Transient { error, .. } = failed {
                    on_retry(error);
                }
            })
            .await;
        result.map_err(|failed| GaveUp { failed, attempts })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Instant;

    use super::*;

    const RETRY: Retry =
        Retry { retries: 3, first_delay: Duration::from_millis(10), max_delay: Duration::from_millis(30) };

    /// Delays before the attempts after the first one, if every attempt fails with `fail`, and what was given up.
    async fn delays(fail: impl Fn() -> Failed<&'static str>) -> (Vec<Duration>, GaveUp<&'static str>, usize) {
        let (starts, retried) = (RefCell::new(vec![]), RefCell::new(0));
        let attempt = || {
            starts.borrow_mut().push(Instant::now());
            let failed = fail();
            async move { Err::<(), _>(failed) }
        };
        let gave_up = RETRY.run(attempt, |_| *retried.borrow_mut() += 1).await.unwrap_err();
        let delays = starts.borrow().windows(2).map(|pair| pair[1] - pair[0]).collect();
        (delays, gave_up, retried.into_inner())
    }

    fn at_least(delays: &[Duration], milliseconds: [u64; 3]) -> bool {
        delays.len() == 3
            && delays.iter().zip(milliseconds).all(|(delay, least)| *delay >= Duration::from_millis(least))
    }

    #[tokio::test]
    async fn delays_double_up_to_the_bound() {
        let (delays, gave_up, retried) = delays(|| Failed::transient("down")).await;
        assert!(at_least(&delays, [10, 20, 30]), "{delays:?}");
        assert_eq!((gave_up.attempts, retried), (4, 3));
    }

    #[tokio::test]
    async fn the_server_names_a_delay_within_the_bound() {
        let asked = |ms| Failed::Transient { error: "busy", retry_after: Some(Duration::from_millis(ms)) };
        let (long, _, _) = delays(|| asked(60_000)).await;
        assert!(at_least(&long, [30, 30, 30]) && long.iter().all(|delay| *delay < Duration::from_secs(30)), "{long:?}");
        let (short, _, _) = delays(|| asked(25)).await;
        assert!(at_least(&short, [25, 25, 25]), "{short:?}");
    }

    #[tokio::test]
    async fn permanent_failures_end_at_once() {
        let (delays, gave_up, retried) = delays(|| Failed::Permanent("refused")).await;
        assert_eq!((delays.len(), gave_up.attempts, retried), (0, 1, 0));
        assert!(matches!(gave_up.failed, Failed::Permanent("refused")));
    }
}
