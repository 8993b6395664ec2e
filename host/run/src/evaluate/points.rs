//! Success rate on held-out tasks before, within and after each stage.

use std::collections::BTreeMap;
use std::time::Instant;

use gymkhana_policy::Sampling;
use gymkhana_record::step_metrics::evaluation;
use gymkhana_record::{Ending, EpisodeRecord, Phase, StepMetrics};
use gymkhana_rollout::Rollout;
use gymkhana_sandbox::OptionalInterface;
use gymkhana_store::{EnvironmentSuccess, StepEvaluation, best_evaluation};

use super::held_out_of;
use crate::schedule::{Decoding, EvalPoint, StagePart};
use crate::stages::groups::reward_of;
use crate::stages::replies::Replies;
use crate::state::{Current, Success};
use crate::stop::Halt;
use crate::training_run::TrainingRun;
use gymkhana_config::{EvaluatedFigure, EvaluatedWeights, EvaluationMetric, EvaluationSection};
use gymkhana_orchestration::scheduler::{GroupBatch, GroupTask};
use gymkhana_orchestration::{RunResult, Work};

/// Figures of some held-out episodes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate {
    /// Share that was solved, 0 to 1.
    success: f64,
    /// Mean reward, over the episodes and the policy's own seats.
    reward: f64,
}

/// Figures of a measurement.
#[derive(Debug, Clone, PartialEq, Default)]
struct Rates {
    /// Over all tasks; absent without any.
    total: Option<Rate>,
    /// Of each environment, in a run with several.
    environments: BTreeMap<String, Rate>,
}

/// Figures of both ways of decoding.
#[derive(Debug, Clone, PartialEq, Default)]
struct DecodingRates {
    greedy: Rates,
    sampled: Rates,
}

impl Rates {
    /// Figures of these episodes without those that the infrastructure failed.
    fn of<'a>(records: impl Iterator<Item = &'a EpisodeRecord>, own_seats: &[u32]) -> Self {
        let mut counts: BTreeMap<Option<&str>, (usize, f64, usize)> = BTreeMap::new();
        for record in records.filter(|record| record.ending != Ending::Dropped) {
            let reward: f64 = own_seats.iter().map(|seat| reward_of(record, *seat)).sum();
            let own = counts.entry(record.environment.as_deref()).or_default();
            *own = (own.0 + usize::from(record.success), own.1 + reward, own.2 + 1);
        }
        let sums = counts.values().fold((0, 0.0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1, sum.2 + own.2));
        let seats = own_seats.len().max(1) as f64;
        let rate = |(solved, reward, all): (usize, f64, usize)| {
            (all > 0).then(|| Rate { success: solved as f64 / all as f64, reward: reward / seats / all as f64 })
        };
        let named = counts.iter().filter_map(|(name, own)| Some(((*name)?.to_owned(), rate(*own)?)));
        Self { total: rate(sums), environments: named.collect() }
    }

    /// The figures of an environment, or those of all.
    fn of_environment(&self, name: Option<&String>) -> Option<Rate> {
        match name {
            Some(name) => self.environments.get(name).copied(),
            None => self.total,
        }
    }
}

impl DecodingRates {
    /// The success rates.
    fn success(&self) -> Success {
        let success = |rate: Option<&Rate>| rate.map(|rate| rate.success);
        let own = |name: &String| EnvironmentSuccess {
            greedy: success(self.greedy.environments.get(name)),
            sampled: success(self.sampled.environments.get(name)),
        };
        let environments = self.greedy.environments.keys().map(|name| (name.clone(), own(name))).collect();
        let (greedy, sampled) = (self.greedy.total.as_ref(), self.sampled.total.as_ref());
        Success { greedy: success(greedy), sampled: success(sampled), environments }
    }

    /// The value of a metric; absent for an environment that was dropped.
    fn value(&self, metric: &EvaluationMetric) -> Option<f64> {
        let rates = if metric.figure == EvaluatedFigure::SuccessSampled { &self.sampled } else { &self.greedy };
        let rate = rates.of_environment(metric.environment.as_ref())?;
        Some(if metric.figure == EvaluatedFigure::Reward { rate.reward } else { rate.success })
    }
}

impl TrainingRun {
    /// Success rates on the held-out tasks.
    pub(crate) async fn evaluate(&mut self, point: EvalPoint) -> Result<Success, Halt> {
        Ok(self.measure(point).await?.success())
    }

    /// Measures on the held-out tasks, greedily and, if the run file asks for it, sampled.
    async fn measure(&mut self, point: EvalPoint) -> Result<DecodingRates, Halt> {
        if !self.file.evaluates() {
            return Ok(DecodingRates::default());
        }
        let greedy = self.rates_at(point, Decoding::Greedy).await?;
        let sampled = match self.file.evaluation.sampled {
            true => self.rates_at(point, Decoding::Sampled).await?,
            false => Rates::default(),
        };
        Ok(DecodingRates { greedy, sampled })
    }

    /// Evaluates between training steps if the run file asks for it here, and keeps the weights if they are the best of
    /// the stage. The stage may be over then.
    pub(crate) async fn evaluate_when_due(&mut self) -> Result<(), Halt> {
        let Some(Current { step, evaluations, .. }) = &self.progress.current else { return Ok(()) };
        let (step, is_measured) = (*step, evaluations.last().is_some_and(|last| last.step == *step));
        if is_measured || !self.file.evaluation.is_due(step) {
            return Ok(());
        }
        let measured = self.measure(EvalPoint::During(step)).await?;
        let Success { greedy: Some(success), sampled, environments } = measured.success() else { return Ok(()) };
        let EvaluationSection { patience, metric, .. } = self.file.evaluation.clone();
        let evaluation = StepEvaluation {
            step,
            success,
            success_sampled: sampled,
            reward: measured.greedy.total.map(|rate| rate.reward),
            metric: measured.value(&metric).filter(|_| metric != EvaluationMetric::default()),
            environments,
        };
        let is_best = self.progress.evaluated(evaluation, patience) && self.file.checkpoints.best;
        let current = self.progress.current.as_ref().filter(|current| current.stopped_early);
        let stops = current.is_some();
        if let Some(best) = current.and_then(|current| best_evaluation(&current.evaluations)) {
            self.reporter.status(&format!(
                "the stage stops early, after {step} steps: {metric} on held-out tasks was highest after {}, and \
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
            found.reward.iter().for_each(|reward| values.push(evaluation::REWARD, *reward));
            for (name, own) in &found.environments {
                let mut rates = StepMetrics::default();
                own.greedy.iter().for_each(|rate| rates.push(evaluation::SUCCESS, *rate));
                own.sampled.iter().for_each(|rate| rates.push(evaluation::SUCCESS_SAMPLED, *rate));
                values.append(rates.of_environment(name));
            }
        }
        values
    }

    async fn rates_at(&mut self, point: EvalPoint, decoding: Decoding) -> Result<Rates, Halt> {
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
        let batch = GroupBatch::of_single_episodes(phase, step, tasks, sampling);
        // Weights in training come back before a stop or an error can save them.
        self.use_average(self.file.evaluation.weights == EvaluatedWeights::Average).await?;
        let groups = self.play(batch, Some(&*progress)).await;
        self.use_average(false).await?;
        let groups = groups?;
        if point == EvalPoint::Before {
            self.warn_of_unchecked_facts(&groups);
        }
        self.durations.measured(decoding, begun.elapsed());
        self.held_out = count;
        if point == EvalPoint::After {
            let cut = Replies::of(groups.iter().flatten(), self.seats.own_seats(), &self.environments).cut_share();
            let warning = self.cuts.evaluated(&self.file, self.progress.stage, cut);
            warning.iter().for_each(|warning| self.reporter.warn(warning));
        }
        Ok(Rates::of(groups.iter().flatten(), self.seats.own_seats()))
    }

    /// Warns if neither an oracle nor the end of an episode has shown the facts that rules name.
    fn warn_of_unchecked_facts(&self, groups: &[Vec<EpisodeRecord>]) {
        let ended = |record: &EpisodeRecord| matches!(record.ending, Ending::Terminated | Ending::Truncated);
        let is_unknown = |rollout: &Rollout| {
            let has_oracle = rollout.plugins().environment().plugin.offers(OptionalInterface::Oracle);
            !has_oracle && rollout.names_facts()
        };
        let mut rollouts = self.environments.iter().map(|environment| &environment.rollout);
        if !groups.iter().flatten().any(ended) && rollouts.any(|rollout| is_unknown(rollout)) {
            self.reporter.warn(
                "no episode was ended by the environment, and so the facts that `success` or a gate names are not \
                 checked\nhint: compare their names with `host plugin inspect`, or raise limits.turns",
            );
        }
    }

    /// Held-out tasks of all environments that were not dropped.
    async fn held_out_tasks(&self) -> RunResult<Vec<GroupTask>> {
        let mut tasks = Vec::new();
        for (index, environment) in self.environments.iter().enumerate() {
            if !self.is_dropped(environment) {
                let (settings, set) = (&environment.settings, environment.rollout.plugins());
                let (split, most) = (&settings.rules.environment.eval, settings.eval_tasks);
                tasks.extend(held_out_of(set, split, index, most).await?);
            }
        }
        Ok(tasks)
    }

    /// Whether the models generate with the moving averages of their weights.
    async fn use_average(&self, average: bool) -> RunResult<()> {
        for model in self.seats.trained() {
            model.trainer.use_average(average).await?;
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

#[cfg(test)]
mod tests {
    use gymkhana_record::{Ending, EpisodeId, Seed, TaskRef};

    use super::*;

    /// An episode of two seats.
    fn record(environment: &str, success: bool, rewards: [f64; 2]) -> EpisodeRecord {
        let id = EpisodeId { stage: 0, phase: Phase::During, step: 1, group: 0, member: 0, attempt: 0 };
        let task = TaskRef { split: "test".to_owned(), index: 0 };
        EpisodeRecord {
            environment: Some(environment.to_owned()),
            success,
            rewards: rewards.to_vec(),
            ..EpisodeRecord::new(id, task, Seed(0), Ending::Terminated)
        }
    }

    /// One of two episodes is solved; a third was lost to the infrastructure.
    #[test]
    fn lost_episodes_are_absent() {
        let lost = EpisodeRecord { ending: Ending::Dropped, rewards: vec![], ..record("lake", false, [0.0; 2]) };
        let played = [record("lake", true, [0.0, 3.0]), lost.clone(), record("lake", false, [0.0, 1.0])];
        assert_eq!(Rates::of(played.iter(), &[1]).total, Some(Rate { success: 0.5, reward: 2.0 }));
        assert_eq!(Rates::of([lost].iter(), &[1]), Rates::default());
    }

    /// The policy plays the second seat. Rewards of the lake: 3 and 1; of all: 3, 1 and 8.
    #[test]
    fn a_metric_is_that_of_its_environment_and_the_own_seats() {
        let greedy =
            [record("lake", true, [9.0, 3.0]), record("lake", false, [9.0, 1.0]), record("sums", true, [9.0, 8.0])];
        let sampled = [record("lake", false, [0.0, 0.0])];
        let measured =
            DecodingRates { greedy: Rates::of(greedy.iter(), &[1]), sampled: Rates::of(sampled.iter(), &[1]) };
        for (metric, expected) in [
            ("eval_success", Some(2.0 / 3.0)),
            ("eval_success_sampled", Some(0.0)),
            ("eval_reward", Some(4.0)),
            ("lake/eval_success", Some(0.5)),
            ("lake/eval_reward", Some(2.0)),
            ("sums/eval_success_sampled", None),
        ] {
            assert_eq!(measured.value(&metric.parse().unwrap()), expected, "{metric}");
        }
    }
}
