//! Success rate on held-out tasks before, within and after each stage.

use std::collections::BTreeMap;
use std::time::Instant;

use gymkhana_policy::Sampling;
use gymkhana_record::step_metrics::evaluation;
use gymkhana_record::{EpisodeRecord, Phase, StepMetrics};
use gymkhana_store::{EnvironmentSuccess, StepEvaluation, best_evaluation};

use super::held_out;
use crate::schedule::{Decoding, EvalPoint, StagePart};
use crate::session::Session;
use crate::state::{Current, Success};
use crate::stop::Halt;
use gymkhana_config::EvaluatedWeights;
use gymkhana_orchestration::scheduler::{Batch, GroupTask};
use gymkhana_orchestration::{Classify, RunResult, Work};

/// Success rates of a measurement, 0 to 1.
#[derive(Debug, Clone, PartialEq, Default)]
struct Rates {
    /// Over all tasks; absent without any.
    total: Option<f64>,
    /// Of each environment, in a run with several.
    environments: BTreeMap<String, f64>,
}

impl Rates {
    fn of<'a>(records: impl Iterator<Item = &'a EpisodeRecord>) -> Self {
        let mut counts: BTreeMap<Option<&str>, (usize, usize)> = BTreeMap::new();
        for record in records {
            let (solved, all) = counts.entry(record.environment.as_deref()).or_default();
            (*solved, *all) = (*solved + usize::from(record.success), *all + 1);
        }
        let sums = counts.values().fold((0, 0), |(solved, all), own| (solved + own.0, all + own.1));
        let rate = |(solved, all): (usize, usize)| (all > 0).then(|| solved as f64 / all as f64);
        let named = counts.iter().filter_map(|(name, own)| Some(((*name)?.to_owned(), rate(*own)?)));
        Self { total: rate(sums), environments: named.collect() }
    }
}

impl Session {
    /// Evaluates on the held-out tasks, greedily and, if the run file asks for it, sampled.
    pub(crate) async fn evaluate(&mut self, point: EvalPoint) -> Result<Success, Halt> {
        if !self.file.evaluates() {
            return Ok(Success::default());
        }
        let greedy = self.success_at(point, Decoding::Greedy).await?;
        let sampled = match self.file.evaluation.sampled {
            true => self.success_at(point, Decoding::Sampled).await?,
            false => Rates::default(),
        };
        let own = |name: &String| EnvironmentSuccess {
            greedy: greedy.environments.get(name).copied(),
            sampled: sampled.environments.get(name).copied(),
        };
        let environments = greedy.environments.keys().map(|name| (name.clone(), own(name))).collect();
        Ok(Success { greedy: greedy.total, sampled: sampled.total, environments })
    }

    /// Evaluates between training steps if the run file asks for it here, and keeps the weights if they are the best of
    /// the stage. The stage may be over then.
    pub(crate) async fn evaluate_when_due(&mut self) -> Result<(), Halt> {
        let Some(Current { step, evaluations, .. }) = &self.progress.current else { return Ok(()) };
        let (step, is_measured) = (*step, evaluations.last().is_some_and(|last| last.step == *step));
        if is_measured || !self.file.evaluation.is_due(step) {
            return Ok(());
        }
        let Success { greedy: Some(success), sampled, environments } = self.evaluate(EvalPoint::During(step)).await?
        else {
            return Ok(());
        };
        let patience = self.file.evaluation.patience;
        let evaluation = StepEvaluation { step, success, success_sampled: sampled, environments };
        let is_best = self.progress.evaluated(evaluation, patience) && self.file.checkpoints.best;
        let current = self.progress.current.as_ref().filter(|current| current.stopped_early);
        let stops = current.is_some();
        if let Some(best) = current.and_then(|current| best_evaluation(&current.evaluations)) {
            self.reporter.status(&format!(
                "the stage stops early, after {step} steps: success on held-out tasks was highest after {}, and \
                 evaluation.patience is {patience}",
                best.step
            ));
        }
        if is_best || stops {
            self.save().await?;
        }
        Ok(())
    }

    /// Values of the evaluation before a step; none if there was none.
    pub(crate) fn evaluated_before(&self, step: u64) -> StepMetrics {
        let evaluations = self.progress.current.iter().flat_map(|current| &current.evaluations);
        let mut values = StepMetrics::default();
        for found in evaluations.filter(|found| found.step == step) {
            values.push(evaluation::SUCCESS, found.success);
            found.success_sampled.iter().for_each(|sampled| values.push(evaluation::SUCCESS_SAMPLED, *sampled));
            for (name, own) in &found.environments {
                let mut rates = StepMetrics::default();
                own.greedy.iter().for_each(|rate| rates.push(evaluation::SUCCESS, *rate));
                own.sampled.iter().for_each(|rate| rates.push(evaluation::SUCCESS_SAMPLED, *rate));
                values.append(rates.of_environment(name));
            }
        }
        values
    }

    async fn success_at(&mut self, point: EvalPoint, decoding: Decoding) -> Result<Rates, Halt> {
        let (phase, step) = match (point, decoding) {
            (EvalPoint::Before, Decoding::Greedy) => (Phase::Before, 0),
            (EvalPoint::During(step), Decoding::Greedy) => (Phase::During, step),
            (EvalPoint::After, Decoding::Greedy) => (Phase::After, 0),
            (EvalPoint::Before, Decoding::Sampled) => (Phase::BeforeSampled, 0),
            (EvalPoint::During(step), Decoding::Sampled) => (Phase::DuringSampled, step),
            (EvalPoint::After, Decoding::Sampled) => (Phase::AfterSampled, 0),
        };
        let sampling = match decoding {
            Decoding::Greedy => Sampling::GREEDY,
            Decoding::Sampled => Sampling::at(1.0),
        };
        let tasks = self.held_out_tasks().await?;
        let count = tasks.len() as u64;
        let later = self.later(StagePart::Measurement(point, decoding));
        let progress = self.reporter.progress(Work { later, ..Work::new(self.work_name(point, decoding), count) });
        let begun = Instant::now();
        let batch = Batch::of_single_episodes(phase, step, tasks, sampling);
        // Weights in training come back before a stop or an error can save them.
        self.use_average(self.file.evaluation.weights == EvaluatedWeights::Average).await?;
        let groups = self.play(&batch, Some(&*progress)).await;
        self.use_average(false).await?;
        let groups = groups?;
        self.durations.measured(decoding, begun.elapsed());
        Ok(Rates::of(groups.iter().flatten()))
    }

    /// Held-out tasks of all environments that were not dropped.
    async fn held_out_tasks(&self) -> RunResult<Vec<GroupTask>> {
        let mut tasks = Vec::new();
        for (index, environment) in self.environments.iter().enumerate() {
            if !self.is_dropped(environment) {
                let (file, set) = (&environment.view.file, environment.rollout.plugins());
                let (split, most) = (&file.environment.eval, file.evaluation.tasks);
                tasks.extend(held_out::of_environment(set, split, index, most).await?);
            }
        }
        Ok(tasks)
    }

    /// Whether the models generate with the moving averages of their weights.
    async fn use_average(&self, average: bool) -> RunResult<()> {
        for model in self.seats.trained() {
            model.trainer.use_average(average).await.internal()?;
        }
        Ok(())
    }

    /// Name of a measurement on the progress line; one within or after a stage names the stage.
    fn work_name(&self, point: EvalPoint, decoding: Decoding) -> String {
        let stage = match point {
            EvalPoint::Before => None,
            EvalPoint::During(_) | EvalPoint::After => self.file.stages.get(self.progress.stage),
        };
        let stage = stage.map_or_else(String::new, |stage| format!("{}: ", stage.name()));
        let decoding = match decoding {
            Decoding::Greedy => "greedy",
            Decoding::Sampled => "sampled",
        };
        format!("{stage}measuring ({decoding})")
    }
}
