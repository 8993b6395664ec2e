//! The state that all requests share: runs, and places for what takes memory.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::{PageError, Problem};
use crate::replayer::{Replayer, Replays};
use crate::run::Run;

/// Most readers of live updates at a time.
const STREAMS: usize = 64;
/// Most pages that are written at a time. The others wait.
const WRITERS: usize = 8;

/// The runs, shared by all requests.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    runs: Vec<Run>,
    streams: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    replays: Option<Replays>,
}

impl App {
    /// Opens runs, whose episodes can be replayed if there is a replayer.
    pub fn open(runs: &[PathBuf], replayer: Option<Replayer>) -> Result<Self, PageError> {
        Ok(Self(Arc::new(Shared {
            runs: Run::open_all(runs)?,
            streams: Arc::new(Semaphore::new(STREAMS)),
            writers: Arc::new(Semaphore::new(WRITERS)),
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

    /// Places for pages that are being written.
    pub fn writers(&self) -> &Arc<Semaphore> {
        &self.0.writers
    }
}
