//! Supervised fine-tuning stage: the oracle plays, the model imitates.

use std::collections::HashMap;
use std::time::Instant;

use gymkhana_policy::Sampling;
use gymkhana_record::step_metrics::sft;
use gymkhana_record::{Ending, EpisodeRecord, Failure, Phase, Segment, StepMetrics};
use gymkhana_rollout::WaitKind;
use gymkhana_trainer::SftSettings;
use tracing::{Instrument, info_span};

use crate::schedule::StagePart;
use crate::session::Session;
use crate::stop::Halt;
use gymkhana_config::{PolicySection, SftStage};
use gymkhana_orchestration::scheduler::Batch;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_orchestration::{ProgressFigures, Work};

/// Number of failed demonstrations in a row after which a run ends. Fewer may be chance: an environment may lack
/// demonstrations for some tasks.
const MAX_FAILED: u64 = 100;

/// Hint for demonstrations that exceed the context.
const LONGER_CONTEXT: &str = "raise policy.tiny.context or limits.context_tokens, or shorten policy.system";

/// Failed demonstrations of consecutive steps.
#[derive(Default)]
struct FailedDemonstrations {
    endings: HashMap<Ending, u64>,
    failure: Option<Failure>,
}

impl FailedDemonstrations {
    fn add(&mut self, groups: &[Vec<EpisodeRecord>]) {
        for record in groups.iter().flatten() {
            *self.endings.entry(record.ending).or_default() += 1;
            self.failure = self.failure.take().or_else(|| record.failures.first().cloned());
        }
    }

    fn played(&self) -> u64 {
        self.endings.values().sum()
    }

    /// Error that names the most frequent ending, with a hint for it; `context` is the context limit in tokens.
    fn error(&self, environment: &str, context: usize) -> RunError {
        let played = self.played();
        let commonest = self.endings.iter().max_by_key(|(_, count)| **count).map(|(ending, count)| (*ending, *count));
        let (ending, count) = commonest.unwrap_or((Ending::Dropped, 0));
        let hint = match ending {
            Ending::TurnLimit => "raise limits.turns, or add the tools that the oracle calls to --plugins",
            Ending::ContextLimit => LONGER_CONTEXT,
            Ending::CallLimit => "raise limits.calls",
            Ending::EarlyStopped => "loosen limits.early_stop",
            Ending::TimeLimit => "raise limits.seconds",
            Ending::Terminated | Ending::Truncated => {
                "check that --plugins includes the tools that the oracle calls and that `success` is reachable, or \
                 raise `batch`"
            }
            Ending::EnvironmentFailed | Ending::AgentFailed | Ending::Dropped => "fix the failure",
        };
        let failure = self.failure.as_ref().map(|failure| format!("\nfirst failure: {failure}")).unwrap_or_default();
        let ended = match ending {
            Ending::ContextLimit => format!("exceeded the context of {context} tokens"),
            other => format!("ended as `{other}`"),
        };
        let message = format!(
            "no demonstrations: 0 of {played} oracle episodes of `{environment}` met `success`, and {count} \
             {ended}{failure}"
        );
        RunError::user(message).with_hint(hint)
    }
}

/// Number of demonstrations that exceed the context.
fn too_long(groups: &[Vec<EpisodeRecord>]) -> u64 {
    groups.iter().flatten().filter(|record| record.ending == Ending::ContextLimit).count() as u64
}

/// Segments of these seats in the episodes that the oracle solved.
fn demonstrations(groups: &[Vec<EpisodeRecord>], seats: &[u32]) -> Vec<Segment> {
    let solved = groups.iter().flatten().filter(|record| record.success);
    let segments = solved.flat_map(|record| &record.segments);
    segments.filter(|segment| seats.contains(&segment.seat())).cloned().collect()
}

impl Session {
    pub(crate) async fn sft(&mut self, stage: &SftStage) -> Result<(), Halt> {
        let PolicySection { micro_batch_tokens, activation_checkpointing, .. } = self.file.policy;
        let settings = SftSettings { micro_batch_tokens, activation_checkpointing, ..stage.settings() };
        let mut failed = FailedDemonstrations::default();
        let mut has_warned = false;
        let mut tasks = self.tasks(&self.file.environment.train).await?;
        let progress = self.reporter.progress(Work {
            done: self.steps_done(),
            later: self.later(StagePart::Training),
            ..Work::new(format!("{}: demonstrations", stage.name), stage.steps)
        });
        while let Some(step) = self.next_training_step(stage.steps).await? {
            let tasks = tasks.take(step * u64::from(stage.batch), u64::from(stage.batch));
            let batch = Batch::of_single_episodes(Phase::Demonstration, step, tasks, Sampling::GREEDY);
            let since = Instant::now();
            let groups = self.play(&batch, None).await?;
            self.rollout.metrics().trainer_waited(since.elapsed());
            let left_out = too_long(&groups);
            let solved = groups.iter().flatten().filter(|record| record.success).count();
            // Without any demonstration, the run ends with an error that says so.
            if left_out > 0 && solved > 0 && !has_warned {
                has_warned = true;
                self.warn_of_left_out(stage, &format!("step {step}"), left_out, u64::from(stage.batch));
            }
            let message = if solved == 0 {
                failed.add(&groups);
                let at_last =
                    step + 1 == stage.steps && self.progress.current.as_ref().is_none_or(|it| it.episodes == 0);
                if failed.played() >= MAX_FAILED || at_last {
                    let name = self.rollout.plugins().environment().plugin.name();
                    return Err(failed.error(name, self.context_tokens()).into());
                }
                self.count_step(0, 0);
                self.record_step(step, &[(sft::DEMONSTRATIONS, 0.0), (sft::LEFT_OUT, left_out as f64)].into())?;
                "no demonstrations".to_owned()
            } else {
                failed = FailedDemonstrations::default();
                let span = info_span!("train", stage = stage.name, step);
                let (mut measured, tokens) = self.imitate(&groups, &settings).instrument(span).await?;
                self.count_step(solved, tokens);
                measured.push(sft::DEMONSTRATIONS, solved as f64);
                measured.push(sft::LEFT_OUT, left_out as f64);
                self.record_step(step, &measured)?;
                let loss = measured.get(sft::LOSS.name());
                loss.map_or_else(|| "no demonstrations".to_owned(), |loss| format!("loss {loss:.3}"))
            };
            let mut figures = ProgressFigures::of(message);
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

    /// Length limit of a demonstration, in tokens.
    fn context_tokens(&self) -> usize {
        self.file.limits.context_tokens.unwrap_or(usize::MAX)
    }

    /// Reports demonstrations that the stage has left out, over all of its steps.
    fn report_left_out(&self, stage: &SftStage) -> RunResult<()> {
        let lines = self.folder.reader().metrics()?;
        let of_stage = lines.iter().filter(|line| line.stage as usize == self.progress.stage);
        let left_out = of_stage.filter_map(|line| line.values.get(sft::LEFT_OUT.name())?.as_f64()).sum::<f64>() as u64;
        if left_out > 0 {
            self.warn_of_left_out(stage, "all steps", left_out, stage.steps * u64::from(stage.batch));
        }
        Ok(())
    }

    fn warn_of_left_out(&self, stage: &SftStage, when: &str, left_out: u64, of: u64) {
        self.reporter.status(&format!(
            "stage {}, {when}: {left_out} of {of} demonstrations are left out: they exceed the context of {} \
             tokens\nhint: {LONGER_CONTEXT}",
            stage.name,
            self.context_tokens()
        ));
    }

    /// Trains every trained model on its seats' demonstrations; returns the metrics and the number of tokens.
    async fn imitate(&self, groups: &[Vec<EpisodeRecord>], settings: &SftSettings) -> RunResult<(StepMetrics, usize)> {
        let _timer = self.rollout.metrics().time(WaitKind::Train);
        let (mut measured, mut tokens) = (StepMetrics::default(), 0);
        for model in self.seats.trained() {
            let segments = demonstrations(groups, &model.seats);
            let own: usize = segments.iter().map(Segment::sampled_len).sum();
            if own > 0 {
                tokens += own;
                measured.append(model.named(model.trainer.sft_step(&segments, settings).await.internal()?));
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
        let mut line = values.clone();
        line.append(self.evaluated_before(step));
        Ok(self.metrics.append(self.progress.stage as u32, step, &line)?)
    }
}
