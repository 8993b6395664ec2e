//! Everything that the program waits for: each wait names its counterpart and has a bound, or says that it goes on.
//!
//! Other crates do not use timers of tokio or the standard library for waits; `xtask/src/checks/source/waits.rs` refuses them. Bounds
//! count the time in which this machine runs: a suspended machine and a changed clock spend none of it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod child;
mod counterpart;
mod reminder;

use std::future::IntoFuture;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::time::Instant;

pub use child::{ChildWait, output};
pub use counterpart::Counterpart;
pub use reminder::{Reminder, reminding};

/// Locks, atomics and threads of the standard library. `tests/interleavings` has its model checker's in their place.
pub mod sync {
    pub use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic};
    pub use std::thread;
}

/// A counterpart that did not answer within the bound of a wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{} did not answer for {} s", counterpart.name(), subject(.named), .waited.as_secs_f64())]
pub struct Silent {
    /// What was waited for.
    pub counterpart: Counterpart,
    /// Its own name or address, with the preposition if it needs one; empty if there is one counterpart of the kind.
    pub named: String,
    /// Duration of the wait.
    pub waited: Duration,
}

impl Silent {
    /// The same with the counterpart's own name or address, such as `` `files` `` or `at nats://bus:4222`.
    #[must_use]
    pub fn of(self, named: impl Into<String>) -> Self {
        Self { named: named.into(), ..self }
    }
}

fn subject(named: &str) -> String {
    if named.is_empty() { String::new() } else { format!(" {named}") }
}

/// Waits for a counterpart until a bound, after which the future is dropped.
///
/// # Errors
/// If the bound passes first.
pub async fn within<F: IntoFuture>(counterpart: Counterpart, bound: Duration, future: F) -> Result<F::Output, Silent> {
    let silent = |_| Silent { counterpart, named: String::new(), waited: bound };
    tokio::time::timeout(bound, future).await.map_err(silent)
}

/// Waits for a counterpart until a moment, after which the future is dropped. The error counts from the call.
///
/// # Errors
/// If the moment passes first.
pub async fn until<F: IntoFuture>(counterpart: Counterpart, deadline: Instant, future: F) -> Result<F::Output, Silent> {
    let begun = Instant::now();
    let silent = |_| Silent { counterpart, named: String::new(), waited: begun.elapsed() };
    tokio::time::timeout_at(deadline, future).await.map_err(silent)
}

/// Waits for an interval of a wait that goes on: `None` if the future is not ready by then. A future that must not be lost is
/// passed by a mutable reference.
pub async fn pulse<F: IntoFuture>(interval: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(interval, future).await.ok()
}

/// Reason why a thread received no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReceived {
    /// The bound passed.
    #[error(transparent)]
    Silent(#[from] Silent),
    /// The sender is gone.
    #[error("{} ended without an answer", .0.name())]
    Ended(Counterpart),
}

/// Blocks the thread until a counterpart sends a value, or a bound passes.
///
/// # Errors
/// If the bound passes first, or the sender is gone.
pub fn receive<T>(counterpart: Counterpart, bound: Duration, receiver: &Receiver<T>) -> Result<T, NotReceived> {
    receiver.recv_timeout(bound).map_err(|error| match error {
        RecvTimeoutError::Timeout => Silent { counterpart, named: String::new(), waited: bound }.into(),
        RecvTimeoutError::Disconnected => NotReceived::Ended(counterpart),
    })
}

/// Blocks the thread for an interval, at most until the sender is gone. Returns whether the sender is still there.
#[must_use]
pub fn tick(interval: Duration, stopped: &Receiver<()>) -> bool {
    !matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Disconnected))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const BOUND: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_silent_counterpart_is_named_with_the_duration() {
        assert_eq!(within(Counterpart::Hub, BOUND, async { 7 }).await, Ok(7));
        let silent = within(Counterpart::Bus, BOUND, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(silent.to_string(), "the bus did not answer for 0.02 s");
        assert_eq!(silent.of("at nats://bus:4222").to_string(), "the bus at nats://bus:4222 did not answer for 0.02 s");
        let late = until(Counterpart::Worker, Instant::now() + BOUND, std::future::pending::<()>()).await.unwrap_err();
        assert!(late.waited >= BOUND && late.counterpart == Counterpart::Worker, "{late}");
        assert_eq!(
            (pulse(BOUND, async { 7 }).await, pulse(BOUND, std::future::pending::<()>()).await),
            (Some(7), None)
        );
    }

    #[test]
    fn a_thread_waits_within_a_bound() {
        let (sender, receiver) = channel();
        sender.send(7).unwrap();
        assert_eq!(receive(Counterpart::McpServer, BOUND, &receiver), Ok(7));
        let silent = receive(Counterpart::McpServer, BOUND, &receiver).unwrap_err();
        assert_eq!(silent.to_string(), "the MCP server did not answer for 0.02 s");
        drop(sender);
        let ended = receive(Counterpart::McpServer, BOUND, &receiver).unwrap_err();
        assert_eq!(ended.to_string(), "the MCP server ended without an answer");
        let (stop, stopped) = channel();
        assert!(tick(BOUND, &stopped));
        drop(stop);
        assert!(!tick(BOUND, &stopped));
    }
}
