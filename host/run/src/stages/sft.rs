//! Supervised fine-tuning stage: the oracle plays or demonstrations were read, and the model imitates.

use std::collections::BTreeMap;
use std::time::Instant;

use gymkhana_record::step_metrics::sft;
use gymkhana_record::{Ending, EpisodeRecord, StepMetrics};
use gymkhana_rollout::WaitKind;
use gymkhana_trainer::{SftSettings, Weighted};
use tracing::{Instrument, info_span};

use crate::schedule::StagePart;
use crate::sources::{Demonstration, StageSources, oracle_tasks};
use crate::stages::demonstrations::{FailedDemonstrations, LONGER_CONTEXT, MAX_FAILED, demonstrations, solved};
use crate::stages::tally::FailureTally;
use crate::stop::Halt;
use crate::training_run::TrainingRun;
use gymkhana_config::{PolicySection, SftStage};
use gymkhana_orchestration::RunResult;
use gymkhana_orchestration::{ProgressFigures, Work};

/// Number of demonstrations that exceed the context.
fn too_long(groups: &[Vec<EpisodeRecord>]) -> u64 {
    groups.iter().flatten().filter(|record| record.ending == Ending::ContextLimit).count() as u64
}

/// Number of demonstrations of each environment, in a run with several.
fn solved_by_environment(groups: &[Vec<EpisodeRecord>]) -> StepMetrics {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for record in groups.iter().flatten() {
        if let Some(name) = &record.environment {
            *counts.entry(name).or_default() += usize::from(record.success);
        }
    }
    let mut metrics = StepMetrics::default();
    for (name, count) in counts {
        metrics.append(StepMetrics::from([(sft::DEMONSTRATIONS, count as f64)]).of_environment(name));
    }
    metrics
}

impl TrainingRun {
    pub(crate) async fn sft(&mut self, stage: &SftStage) -> Result<(), Halt> {
        let PolicySection { micro_batch_tokens, activation_checkpointing, .. } = self.file.policy;
        let settings = SftSettings { micro_batch_tokens, activation_checkpointing, ..stage.settings() };
        let mut failed = FailedDemonstrations::default();
        let mut has_warned = false;
        let mut order = self.demonstration_tasks().await?;
        let read = self.sources.demonstrations.remove(&self.progress.stage).unwrap_or_default();
        let mut sources = StageSources::of_stage(stage, read, self.seed.child("sources").child(self.progress.stage));
        let batch = u64::from(stage.batch);
        let progress = self.reporter.progress(Work {
            done: self.steps_done(),
            later: self.later(StagePart::Training),
            ..Work::new(format!("{}: demonstrations", stage.name), stage.steps)
        });
        while let Some(step) = self.next_training_step(stage.steps).await? {
            let drawn = sources.draw(step * batch, batch);
            order.set_dropped(&self.dropped());
            let since = Instant::now();
            let groups = match drawn.oracle_count {
                0 => vec![],
                count => self.play_oracle(step, order.take(drawn.oracle_first, count)).await?,
            };
            self.metrics_of_rollouts().trainer_waited(since.elapsed());
            let left_out = too_long(&groups);
            let solved = solved(&groups);
            let count = solved + drawn.given.len();
            // Without any demonstration, the run ends with an error that says so.
            if left_out > 0 && solved > 0 && !has_warned {
                has_warned = true;
                self.warn_of_left_out(stage, &format!("step {step}"), left_out, drawn.oracle_count);
            }
            if solved > 0 {
                failed = FailedDemonstrations::default();
            } else {
                failed.add(&groups);
            }
            let learned_before = self.progress.current.as_ref().is_some_and(|it| it.episodes > 0);
            let learned_nothing = count == 0 && step + 1 == stage.steps && !learned_before;
            if failed.played() >= MAX_FAILED || learned_nothing {
                return Err(self.no_demonstrations(&failed).into());
            }
            let message = if count == 0 {
                self.count_step(0, 0);
                self.record_step(step, &[(sft::DEMONSTRATIONS, 0.0), (sft::LEFT_OUT, left_out as f64)].into())?;
                "no demonstrations".to_owned()
            } else {
                let span = info_span!("train", stage = stage.name, step);
                let (mut measured, tokens) = self.imitate(&groups, &drawn.given, &settings).instrument(span).await?;
                self.count_step(count, tokens);
                measured.push(sft::DEMONSTRATIONS, count as f64);
                measured.push(sft::LEFT_OUT, left_out as f64);
                measured.append(solved_by_environment(&groups));
                self.record_step(step, &measured)?;
                let loss = measured.get(sft::LOSS.name());
                loss.map_or_else(|| "no demonstrations".to_owned(), |loss| format!("loss {loss:.3}"))
            };
            let mut figures = ProgressFigures::of(message);
            let mut failed_now = FailureTally::default();
            groups.iter().flatten().for_each(|record| failed_now.count(record));
            figures.others.extend(failed_now.figure());
            if left_out > 0 {
                figures.others.push(format!("{left_out} left out"));
            }
            progress.at(step + 1, &figures);
            if (step + 1) % stage.checkpoint_every == 0 || step + 1 == stage.steps {
                self.checkpoint().await?;
            }
        }
        Ok(self.report_left_out(stage)?)
    }

    /// Reports demonstrations that the stage has left out, over all of its steps.
    fn report_left_out(&self, stage: &SftStage) -> RunResult<()> {
        let lines = self.folder.reader().metrics()?;
        let of_stage = lines.iter().filter(|line| line.stage as usize == self.progress.stage);
        let left_out = of_stage.filter_map(|line| line.values.get(sft::LEFT_OUT.name())?.as_f64()).sum::<f64>() as u64;
        if left_out > 0 {
            self.warn_of_left_out(
                stage,
                "all steps",
                left_out,
                oracle_tasks(stage, stage.steps * u64::from(stage.batch)),
            );
        }
        Ok(())
    }

    fn warn_of_left_out(&self, stage: &SftStage, when: &str, left_out: u64, of: u64) {
        self.reporter.warn(&format!(
            "stage {}, {when}: {left_out} of {of} demonstrations are left out: they exceed the context of {} \
             tokens\nhint: {LONGER_CONTEXT}",
            stage.name,
            self.context_tokens()
        ));
    }

    /// Trains every trained model on its seats' demonstrations: those that the oracle solved, and given ones. Returns the
    /// metrics and the number of tokens.
    pub(super) async fn imitate(
        &self,
        groups: &[Vec<EpisodeRecord>],
        given: &[&Demonstration],
        settings: &SftSettings,
    ) -> RunResult<(StepMetrics, usize)> {
        let _timer = self.metrics_of_rollouts().time(WaitKind::Train);
        let (mut measured, mut tokens) = (StepMetrics::default(), 0);
        for model in self.seats.trained() {
            let solved = demonstrations(groups, &model.seats);
            let of_oracle = solved.iter().map(|segment| Weighted { segment, weight: 1.0 });
            let given = given
                .iter()
                .flat_map(|one| one.segments.iter().map(move |segment| Weighted { segment, weight: one.weight }));
            let given = given.filter(|one| one.weight > 0.0);
            let own = of_oracle.chain(given.filter(|one| model.seats.contains(&one.segment.seat())));
            let own: Vec<Weighted<'_>> = own.collect();
            let count: usize = own.iter().map(|one| one.segment.sampled_len()).sum();
            if count > 0 {
                tokens += count;
                measured.append(model.named(model.trainer.sft_step(&own, settings).await?));
            }
        }
        Ok((measured, tokens))
    }

    /// The next training step, after the evaluation that may be due before it; `None` after the last.
    pub(crate) async fn next_training_step(&mut self, steps: u64) -> Result<Option<u64>, Halt> {
        if self.steps_done() < steps {
            self.check_stop()?;
            self.evaluate_when_due().await?;
        }
        let current = self.progress.current.as_ref().filter(|current| !current.stopped_early);
        Ok(current.map(|current| current.step).filter(|step| *step < steps))
    }

    /// Writes the metrics of a step, with those of the evaluation before it.
    pub(crate) fn record_step(&mut self, step: u64, values: &StepMetrics) -> RunResult<()> {
        if let Some(current) = self.progress.current.as_mut().filter(|_| !values.has_update()) {
            current.idle_steps += 1;
        }
        let mut line = values.clone();
        line.append(self.evaluated_before(step));
        self.show_position();
        self.metrics.append(self.progress.stage as u32, step, &line)?;
        self.watch_health(step, &line);
        Ok(())
    }
}
