//! Stages of a run: their order between evaluations, batches of groups, prefetching steps, training.

pub(crate) mod batch;
mod best_of_n;
mod demonstrations;
mod failing;
pub(crate) mod groups;
mod outage;
pub(crate) mod pipeline;
mod preferences;
pub(crate) mod replies;
mod rl;
mod sft;
pub(crate) mod tally;
pub(crate) mod tasks;
pub(crate) mod watch;

use std::path::PathBuf;

use gymkhana_config::Stage;
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_record::StepMetrics;
use gymkhana_store::RunSummary;
use gymkhana_trainer::StageModels;

use crate::schedule::EvalPoint;
use crate::stages::tally::FailureTally;
use crate::stages::watch::BetterCheckpoint;
use crate::state::Success;
use crate::stop::{Halt, Stopped};
use crate::training_run::TrainingRun;

/// The end of a run without an error.
#[derive(Debug, Clone, PartialEq)]
pub enum RunOutcome {
    /// All stages are complete.
    Finished(Box<Finished>),
    /// A stop was requested; the run can be resumed.
    Stopped(Stopped),
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Success and cost of each stage.
    pub summary: RunSummary,
    /// Number of recorded episodes.
    pub episodes: usize,
    /// The run's folder.
    pub folder: PathBuf,
    /// Folder of the newest checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// A better checkpoint, if the last stage made the policy worse.
    pub better_checkpoint: Option<BetterCheckpoint>,
    /// Failures of the whole run, including those of episodes that a resumption played again.
    pub failures: FailureTally,
}

impl TrainingRun {
    /// Runs the remaining stages, or until a stop is requested.
    pub(crate) async fn run(&mut self) -> RunResult<RunOutcome> {
        if let Some(last) = self.file.stages.last().filter(|_| self.progress.stage == self.file.stages.len()) {
            let (out, name) = (self.folder.reader().path().display(), last.name());
            self.reporter.status(&format!(
                "the run in `{out}` is finished\nhint: continue it with more steps, such as `host run --resume {out} \
                 --set stages.{name}.steps={}`",
                last.steps().saturating_mul(2)
            ));
        }
        match self.stages().await {
            Ok(()) => self.finish().map(|finished| RunOutcome::Finished(Box::new(finished))),
            Err(Halt::Stopped) => self.save_stopped().await.map(RunOutcome::Stopped),
            Err(Halt::Outage(error)) => {
                self.save_stopped().await?;
                Err(error)
            }
            Err(Halt::Failed(error)) => Err(error),
        }
    }

    async fn stages(&mut self) -> Result<(), Halt> {
        let stages = self.file.stages.clone();
        self.progress.finished.iter().for_each(|stage| self.reporter.stage_finished(stage));
        while let Some(stage) = stages.get(self.progress.stage) {
            self.check_stop()?;
            self.stage(stage).await?;
        }
        Ok(())
    }

    async fn stage(&mut self, stage: &Stage) -> Result<(), Halt> {
        if self.progress.current.is_none() {
            // The stage before has evaluated the same weights on the same tasks.
            let before = match self.progress.finished.last() {
                Some(last) => Success::after(last),
                None => self.evaluate(EvalPoint::Before).await?,
            };
            for model in self.seats.trained() {
                let keeps = match stage {
                    Stage::Sft(_) | Stage::BestOfN(_) => StageModels::default(),
                    Stage::Rl(stage) => {
                        let settings = self.file.settings_of_model(stage, model.seat_name()).user_error()?;
                        let teacher = stage.teacher.clone().filter(|_| settings.algorithm.wants_teacher());
                        StageModels { teacher, ..settings.algorithm.stage_models() }
                    }
                };
                model.trainer.begin_stage(keeps).await?;
            }
            self.progress.begin(stage.name(), before);
            self.checkpoint().await?;
        }
        self.show_position();
        match stage {
            Stage::Sft(stage) => self.sft(stage).await?,
            Stage::BestOfN(stage) => self.best_of_n(stage).await?,
            Stage::Rl(stage) if stage.recorded.is_some() => self.preferences(stage).await?,
            Stage::Rl(stage) => self.rl(stage).await?,
        }
        self.report_health(self.progress.stage);
        let after = self.evaluate(EvalPoint::After).await?;
        let summary = self.progress.finish(&after, self.begun.elapsed());
        self.reporter.stage_finished(&summary);
        self.warn_of_worse_policy();
        self.episodes.commit()?;
        Ok(self.write_state()?)
    }

    /// Adds the metrics of a step to the figures, and warns of those that leave their usual range.
    pub(crate) fn watch_health(&mut self, step: u64, values: &StepMetrics) {
        let stage = self.progress.stage;
        let name = self.file.stages.get(stage).map_or("", |stage| stage.name());
        for finding in self.health.step(stage as u32, step, values) {
            let hint = finding.hint.as_deref().unwrap_or_default();
            let text = format!("stage `{name}`, {}: {}\nhint: {hint}", finding.check, finding.observed());
            self.reporter.warn(&text);
        }
    }

    /// Reports the figures of a stage that ends outside of their usual range.
    fn report_health(&self, stage: usize) {
        let checks = self.health.end(stage as u32);
        if !checks.is_empty() {
            let name = self.file.stages.get(stage).map_or("", |stage| stage.name());
            self.reporter.status(&format!(
                "health of stage `{name}`: outside of the usual range: {}; see `host show {} --health`",
                checks.join(", "),
                self.folder.reader().path().display()
            ));
        }
    }

    fn finish(&mut self) -> RunResult<Finished> {
        let last = self.progress.finished.last();
        let summary = RunSummary {
            schema: gymkhana_store::SUMMARY_SCHEMA,
            success: last.and_then(|stage| stage.success_after),
            success_sampled: last.and_then(|stage| stage.success_after_sampled),
            stages: self.progress.finished.clone(),
            seconds: self.begun.elapsed().as_secs_f64(),
        };
        self.folder.write_summary(&summary)?;
        let (episodes, folder) = (self.episodes.stored().len(), self.folder.reader().path().to_owned());
        let checkpoints = self.folder.reader().checkpoints_path();
        let checkpoint = self.checkpoint.as_ref().map(|saved| checkpoints.join(saved.name.to_string()));
        let (failures, better_checkpoint) = (self.progress.tally.clone(), self.better_checkpoint());
        Ok(Finished { summary, episodes, folder, checkpoint, better_checkpoint, failures })
    }
}
