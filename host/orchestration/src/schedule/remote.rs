//! Groups that other processes play.

use std::future::Future;
use std::pin::Pin;

use gymkhana_record::EpisodeRecord;
use gymkhana_rollout::{GroupPlan, SamplingPlan};
use serde::{Deserialize, Serialize};

use crate::error::RunResult;

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
