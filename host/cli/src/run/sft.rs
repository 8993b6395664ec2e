//! A stage of supervised fine-tuning: the oracle plays, the model imitates.

use gymkhana_episode::{EpisodeRecord, Phase, Segment};
use gymkhana_rollout::Sampling;

use super::Session;
use super::batch::Batch;
use super::tasks::Tasks;
use crate::error::{Blame, CliError, CliResult};
use crate::runfile::{SftStage, Until};

impl Session<'_> {
    pub(super) async fn sft(&mut self, stage: &SftStage) -> CliResult<()> {
        let settings = stage.settings();
        let mut tasks = self.tasks(&self.file.environment.train).await?;
        let progress = self.printer.progress(&stage.name, stage.steps);
        while let Some(step) = self.next_step(stage.steps) {
            let batch = Batch {
                phase: Phase::Demonstration,
                step,
                tasks: tasks.take(step * u64::from(stage.batch), u64::from(stage.batch)),
                group_size: 1,
                sampling: Sampling::Greedy,
            };
            let groups = self.play(&batch, None).await?;
            let demonstrations = self.demonstrations(&groups)?;
            let tokens = demonstrations.iter().map(Segment::sampled_len).sum();
            let measured = self.trainer.sft_step(&demonstrations, &settings).await.ours()?;
            self.count_step(demonstrations.len(), tokens);
            self.record_step(step, &measured, &[])?;
            let loss = measured.iter().find(|(name, _)| name == "loss").map_or(f64::NAN, |(_, loss)| *loss);
            progress.at(step + 1, &format!("loss {loss:.3}"));
            if let Some(until) = &stage.until {
                let reached = (step + 1) % until.every == 0 && self.probe(step, stage, until, &mut tasks).await?;
                if let Some(current) = &mut self.progress.current {
                    current.reached = reached;
                }
            }
            if (step + 1) % stage.checkpoint_every == 0 || self.next_step(stage.steps).is_none() {
                self.checkpoint().await?;
            }
        }
        Ok(())
    }

    /// Whether the policy solves as many training tasks, which no step of the stage uses, as the stage is to reach.
    async fn probe(&mut self, step: u64, stage: &SftStage, until: &Until, tasks: &mut Tasks) -> CliResult<bool> {
        let unused = stage.steps * u64::from(stage.batch);
        let tasks = tasks.take(unused, u64::from(until.tasks));
        let batch = Batch { phase: Phase::Probe, step, tasks, group_size: 1, sampling: Sampling::Greedy };
        let groups = self.play(&batch, None).await?;
        let solved = groups.iter().flatten().filter(|record| record.success).count();
        let success = solved as f64 / f64::from(until.tasks);
        self.printer.talk(format!(
            "{} after {} steps: {:.1} % of {} tasks",
            stage.name,
            step + 1,
            100.0 * success,
            until.tasks
        ));
        Ok(success >= until.success)
    }

    /// What is imitated: the segments of the episodes that the oracle solved.
    fn demonstrations(&self, groups: &[Vec<EpisodeRecord>]) -> CliResult<Vec<Segment>> {
        let solved = groups.iter().flatten().filter(|record| record.success);
        let segments: Vec<Segment> = solved.flat_map(|record| record.segments.clone()).collect();
        if segments.is_empty() {
            let plugin = self.rollout.plugins().environment().plugin.name();
            let failure = groups.iter().flatten().find_map(|record| record.failures.first());
            let why = failure.map_or_else(
                || "its oracle solves no task: does the run give the tools and the turns that it needs?".to_owned(),
                ToString::to_string,
            );
            return Err(CliError::mistake(format!("environment `{plugin}` gives nothing to imitate: {why}")));
        }
        Ok(segments)
    }

    /// The next training step, if any is left.
    pub(super) fn next_step(&self, steps: u64) -> Option<u64> {
        let current = self.progress.current.as_ref().filter(|current| !current.reached)?;
        Some(current.step).filter(|step| *step < steps)
    }

    /// Writes what was measured at a step.
    pub(super) fn record_step(&mut self, step: u64, measured: &[(String, f64)], more: &[(&str, f64)]) -> CliResult<()> {
        let values: Vec<(&str, f64)> =
            measured.iter().map(|(name, value)| (name.as_str(), *value)).chain(more.iter().copied()).collect();
        Ok(self.metrics.append(self.progress.stage as u32, step, &values)?)
    }
}
