//! What the sources import from other crates.

use std::future::IntoFuture;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

/// As `gymkhana_waits::sync`, with the checker's locks, atomics and threads.
pub mod sync {
    pub use std::sync::{Arc, PoisonError};

    pub use shuttle::sync::{Mutex, MutexGuard, atomic};
    pub use shuttle::thread;
}

/// As `gymkhana_workers::messages`.
pub mod messages {
    /// A reason of the trainer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PolicyCallRefusal {
        /// It does not know the key.
        Key,
    }
}

/// As `gymkhana_waits::Counterpart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counterpart {
    /// A free place of this process.
    Place,
}

/// As `gymkhana_waits::Silent`. No wait ends with it.
#[derive(Debug)]
pub struct Silent;

/// As `gymkhana_record::FailureKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No place became free.
    Capacity,
}

/// As `gymkhana_sandbox::CallError`.
#[derive(Debug)]
pub struct CallError {
    /// The kind.
    pub kind: FailureKind,
    /// The message.
    pub message: String,
}

impl CallError {
    pub(crate) fn new(kind: FailureKind, message: String) -> Self {
        Self { kind, message }
    }
}

/// Waits for a counterpart. The bound does not pass.
pub async fn within<F: IntoFuture>(_: Counterpart, _: Duration, future: F) -> Result<F::Output, Silent> {
    Ok(future.await)
}

/// Waits for an interval of a wait that goes on, which ends at any moment.
pub async fn pulse<F: IntoFuture>(_: Duration, future: F) -> Option<F::Output> {
    let steps = thread_rng().gen_range(1..4);
    let mut future = std::pin::pin!(future.into_future());
    for _ in 0..steps {
        tokio::select! {
            biased;
            output = &mut future => return Some(output),
            () = tokio::task::yield_now() => {}
        }
    }
    None
}
