//! A stage of supervised fine-tuning: the oracle plays, the model imitates.

use std::collections::HashMap;
use std::time::Instant;

use gymkhana_policy::Sampling;
use gymkhana_record::{Ending, EpisodeRecord, Failure, Phase, Segment};
use gymkhana_rollout::WaitKind;
use gymkhana_trainer::{SftSettings, StepMetrics};
use tracing::{Instrument, info_span};

use crate::error::{Classify, RunError, RunResult};
use crate::seats::weight_sync;
use crate::session::Session;
use crate::stages::scheduler::Batch;
use gymkhana_config::{PolicySection, SftStage};

/// A run ends when so many demonstrations in a row are none. Fewer may be chance: an environment may leave some of its
/// tasks without one.
const PATIENCE: u64 = 100;

/// Steps in a row that found nothing to imitate.
#[derive(Default)]
struct Barren {
    endings: HashMap<Ending, u64>,
    failure: Option<Failure>,
}

impl Barren {
    fn add(&mut self, groups: &[Vec<EpisodeRecord>]) {
        for record in groups.iter().flatten() {
            *self.endings.entry(record.ending).or_default() += 1;
            self.failure = self.failure.take().or_else(|| record.failures.first().cloned());
        }
    }

    fn played(&self) -> u64 {
        self.endings.values().sum()
    }

    /// Says how most demonstrations ended, and what would help.
    fn mistake(&self, environment: &str) -> RunError {
        let played = self.played();
        let commonest = self.endings.iter().max_by_key(|(_, count)| **count).map(|(ending, count)| (*ending, *count));
        let (ending, count) = commonest.unwrap_or((Ending::Dropped, 0));
        let fix = match ending {
            Ending::TurnLimit => "does it need more turns than limits.turns, or a tool that --plugins lacks?",
            Ending::ContextLimit => "raise policy.tiny.context or limits.context_tokens, or shorten policy.system",
            Ending::CallLimit => "raise limits.calls",
            Ending::EarlyStopped => "loosen limits.early_stop",
            Ending::TimeLimit => "raise limits.seconds",
            Ending::Terminated | Ending::Truncated => {
                "do --plugins give the tools that it needs, is `success` what it reaches, or do its options leave so many \
                 tasks without a demonstration that `batch` must be larger?"
            }
            Ending::EnvironmentFailed | Ending::Dropped => "see what failed",
        };
        let failure =
            self.failure.as_ref().map(|failure| format!("; the first failure: {failure}")).unwrap_or_default();
        RunError::user(format!(
            "environment `{environment}` gives nothing to imitate: none of its oracle's last {played} episodes \
             succeeded, and {count} ended with {ending:?}; {fix}{failure}"
        ))
    }
}

/// What is imitated: what these seats said in the episodes that the oracle solved.
fn demonstrations(groups: &[Vec<EpisodeRecord>], seats: &[u32]) -> Vec<Segment> {
    let solved = groups.iter().flatten().filter(|record| record.success);
    let segments = solved.flat_map(|record| &record.segments);
    segments.filter(|segment| seats.contains(&segment.seat())).cloned().collect()
}

impl Session {
    pub(crate) async fn sft(&mut self, stage: &SftStage) -> RunResult<()> {
        let PolicySection { micro_batch_tokens, activation_checkpointing, .. } = self.file.policy;
        let settings = SftSettings { micro_batch_tokens, activation_checkpointing, ..stage.settings() };
        let mut barren = Barren::default();
        let mut tasks = self.tasks(&self.file.environment.train).await?;
        let progress = self.reporter.progress(&stage.name, self.steps_done(), stage.steps);
        while let Some(step) = self.next_step(stage.steps) {
            let tasks = tasks.take(step * u64::from(stage.batch), u64::from(stage.batch));
            let batch = Batch::of_single_episodes(Phase::Demonstration, step, tasks, Sampling::GREEDY);
            let since = Instant::now();
            let groups = self.play(&batch, None).await?;
            self.rollout.metrics().trainer_waited(since.elapsed());
            let solved = groups.iter().flatten().filter(|record| record.success).count();
            let message = if solved == 0 {
                barren.add(&groups);
                let at_last =
                    step + 1 == stage.steps && self.progress.current.as_ref().is_none_or(|it| it.episodes == 0);
                if barren.played() >= PATIENCE || at_last {
                    return Err(barren.mistake(self.rollout.plugins().environment().plugin.name()));
                }
                self.count_step(0, 0);
                self.record_step(step, &[], &[("demonstrations", 0.0)])?;
                "nothing to imitate".to_owned()
            } else {
                barren = Barren::default();
                let span = info_span!("train", stage = stage.name, step);
                let (measured, tokens) = self.imitate(&groups, &settings).instrument(span).await?;
                self.count_step(solved, tokens);
                self.record_step(step, &measured, &[("demonstrations", solved as f64)])?;
                let loss = measured.iter().find(|(name, _)| name == "loss");
                loss.map_or_else(|| "nothing to imitate".to_owned(), |(_, loss)| format!("loss {loss:.3}"))
            };
            progress.at(step + 1, &message);
            if (step + 1) % stage.checkpoint_every == 0 || self.next_step(stage.steps).is_none() {
                self.checkpoint().await?;
            }
        }
        Ok(())
    }

    /// Lets every model that is trained imitate what its seats did; gives what was measured, and how many tokens there
    /// were to imitate.
    async fn imitate(&self, groups: &[Vec<EpisodeRecord>], settings: &SftSettings) -> RunResult<(StepMetrics, usize)> {
        let _timer = self.rollout.metrics().time(WaitKind::Train);
        let (mut measured, mut tokens) = (vec![], 0);
        for model in self.seats.trained() {
            let segments = demonstrations(groups, &model.seats);
            let own: usize = segments.iter().map(Segment::sampled_len).sum();
            if own > 0 {
                tokens += own;
                measured.extend(model.named(model.trainer.sft_step(&segments, settings).await.internal()?));
            }
        }
        weight_sync::follow(&self.seats, self.folder.reader().path()).await?;
        Ok((measured, tokens))
    }

    /// How many training steps the stage has taken.
    pub(crate) fn steps_done(&self) -> u64 {
        self.progress.current.as_ref().map_or(0, |current| current.step)
    }

    /// The next training step, if any is left.
    pub(crate) fn next_step(&self, steps: u64) -> Option<u64> {
        let current = self.progress.current.as_ref()?;
        Some(current.step).filter(|step| *step < steps)
    }

    /// Writes what was measured at a step.
    pub(crate) fn record_step(&mut self, step: u64, measured: &[(String, f64)], more: &[(&str, f64)]) -> RunResult<()> {
        let values: Vec<(&str, f64)> =
            measured.iter().map(|(name, value)| (name.as_str(), *value)).chain(more.iter().copied()).collect();
        Ok(self.metrics.append(self.progress.stage as u32, step, &values)?)
    }
}
