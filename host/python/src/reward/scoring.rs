//! Scores of attempts by a reward plugin, each group in a new instance.

use std::sync::Arc;

use futures::future::BoxFuture;
use gymkhana_driver::{ExchangeRecorder, RewardTools, ToolCaller, ToolSet, with_recorder};
use gymkhana_record::{NamedValue, Score, Seed};
use gymkhana_sandbox::{CallError, Plugin, Trajectory, score};

use crate::batch::{MIN_JOBS, spread};
use crate::errors::{FunctionFault, word};
use crate::reward::trajectory::SeatTrajectory;
use crate::runtime::Host;

/// A reward with its options and its seed.
#[derive(Clone)]
pub struct Judge {
    pub plugin: Plugin,
    pub options: Arc<[NamedValue]>,
    pub seed: Seed,
}

/// The score of one attempt, or why there is none.
pub type Scored = Result<Score, String>;

impl Judge {
    /// Scores each attempt alone.
    ///
    /// # Errors
    /// If this package fails.
    pub fn each(&self, host: &Host, attempts: Vec<SeatTrajectory>) -> Result<Vec<Scored>, FunctionFault> {
        let jobs = attempts.into_iter().map(|attempt| (self.clone(), attempt)).collect();
        spread(host, jobs, MIN_JOBS, |(judge, attempt): (Self, SeatTrajectory)| -> BoxFuture<'static, Scored> {
            Box::pin(async move { judge.group(&[attempt]).await.pop().unwrap_or_else(|| Err(NONE.to_owned())) })
        })
    }

    /// Scores attempts at one task together. If that fails, all are without a score.
    pub async fn group(&self, attempts: &[SeatTrajectory]) -> Vec<Scored> {
        let group: Vec<Trajectory<'_>> = attempts.iter().map(SeatTrajectory::trajectory).collect();
        match self.ask(&group).await {
            Ok(scores) => {
                let first = |scores: Vec<Score>| scores.into_iter().next().ok_or_else(|| NONE.to_owned());
                scores.into_iter().map(first).collect()
            }
            Err(error) => {
                let failure = format!("{}: {error}", word(error.kind));
                attempts.iter().map(|_| Err(failure.clone())).collect()
            }
        }
    }

    async fn ask(&self, group: &[Trajectory<'_>]) -> Result<Vec<Vec<Score>>, CallError> {
        // As in a run, where each reward has its own branch of the seeds.
        let seed = self.seed.child("reward").child(self.plugin.name());
        let tools = || -> Arc<dyn ToolCaller> {
            Arc::new(RewardTools::new(&Arc::new(ToolSet::default()), 0, seed.child("tool"), &[]))
        };
        let recorder = ExchangeRecorder::of_reward(&self.plugin, None, group.len(), tools);
        let plugin = with_recorder(&self.plugin, recorder.as_ref());
        score(&plugin, group, &self.options, 0, seed).await
    }
}

/// Why an attempt without a turn has no score.
const NONE: &str = "malformed: the reward gave no score for it";
