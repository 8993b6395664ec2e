//! Warning about a stage after which the policy solves fewer held-out tasks than before.

use std::path::PathBuf;

use gymkhana_store::{StageSummary, best_evaluation};

use crate::checkpoint_name::CheckpointName;
use crate::training_run::TrainingRun;

/// Standard errors of the difference that a loss must exceed.
const ERRORS: f64 = 2.0;

/// Least number of tasks that were solved before and are not any longer.
const LEAST: f64 = 3.0;

/// Success with greedy decoding and, if measured, with sampling.
type Rates = (f64, Option<f64>);

/// Whether one of the rates fell by more than chance explains, on this many tasks.
fn is_worse(before: Rates, after: Rates, tasks: u64) -> bool {
    let fell = |before: f64, after: f64| {
        let lost = before - after;
        lost > ERRORS * error(before, after, tasks) && lost * tasks as f64 > LEAST - 0.5
    };
    let sampled = before.1.zip(after.1);
    fell(before.0, after.0) || sampled.is_some_and(|(before, after)| fell(before, after))
}

/// Standard error of the difference of two rates. One success and one failure are added to each, so that a rate of 1 on a few
/// tasks is not taken for certain.
fn error(before: f64, after: f64, tasks: u64) -> f64 {
    let tasks = tasks as f64;
    let variance = |rate: f64| {
        let rate = (rate * tasks + 1.0) / (tasks + 2.0);
        rate * (1.0 - rate) / (tasks + 2.0)
    };
    (variance(before) + variance(after)).sqrt()
}

fn before(stage: &StageSummary) -> Option<Rates> {
    Some((stage.success_before?, stage.success_before_sampled))
}

fn after(stage: &StageSummary) -> Option<Rates> {
    Some((stage.success_after?, stage.success_after_sampled))
}

/// A checkpoint that solves more held-out tasks than the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct BetterCheckpoint {
    /// Its folder.
    pub path: PathBuf,
    /// Share of held-out tasks that it solves with greedy decoding.
    pub success: f64,
    /// The same with sampled decoding, if measured.
    pub success_sampled: Option<f64>,
}

/// A number that orders rates: their sum.
fn order((greedy, sampled): Rates) -> f64 {
    greedy + sampled.unwrap_or(0.0)
}

/// Whether a finished stage made the policy worse.
fn made_worse(stage: &StageSummary, tasks: u64) -> bool {
    before(stage).zip(after(stage)).is_some_and(|(before, after)| is_worse(before, after, tasks))
}

/// What happened in words, without a checkpoint.
fn words(stage: &StageSummary, tasks: u64) -> String {
    let percent = |rate: Option<f64>| format!("{:.1} %", 100.0 * rate.unwrap_or(0.0));
    let sampled = match (stage.success_before_sampled, stage.success_after_sampled) {
        (Some(before), Some(after)) => format!(" (sampled {} to {})", percent(Some(before)), percent(Some(after))),
        _ => String::new(),
    };
    format!(
        "stage `{}` made the policy worse: success {} to {}{sampled} on {tasks} held-out tasks",
        stage.name,
        percent(stage.success_before),
        percent(stage.success_after)
    )
}

impl TrainingRun {
    /// Warns if the last finished stage made the policy worse.
    pub(crate) fn warn_of_worse_policy(&self) {
        let Some(stage) = self.progress.finished.last().filter(|stage| made_worse(stage, self.held_out)) else {
            return;
        };
        let hint = match self.better_checkpoint() {
            Some(better) => format!("use the checkpoint {}, or lower optimizer.learning_rate", better.path.display()),
            None => "lower optimizer.learning_rate, or set evaluation.every, so that the best weights stay".to_owned(),
        };
        self.reporter.warn(&format!("{}\nhint: {hint}", words(stage, self.held_out)));
    }

    /// The best checkpoint that is better than the one after the last finished stage; `None` if that stage did not make the
    /// policy worse, or no such checkpoint is there.
    pub(crate) fn better_checkpoint(&self) -> Option<BetterCheckpoint> {
        let (index, summary) = self.progress.finished.iter().enumerate().next_back()?;
        let end = after(summary).filter(|_| made_worse(summary, self.held_out))?;
        let earlier = || {
            let stage = index.checked_sub(1)?;
            let name = CheckpointName { stage, step: self.progress.steps_taken(stage, &self.file.stages)? };
            Some((before(summary)?, name))
        };
        let within = best_evaluation(&summary.evaluations).map(|best| {
            let name = CheckpointName { stage: index, step: best.step };
            ((best.success, best.success_sampled), name)
        });
        let folder = self.folder.reader().checkpoints_path();
        let found = earlier().into_iter().chain(within).filter(|(rates, _)| order(*rates) > order(end));
        let found = found.map(|(rates, name)| (rates, folder.join(name.to_string()))).filter(|(_, path)| path.is_dir());
        let best = found.max_by(|(one, _), (other, _)| order(*one).total_cmp(&order(*other)));
        best.map(|((success, success_sampled), path)| BetterCheckpoint { path, success, success_sampled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_chance_does_not_explain_is_worse() {
        // The customer-service run of the third usability study.
        assert!(is_worse((1.0, Some(0.833)), (0.817, Some(0.383)), 60));
        assert!(is_worse((0.9, Some(0.8)), (0.9, Some(0.3)), 60));
        assert!(!is_worse((0.9, Some(0.8)), (0.85, Some(0.78)), 60));
        assert!(!is_worse((0.8, None), (0.9, None), 60));
        // On few tasks, a loss says little.
        assert!(!is_worse((1.0, None), (0.0, None), 2));
        assert!(!is_worse((1.0, None), (0.75, None), 4));
        assert!(is_worse((1.0, None), (0.0, None), 4));
        assert!(!is_worse((0.0, None), (0.0, None), 0));
    }
}
