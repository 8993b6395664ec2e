//! Success rate on held-out tasks before and after each stage.

use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeRecord, Phase};
use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::stages::scheduler::Batch;
use crate::stop::Halt;

/// Point in a stage at which success is measured.
#[derive(Clone, Copy)]
pub(crate) enum EvalPoint {
    Before,
    After,
}

/// Success rates on held-out tasks, 0 to 1; absent if not measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Success {
    /// Greedy decoding.
    pub greedy: Option<f64>,
    /// Sampled decoding at temperature 1.
    pub sampled: Option<f64>,
}

impl Session {
    /// Evaluates on the held-out tasks, greedily and, if the run file asks for it, sampled.
    pub(crate) async fn evaluate(&mut self, point: EvalPoint) -> Result<Success, Halt> {
        let (greedy, sampled) = match point {
            EvalPoint::Before => (Phase::Before, Phase::BeforeSampled),
            EvalPoint::After => (Phase::After, Phase::AfterSampled),
        };
        if self.file.evaluation.tasks == 0 {
            return Ok(Success::default());
        }
        let greedy = Some(self.held_out(greedy, Sampling::GREEDY).await?);
        let sampled = match self.file.evaluation.sampled {
            true => Some(self.held_out(sampled, Sampling::at(1.0)).await?),
            false => None,
        };
        Ok(Success { greedy, sampled })
    }

    async fn held_out(&mut self, phase: Phase, sampling: Sampling) -> Result<f64, Halt> {
        let split = self.file.environment.eval.clone();
        let tasks = self.tasks(&split).await?;
        let count = tasks.count().map_or(self.file.evaluation.tasks, |count| count.min(self.file.evaluation.tasks));
        // The same tasks each time, once each, so that success rates are comparable.
        let tasks = (0..count).map(|index| gymkhana_record::TaskRef { split: split.clone(), index }).collect();
        let progress =
            self.reporter.progress(if sampling == Sampling::GREEDY { "greedy" } else { "sampled" }, 0, count);
        let batch = Batch::of_single_episodes(phase, 0, tasks, sampling);
        let groups = self.play(&batch, Some(&*progress)).await?;
        let solved = groups.iter().flatten().filter(|record: &&EpisodeRecord| record.success).count();
        Ok(solved as f64 / count as f64)
    }
}
