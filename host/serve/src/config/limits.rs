//! `[sessions]`: bounds of the table of sessions.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use gymkhana_orchestration::{RunError, RunResult};
use serde::{Deserialize, Serialize};

/// `[sessions]`: bounds of the table of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionLimits {
    /// Open sessions of all clients, 1 to 10,000,000. One more is refused.
    pub max: usize,
    /// Open sessions of one client, 1 to 10,000,000. The default is `max` for a single client, and three quarters of it for
    /// each of several.
    pub per_client: Option<usize>,
    /// Sessions with live plugin instances; the others are parked as snapshots. By default as many as the sandbox has
    /// places for.
    pub live: Option<usize>,
    /// Plugin calls that run at the same time, 1 to 4096. By default two for each core.
    pub running: Option<usize>,
    /// Time in seconds for which a request waits for a place, 0 to 3600.
    pub wait_seconds: f64,
    /// Time in seconds without a request after which a session is closed, 0.1 to 10,000,000.
    pub idle_seconds: f64,
    /// Time in seconds after which a request is answered with an error, 0.1 to 86,400. The plugin's call itself ends by
    /// the limits of `[sandbox]`.
    pub request_seconds: f64,
    /// Texts of all clients in their sessions' present episodes in MiB, 1 to 1,048,576; each of several clients may have
    /// three quarters of them. A further turn is refused.
    pub text_mib: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            max: 100_000,
            per_client: None,
            live: None,
            running: None,
            wait_seconds: 10.0,
            idle_seconds: 3600.0,
            request_seconds: 55.0,
            text_mib: 512,
        }
    }
}

impl SessionLimits {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first value out of range.
    pub(super) fn check(&self) -> RunResult<()> {
        within("sessions.max", self.max, 1..=10_000_000)?;
        within("sessions.per_client", self.per_client.unwrap_or(1), 1..=10_000_000)?;
        within("sessions.live", self.live.unwrap_or(1), 1..=10_000_000)?;
        within("sessions.running", self.running.unwrap_or(1), 1..=4096)?;
        within("sessions.wait_seconds", self.wait_seconds, 0.0..=3600.0)?;
        within("sessions.idle_seconds", self.idle_seconds, 0.1..=1e7)?;
        within("sessions.request_seconds", self.request_seconds, 0.1..=86_400.0)?;
        within("sessions.text_mib", self.text_mib, 1..=1_048_576)
    }

    /// Limit of a client's open sessions on a server with `clients` clients.
    pub(crate) fn of_client(&self, clients: usize) -> usize {
        self.per_client.unwrap_or(if clients > 1 { (self.max - self.max / 4).max(1) } else { self.max })
    }

    /// Bytes of the texts of all clients and of one, on a server with `clients` clients.
    pub(crate) fn texts(&self, clients: usize) -> (usize, usize) {
        let all = self.text_mib << 20;
        (all, if clients > 1 { all - all / 4 } else { all })
    }

    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs_f64(self.wait_seconds)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs_f64(self.idle_seconds)
    }

    pub(crate) fn request(&self) -> Duration {
        Duration::from_secs_f64(self.request_seconds)
    }
}

/// Checks that a value is in its range.
///
/// # Errors
/// If it is not.
pub(crate) fn within<T: PartialOrd + Display + Copy>(key: &str, value: T, range: RangeInclusive<T>) -> RunResult<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let message = format!("{key} is {value}\nhint: use {} to {}", range.start(), range.end());
    Err(RunError::user(message))
}
