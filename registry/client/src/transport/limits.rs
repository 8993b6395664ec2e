//! Timeouts, minimum rates and retries of HTTP transfers.

use std::time::Duration;

use backon::ExponentialBuilder;

/// Limits of HTTP transfers.
#[derive(Debug, Clone, Copy)]
pub struct TransferLimits {
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Timeout of the next byte in either direction, and of the response after the request was sent.
    pub idle_timeout: Duration,
    /// Time after which the minimum rate applies.
    pub grace_period: Duration,
    /// Minimum average rate since the start of a body, in bytes per second.
    pub min_bytes_per_second: u64,
    /// Number of retries after a transient failure.
    pub retries: u32,
    /// Delay before the first retry; it doubles for each further retry.
    pub retry_delay: Duration,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            grace_period: Duration::from_secs(20),
            min_bytes_per_second: 4096,
            retries: 3,
            retry_delay: Duration::from_millis(300),
        }
    }
}

impl TransferLimits {
    /// Returns true if a transfer of `bytes` in `elapsed` is below the minimum rate.
    pub(super) fn is_too_slow(&self, bytes: u64, elapsed: Duration) -> bool {
        elapsed > self.grace_period && (bytes as f64) < self.min_bytes_per_second as f64 * elapsed.as_secs_f64()
    }

    /// Delays between retries.
    pub(super) fn backoff(&self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_factor(2.0)
            .with_min_delay(self.retry_delay)
            .without_max_delay()
            .with_max_times(self.retries as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backon::BackoffBuilder;

    #[test]
    fn delays_double() {
        let limits =
            TransferLimits { retries: 4, retry_delay: Duration::from_millis(300), ..TransferLimits::default() };
        let delays: Vec<u128> = limits.backoff().build().map(|delay| delay.as_millis()).collect();
        assert_eq!(delays, [300, 600, 1200, 2400]);
    }
}
