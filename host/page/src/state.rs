//! The state that all requests share: runs, and places for what takes memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::{PageError, PageProblem};
use crate::replayer::{Replayer, Replays};
use crate::run::ShownRun;

/// Most readers of live updates at a time.
const STREAMS: usize = 64;
/// Most pages that are written at a time. The others wait.
const WRITERS: usize = 8;

/// Work of the page relative to its pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkPace {
    /// Up to [`WRITERS`] pages at a time.
    Full,
    /// One page at a time, and a pause of [`REST`] times its duration after each: the processor belongs to the run.
    BesideRun,
}

/// Pause after a page beside a run, in durations of the page.
const REST: u32 = 4;

/// The runs, shared by all requests.
#[derive(Clone)]
pub(crate) struct App(Arc<PageContext>);

struct PageContext {
    runs: Vec<ShownRun>,
    streams: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    pace: WorkPace,
    replays: Option<Replays>,
}

impl App {
    /// Opens runs, whose episodes can be replayed if there is a replayer.
    pub fn open(runs: &[PathBuf], replayer: Option<Replayer>, pace: WorkPace) -> Result<Self, PageError> {
        let writers = if pace == WorkPace::Full { WRITERS } else { 1 };
        Ok(Self(Arc::new(PageContext {
            runs: ShownRun::open_all(runs)?,
            streams: Arc::new(Semaphore::new(STREAMS)),
            writers: Arc::new(Semaphore::new(writers)),
            pace,
            replays: replayer.map(Replays::new),
        })))
    }

    /// All runs.
    pub fn runs(&self) -> &[ShownRun] {
        &self.0.runs
    }

    /// The run at an index.
    pub fn run(&self, index: usize) -> Result<&ShownRun, PageProblem> {
        self.0.runs.get(index).ok_or_else(|| PageProblem::NotFound(format!("there is no run {index}")))
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
            WorkPace::Full => Duration::ZERO,
            WorkPace::BesideRun => took * REST,
        }
    }

    /// Places for pages that are being written.
    pub fn writers(&self) -> &Arc<Semaphore> {
        &self.0.writers
    }
}
