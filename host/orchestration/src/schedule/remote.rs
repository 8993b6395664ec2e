//! Groups that other processes play.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use gymkhana_record::EpisodeRecord;
use gymkhana_rollout::{GroupPlan, Rollout, SamplingPlan};
use serde::{Deserialize, Serialize};

use crate::error::RunResult;
use crate::report::Reporter;
use crate::schedule::seat_players::SeatPlayers;

/// A group to play.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupJob {
    /// Index of the environment among those of the run.
    pub environment: usize,
    /// Task, seeds and size.
    pub group: GroupPlan,
    /// The episodes that the group consists of.
    pub plan: SamplingPlan,
}

/// Position of a run, for its operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPosition {
    /// Name of the stage in progress.
    pub stage: String,
    /// Number of training steps that the stage has taken.
    pub step: u64,
    /// Number of training steps of the stage.
    pub steps: u64,
    /// Version of the run's policy.
    pub weight_version: u32,
}

/// The episodes of a group, scored, when they are there.
pub type PlayedGroup = Pin<Box<dyn Future<Output = RunResult<Vec<EpisodeRecord>>> + Send>>;

/// Plays groups in other processes.
pub trait RemotePlayers: Send + Sync {
    /// Plays a group. Dropping the future gives the group up.
    fn play(&self, job: GroupJob) -> PlayedGroup;

    /// Waits until no process shows that it plays.
    fn until_unplayed(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Shows the position of the run to its operators.
    fn show(&self, position: RunPosition);
}

/// A run whose groups other processes play.
pub struct RemoteRun {
    /// Folder of the run, which holds its files.
    pub folder: PathBuf,
    /// Its environments, in the order of the run file.
    pub rollouts: Vec<Arc<Rollout>>,
    /// Policies of its seats.
    pub seats: Arc<dyn SeatPlayers>,
    /// Number of places of a deterministic run.
    pub places: Option<usize>,
    /// Receives what the user should know.
    pub reporter: Arc<dyn Reporter>,
}

/// Something that a run waits for.
pub type Pending<'w, T> = Pin<Box<dyn Future<Output = T> + Send + 'w>>;

/// Processes that play the groups of one run: connected before the run writes anything, begun once, then ended.
pub trait RunWorkers: Send + Sync {
    /// Connects to what leads to the workers. Nothing changes there yet.
    ///
    /// # Errors
    /// If it cannot be used.
    fn connect(&mut self) -> Pending<'_, RunResult<()>>;

    /// Gives the run to the workers, which may come and go from then on.
    ///
    /// # Errors
    /// If the run cannot be kept for them, or there is no connection.
    fn begin(&mut self, run: RemoteRun) -> Pending<'_, RunResult<Arc<dyn RemotePlayers>>>;

    /// Takes the run away, so that the workers leave it, and reports what they did.
    fn end<'w>(self: Box<Self>, reporter: &'w dyn Reporter) -> Pending<'w, ()>;
}
