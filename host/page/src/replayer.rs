//! What replays episodes for the page: a function of the program, one call at a time.

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_record::EpisodeId;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Folder of the run.
    pub run: PathBuf,
    /// The episode.
    pub episode: EpisodeId,
    /// Turn of all seats, from 0, before which a fork is replayed as well.
    pub fork: Option<u32>,
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// Every byte is equal, also in this number of forks.
    Equal {
        /// Number of forks.
        forks: u64,
    },
    /// The host dropped the episode when it was recorded.
    Dropped,
    /// The first difference.
    Differs {
        /// Whether the fork differs and the episode does not.
        in_fork: bool,
        /// Part of the record.
        place: String,
        /// Its recorded value.
        recorded: String,
        /// Its value in the replay.
        replayed: String,
    },
}

/// Replays an episode; the error is a message for the user. It may wait and compute.
pub type Replayer = Arc<dyn Fn(&ReplayRequest) -> Result<Replayed, String> + Send + Sync>;

/// A replayer with a place for one replay at a time.
pub(crate) struct Replays {
    replayer: Replayer,
    place: Arc<Semaphore>,
}

impl Replays {
    /// One replay at a time.
    pub fn new(replayer: Replayer) -> Self {
        Self { replayer, place: Arc::new(Semaphore::new(1)) }
    }

    /// Starts a replay on another thread; `None` if one is running. It goes on if nothing waits for it.
    pub fn start(&self, request: ReplayRequest) -> Option<JoinHandle<Result<Replayed, String>>> {
        let place = Arc::clone(&self.place).try_acquire_owned().ok()?;
        let replayer = Arc::clone(&self.replayer);
        Some(tokio::task::spawn_blocking(move || {
            let _place = place;
            replayer(&request)
        }))
    }
}
