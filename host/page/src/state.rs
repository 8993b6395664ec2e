//! The state that all requests share: runs, and places for what takes memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::{PageError, Problem};
use crate::replayer::{Replayer, Replays};
use crate::run::Run;

/// Most readers of live updates at a time.
const STREAMS: usize = 64;
/// Most pages that are written at a time. The others wait.
const WRITERS: usize = 8;

/// Work of the page relative to its pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Up to [`WRITERS`] pages at a time.
    Full,
    /// One page at a time, and a pause of [`REST`] times its duration after each: the processor belongs to the run.
    BesideRun,
}

/// Pause after a page beside a run, in durations of the page.
const REST: u32 = 4;

/// The runs, shared by all requests.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    runs: Vec<Run>,
    streams: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    pace: Pace,
    replays: Option<Replays>,
}

impl App {
    /// Opens runs, whose episodes can be replayed if there is a replayer.
    pub fn open(runs: &[PathBuf], replayer: Option<Replayer>, pace: Pace) -> Result<Self, PageError> {
        let writers = if pace == Pace::Full { WRITERS } else { 1 };
        Ok(Self(Arc::new(Shared {
            runs: Run::open_all(runs)?,
            streams: Arc::new(Semaphore::new(STREAMS)),
            writers: Arc::new(Semaphore::new(writers)),
            pace,
            replays: replayer.map(Replays::new),
        })))
    }

    /// All runs.
    pub fn runs(&self) -> &[Run] {
        &self.0.runs
    }

    /// The run at an index.
    pub fn run(&self, index: usize) -> Result<&Run, Problem> {
        self.0.runs.get(index).ok_or_else(|| Problem::NotFound(format!("there is no run {index}")))
    }

    /// Replays, if they are allowed.
    pub fn replays(&self) -> Option<&Replays> {
        self.0.replays.as_ref()
    }

    /// Places for readers of live updates.
    pub fn streams(&self) -> &Arc<Semaphore> {
        &self.0.streams
    }

    /// Pause before the next page after one that took this time.
    pub fn rest(&self, took: Duration) -> Duration {
        match self.0.pace {
            Pace::Full => Duration::ZERO,
            Pace::BesideRun => took * REST,
        }
    }

    /// Places for pages that are being written.
    pub fn writers(&self) -> &Arc<Semaphore> {
        &self.0.writers
    }
}
