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
    /// A client of a server of this program.
    Client,
}

/// As `gymkhana_waits::Silent`. Only waits without a time end with it.
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

/// Waits for a counterpart. The bound does not pass, except for one of zero.
pub async fn within<F: IntoFuture>(_: Counterpart, bound: Duration, future: F) -> Result<F::Output, Silent> {
    if bound.is_zero() {
        return pulse(bound, future).await.ok_or(Silent);
    }
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

/// As `gymkhana_record::EpisodeId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EpisodeId(pub u32);

/// As `gymkhana_record::TaskRef`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef;

/// As `gymkhana_http::Client`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client;

/// As `gymkhana_http::ClientTokens`.
#[derive(Debug, Default)]
pub struct ClientTokens;

/// As `gymkhana_gateway::dialect`.
pub mod dialect {
    /// The class of an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ErrorClass {
        /// The request is malformed.
        Invalid,
        /// There is no such session.
        NotFound,
        /// The policy failed.
        Policy,
        /// Every place is taken.
        Unavailable,
    }

    /// An error for a harness.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiError {
        /// The class.
        pub class: ErrorClass,
        /// The message.
        pub message: String,
    }

    impl ApiError {
        pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
            Self { class, message: message.into() }
        }
    }
}

/// As `gymkhana_gateway::program`.
pub mod program {
    /// The end of a program.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProgramEnd {
        /// Exit status.
        pub status: Option<i32>,
        /// The signal.
        pub signal: Option<i32>,
        /// Standard output.
        pub output: Vec<u8>,
        /// Whether there was more.
        pub overflowed: bool,
        /// Standard error.
        pub stderr: String,
    }

    /// The program has no end of its own.
    #[derive(Debug)]
    pub enum ProgramStartError {
        /// It was stopped.
        Stopped(String),
    }
}

/// As `gymkhana_gateway::session`.
pub mod session {
    /// A journal of sessions. The models have none.
    pub trait SessionJournal: Send + Sync {
        /// Why nothing can be written.
        fn problem(&self) -> Option<String>;
    }
}

/// As `gymkhana_gateway::control`.
pub mod offer {
    use std::time::Duration;

    use futures::future::BoxFuture;
    use shuttle::rand::{Rng, thread_rng};

    use crate::EpisodeId;
    use crate::program::{ProgramEnd, ProgramStartError};
    use crate::session::SessionJournal;
    use crate::sync::Arc;

    /// The session of an episode.
    #[derive(Debug, Clone)]
    pub struct SessionOffer {
        /// The episode.
        pub episode: EpisodeId,
        /// Id of the session.
        pub session: String,
        /// The time of the last request.
        pub activity: Activity,
    }

    /// The activity of a session, which has been idle for too long at any moment.
    #[derive(Debug, Clone)]
    pub struct Activity;

    impl Activity {
        pub(crate) fn idle(&self) -> Duration {
            if thread_rng().gen_ratio(1, 8) { Duration::MAX } else { Duration::ZERO }
        }
    }

    /// Programs that the host does not start.
    pub trait ExternalPrograms: Send + Sync {
        /// Offers a session, and waits for its end.
        fn play(&self, offer: SessionOffer) -> BoxFuture<'_, Result<ProgramEnd, ProgramStartError>>;

        /// Completes when the request for the session is given up.
        fn given_up(&self, episode: EpisodeId) -> BoxFuture<'_, ()>;

        /// The journal.
        fn journal(&self) -> Option<Arc<dyn SessionJournal>>;
    }
}
