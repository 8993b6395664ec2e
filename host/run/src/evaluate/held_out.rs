//! Success rate on held-out tasks before and after each stage.

use std::time::Instant;

use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeRecord, Phase};
use serde::{Deserialize, Serialize};

use crate::schedule::{Decoding, StagePart};
use crate::session::Session;
use crate::stop::Halt;
use gymkhana_assembly::Work;
use gymkhana_assembly::scheduler::Batch;

/// Point in a stage at which success is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        if self.file.evaluation.tasks == 0 {
            return Ok(Success::default());
        }
        let greedy = Some(self.held_out(point, Decoding::Greedy).await?);
        let sampled = match self.file.evaluation.sampled {
            true => Some(self.held_out(point, Decoding::Sampled).await?),
            false => None,
        };
        Ok(Success { greedy, sampled })
    }

    async fn held_out(&mut self, point: EvalPoint, decoding: Decoding) -> Result<f64, Halt> {
        let (phase, sampling) = match (point, decoding) {
            (EvalPoint::Before, Decoding::Greedy) => (Phase::Before, Sampling::GREEDY),
            (EvalPoint::After, Decoding::Greedy) => (Phase::After, Sampling::GREEDY),
            (EvalPoint::Before, Decoding::Sampled) => (Phase::BeforeSampled, Sampling::at(1.0)),
            (EvalPoint::After, Decoding::Sampled) => (Phase::AfterSampled, Sampling::at(1.0)),
        };
        let split = self.file.environment.eval.clone();
        let tasks = self.tasks(&split).await?;
        let count = tasks.count().map_or(self.file.evaluation.tasks, |count| count.min(self.file.evaluation.tasks));
        // The same tasks each time, once each, so that success rates are comparable.
        let tasks = (0..count).map(|index| gymkhana_record::TaskRef { split: split.clone(), index }).collect();
        let later = self.later(StagePart::Measurement(point, decoding));
        let progress = self.reporter.progress(Work { later, ..Work::new(self.work_name(point, decoding), count) });
        let begun = Instant::now();
        let batch = Batch::of_single_episodes(phase, 0, tasks, sampling);
        let groups = self.play(&batch, Some(&*progress)).await?;
        self.durations.measured(decoding, begun.elapsed());
        let solved = groups.iter().flatten().filter(|record: &&EpisodeRecord| record.success).count();
        Ok(solved as f64 / count as f64)
    }

    /// Name of a measurement on the progress line; one after a stage names the stage.
    fn work_name(&self, point: EvalPoint, decoding: Decoding) -> String {
        let stage = match point {
            EvalPoint::Before => None,
            EvalPoint::After => self.file.stages.get(self.progress.stage),
        };
        let stage = stage.map_or_else(String::new, |stage| format!("{}: ", stage.name()));
        let decoding = match decoding {
            Decoding::Greedy => "greedy",
            Decoding::Sampled => "sampled",
        };
        format!("{stage}measuring ({decoding})")
    }
}
