//! Reinforcement-learning stage: play groups, compute advantages, update.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_record::step_metrics::{failures_of, rl};
use gymkhana_record::{EpisodeRecord, Segment, StepMetrics};
use gymkhana_rollout::WaitKind;
use gymkhana_trainer::{RlData, RlSettings};
use tracing::{Instrument, info_span};

use crate::schedule::StagePart;
use crate::seats::SeatPolicies;
use crate::seats::weight_sync::{self, UpdateError};
use crate::stages::demonstrations::{FailedDemonstrations, MAX_FAILED, demonstrations, solved};
use crate::stages::groups::{compared_seats, reward_of};
use crate::stages::pipeline::{Prefetcher, Staleness};
use crate::stages::replies::{Replies, is_cut};
use crate::stages::tally::failed_figure;
use crate::stages::watch::{SignalWatch, StepSignal, has_signal};
use crate::stop::Halt;
use crate::training_run::TrainingRun;
use gymkhana_config::{EnvironmentEntry, PolicySection, RlStage};
use gymkhana_orchestration::environments::Environments;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_orchestration::{ProgressFigures, SuccessRate, Work};

impl TrainingRun {
    pub(crate) async fn rl(&mut self, stage: &RlStage) -> Result<(), Halt> {
        let max_divergence = self.file.policy.max_behaviour_divergence;
        let of_models = self.settings_of_models(stage)?;
        let algorithm = stage.settings().user_error()?.algorithm;
        let tasks = self.sampled_tasks().await?;
        self.push_weights().await?;
        let compared = compared_seats(&self.seats.trained_seats(), algorithm.group_by);
        let mut prefetcher = Prefetcher::new(self, stage, tasks, self.tasks_seen_before(), compared.clone());
        let progress = self.reporter.progress(Work {
            done: self.steps_done(),
            later: self.later(StagePart::Training),
            ..Work::new(format!("{}: training", stage.name), stage.steps)
        });
        let mut failed = FailedDemonstrations::default();
        let mut watch = SignalWatch::new(&algorithm);
        while let Some(step) = self.next_training_step(stage.steps).await? {
            let since = Instant::now();
            prefetcher.begin(step, &self.dropped());
            let (mut groups, of_all) = self.await_step(&mut prefetcher, step).await?;
            let shown = self.demonstrate(stage, step, &mut failed).await?;
            let played = since.elapsed().as_secs_f64();
            let figures = Figures::of(&groups.iter().flatten(), self.seats.own_seats(), &self.environments);
            let by_environment = self.by_environment(&groups);
            let rewards = seat_rewards(&groups, &self.seats.seats);
            let signal = of_models.iter().any(|own| has_signal(&groups, &compared, &own.algorithm));
            let cut = self.cuts.step(&self.file, self.progress.stage, figures.cut_replies);
            let format = self.environments.first().rollout.chat().tool_format();
            let unread = self.call_watch.step(format, groups.iter().flatten());
            cut.iter().chain(&unread).for_each(|warning| self.reporter.warn(warning));
            self.health.episodes(groups.iter().flatten());
            if stage.shuffle_rewards {
                self.shuffle_rewards(step, &mut groups);
            }
            let since = Instant::now();
            let staleness = Staleness::of(&groups, &self.seats);
            staleness.report(self.metrics_of_rollouts());
            let most = staleness.most();
            if most > stage.max_staleness {
                let message = format!("step {step} holds tokens with a staleness of {most} steps, above max_staleness");
                return Err(RunError::internal(message).into());
            }
            let seats = self.seats.clone();
            let environments = self.environments.clone();
            let metrics = Arc::clone(self.metrics_of_rollouts());
            let timer = metrics.time(WaitKind::Train);
            let span = info_span!("train", stage = stage.name, step);
            let run = self.folder.reader().path().to_owned();
            let learning = async {
                let learner = stage.learner(step, of_models.len());
                let data = StepData { groups: &groups, shown: &shown, environments: &environments, learner };
                let measured = learn(&seats, data, &of_models, max_divergence).instrument(span).await?;
                // Episodes in flight and the next step sample with the new weights.
                let pushed = if step + 1 < stage.steps { weight_sync::update(&seats, &run).await } else { Ok(()) };
                match pushed {
                    // The step counts before the run waits for the server.
                    Ok(()) | Err(UpdateError::Silent(_)) => Ok(measured),
                    Err(UpdateError::Failed(error)) => Err(error),
                }
            };
            let mut measured = self.meanwhile::<RunResult<_>>(&mut prefetcher, learning).await??;
            drop(timer);
            let signal = StepSignal { differs: signal, updated: measured.has_update(), solved: figures.success >= 1.0 };
            watch.observe(&stage.name, signal).iter().for_each(|warning| self.reporter.warn(warning));
            let trained = since.elapsed().as_secs_f64();
            self.count_step(figures.episodes, self.trained_tokens(&groups));
            self.progress.sampler = prefetcher.sampler_state();
            measured.append(prefetcher.sampler_metrics());
            measured.append(rewards);
            if stage.demonstrations.is_some() {
                measured.push(rl::DEMONSTRATIONS, solved(&shown) as f64);
            }
            measured.append(figures.metrics());
            let dropped = of_all.get(rl::DROPPED.name()).unwrap_or(0.0) as u64;
            let causes = of_all.iter().filter_map(|(name, count)| Some((failures_of(name)?, count as u64)));
            let mut others = failed_figure(figures.failures as u64 + dropped, dropped, causes);
            measured.append(of_all);
            measured.append(by_environment);
            measured.append(StepMetrics::from([
                (rl::STALENESS_MAX, f64::from(most)),
                (rl::STALENESS_MEAN, staleness.mean()),
                (rl::SECONDS_PLAY, played),
                (rl::SECONDS_TRAIN, trained),
            ]));
            self.record_step(step, &measured)?;
            let rate = figures.tokens as f64 / played;
            others.extend([format!("reward {:.3}", figures.reward), format!("{rate:.0} tokens/s")]);
            progress.at(step + 1, &ProgressFigures { success: Some(SuccessRate::OfStep(figures.success)), others });
            if step + 1 < stage.steps {
                self.push_weights().await?;
            }
            if (step + 1) % stage.checkpoint_every == 0 || step + 1 == stage.steps {
                self.checkpoint().await?;
            }
        }
        Ok(())
    }

    /// Settings of the trained models, in their order.
    pub(super) fn settings_of_models(&self, stage: &RlStage) -> RunResult<Vec<RlSettings>> {
        let PolicySection { micro_batch_tokens, activation_checkpointing, .. } = self.file.policy;
        let of_environment = |own: &EnvironmentEntry| (own.name.clone(), own.advantage.clone());
        let models = self.seats.trained().map(|model| {
            let settings = self.file.settings_of_model(stage, model.seat_name()).user_error()?;
            Ok(RlSettings {
                micro_batch_tokens,
                activation_checkpointing,
                environments: self.file.environments.iter().map(of_environment).collect(),
                seats: Some(model.seats.clone()),
                ..settings
            })
        });
        models.collect()
    }

    /// Episodes by the oracle for the supervised loss of a step; none without one, or if its weight is 0. Their tasks begin
    /// with those of the step's groups.
    async fn demonstrate(
        &mut self,
        stage: &RlStage,
        step: u64,
        failed: &mut FailedDemonstrations,
    ) -> Result<Vec<Vec<EpisodeRecord>>, Halt> {
        let wanted = stage.demonstrations.filter(|demonstrations| demonstrations.weight_at(step) > 0.0);
        let Some(demonstrations) = wanted else { return Ok(Vec::new()) };
        let count = u64::from(demonstrations.batch);
        let first = self.tasks_seen_before() + step * stage.tasks_of_step();
        let tasks = self.demonstration_tasks().await?.take(first, count);
        let shown = self.play_oracle(step, tasks).await?;
        if solved(&shown) > 0 {
            *failed = FailedDemonstrations::default();
            return Ok(shown);
        }
        failed.add(&shown);
        if failed.played() >= MAX_FAILED {
            return Err(self.no_demonstrations(failed).into());
        }
        Ok(shown)
    }

    /// Number of tokens sampled by trained models.
    pub(super) fn trained_tokens(&self, groups: &[Vec<EpisodeRecord>]) -> usize {
        let seats = self.seats.trained_seats().concat();
        let segments = groups.iter().flatten().flat_map(|record| &record.segments);
        let trained = segments.filter(|segment| seats.contains(&segment.seat()));
        trained.map(Segment::sampled_len).sum()
    }

    /// Figures of each environment, in a run with several.
    fn by_environment(&self, groups: &[Vec<EpisodeRecord>]) -> StepMetrics {
        let mut metrics = StepMetrics::default();
        for name in self.environments.iter().filter_map(|environment| environment.settings.name.as_ref()) {
            let own = groups.iter().flatten().filter(|record| record.environment.as_ref() == Some(name));
            let figures = Figures::of(&own, self.seats.own_seats(), &self.environments);
            // Means over no episode would be shown as 0.
            if figures.episodes > 0 {
                metrics.append(figures.metrics().of_environment(name));
            }
        }
        metrics
    }

    /// Control experiment: exchanges rewards between the episodes of the batch.
    fn shuffle_rewards(&self, step: u64, groups: &mut [Vec<EpisodeRecord>]) {
        let mut rewards: Vec<Vec<f64>> = groups.iter().flatten().map(|record| record.rewards.clone()).collect();
        self.seed.child("shuffle").child(self.progress.stage).child(step).stream().shuffle(&mut rewards);
        for (record, rewards) in groups.iter_mut().flatten().zip(rewards) {
            record.rewards = rewards;
            // Per-turn rewards would reveal the true ones.
            record.turn_rewards.iter_mut().chain(&mut record.turn_gains).for_each(|turns| turns.fill(0.0));
        }
    }
}

/// Episodes of a step: those of the policy, and those of the oracle.
pub(super) struct StepData<'a> {
    pub groups: &'a [Vec<EpisodeRecord>],
    pub shown: &'a [Vec<EpisodeRecord>],
    pub environments: &'a Environments,
    /// Place of the trained model that learns; all of them do if there is none.
    pub learner: Option<usize>,
}

/// Trains the models that learn in this step on their seats, with their settings of `of_models`; returns the metrics. A divergence from the
/// behaviour policy above `max_divergence` is an error.
pub(super) async fn learn(
    seats: &SeatPolicies,
    StepData { groups, shown, environments, learner }: StepData<'_>,
    of_models: &[RlSettings],
    max_divergence: f64,
) -> RunResult<StepMetrics> {
    let mut measured = StepMetrics::default();
    let learns = |(place, _): &(usize, _)| learner.is_none_or(|learner| learner == *place);
    for (_, (model, settings)) in seats.trained().zip(of_models).enumerate().filter(learns) {
        let own = demonstrations(shown, &model.seats);
        let has_tokens = own.iter().any(|segment| segment.sampled_len() > 0);
        let demonstrations = if has_tokens { &own[..] } else { &[] };
        let data = RlData { groups, demonstrations, is_cut: &|record, reply| is_cut(environments, record, reply) };
        let own = model.trainer.rl_step(data, settings).await?;
        check_divergence(&own, max_divergence)?;
        measured.append(model.named(own));
    }
    Ok(measured)
}

/// Rejects a step whose tokens were sampled by a policy that differs from the trainer's with the same weights.
fn check_divergence(measured: &StepMetrics, limit: f64) -> RunResult<()> {
    match measured.get(rl::ON_POLICY_DIVERGENCE.name()) {
        Some(found) if found.is_nan() || found > limit => Err(RunError::user(format!(
            "the policy that generates differs from the trainer: the divergence of tokens sampled with the trainer's \
             own weights is {found:.3} nats per token, above policy.max_behaviour_divergence = {limit}\nhint: check the \
             server's weights, its number format and policy.server.logprobs; to accept the difference, set a larger \
             policy.max_behaviour_divergence in a new run"
        ))),
        _ => Ok(()),
    }
}

/// Mean reward of each seat; empty for a single seat.
fn seat_rewards(groups: &[Vec<EpisodeRecord>], seats: &[String]) -> StepMetrics {
    let mut rewards = StepMetrics::default();
    if seats.len() > 1 {
        for (seat, name) in (0..).zip(seats) {
            let mean = mean(groups.iter().flatten(), |record| reward_of(record, seat));
            rewards.append(StepMetrics::from([(rl::SEAT_REWARD, mean)]).of_seat(name));
        }
    }
    rewards
}

/// Mean over episodes.
pub(super) fn mean<'a>(records: impl Iterator<Item = &'a EpisodeRecord>, value: impl Fn(&EpisodeRecord) -> f64) -> f64 {
    let values: Vec<f64> = records.map(value).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Share of the episodes that a limit cut short.
fn cut_short<'a>(records: impl Iterator<Item = &'a EpisodeRecord>) -> f64 {
    mean(records, |record| f64::from(u8::from(record.ending.is_cut_short())))
}

/// Statistics of a step's episodes.
struct Figures {
    episodes: usize,
    tokens: usize,
    failures: usize,
    /// Mean over episodes and the policy's own seats.
    reward: f64,
    success: f64,
    /// Mean over the replies of the policy's own seats.
    reply_tokens: f64,
    /// Mean over these replies.
    thought_tokens: f64,
    /// Share of these replies.
    cut_replies: f64,
    /// Share of the episodes.
    cut_short: f64,
    /// Without malformed ones.
    calls: f64,
    malformed_calls: f64,
}

impl Figures {
    fn of<'a>(
        records: &(impl Iterator<Item = &'a EpisodeRecord> + Clone),
        own_seats: &[u32],
        environments: &Environments,
    ) -> Self {
        let records = || records.clone();
        let replies = Replies::of(records(), own_seats, environments);
        let own_reward = |record: &EpisodeRecord| own_seats.iter().map(|seat| reward_of(record, *seat)).sum::<f64>();
        Self {
            episodes: records().count(),
            tokens: records().map(EpisodeRecord::sampled_tokens).sum(),
            failures: records().filter(|record| !record.failures.is_empty()).count(),
            reward: mean(records(), own_reward) / own_seats.len().max(1) as f64,
            reply_tokens: replies.tokens as f64 / replies.count.max(1) as f64,
            thought_tokens: replies.thoughts as f64 / replies.count.max(1) as f64,
            cut_replies: replies.cut_share(),
            success: mean(records(), |record| f64::from(u8::from(record.success))),
            cut_short: cut_short(records()),
            calls: mean(records(), |record| (record.calls() - record.malformed_calls()) as f64),
            malformed_calls: mean(records(), |record| record.malformed_calls() as f64),
        }
    }

    fn metrics(&self) -> StepMetrics {
        StepMetrics::from([
            (rl::REWARD, self.reward),
            (rl::SUCCESS, self.success),
            (rl::EPISODES, self.episodes as f64),
            (rl::SAMPLED_TOKENS, self.tokens as f64),
            (rl::REPLY_TOKENS, self.reply_tokens),
            (rl::THOUGHT_TOKENS, self.thought_tokens),
            (rl::CUT_REPLIES, self.cut_replies),
            (rl::CUT_SHORT, self.cut_short),
            (rl::CALLS, self.calls),
            (rl::MALFORMED_CALLS, self.malformed_calls),
            (rl::FAILURES, self.failures as f64),
        ])
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Ending, EpisodeId, Phase, Seed, TaskRef};

    use super::*;

    /// A turn limit of the run and the environment's own limit cut two of five episodes short.
    #[test]
    fn episodes_that_a_limit_ended_were_cut_short() {
        let endings = [Ending::Terminated, Ending::Truncated, Ending::TurnLimit, Ending::EnvironmentFailed];
        let record = |(member, ending)| {
            let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member, attempt: 0 };
            EpisodeRecord::new(id, TaskRef { split: "train".to_owned(), index: 0 }, Seed(0), ending)
        };
        let groups: [Vec<EpisodeRecord>; 2] =
            [(0..).zip(endings).map(record).collect(), vec![record((0, Ending::Terminated))]];
        let records = groups.iter().flatten();
        assert!((cut_short(records) - 0.4).abs() < 1e-12);
        assert_eq!(cut_short([].iter()), 0.0);
    }

    #[test]
    fn divergences_above_the_limit_are_refused_with_both_numbers() {
        let of = |divergence| StepMetrics::from([(rl::ON_POLICY_DIVERGENCE, divergence)]);
        for accepted in [StepMetrics::default(), of(0.0), of(0.1)] {
            assert!(check_divergence(&accepted, 0.1).is_ok(), "{accepted:?}");
        }
        for refused in [0.25, f64::INFINITY, f64::NAN] {
            assert!(check_divergence(&of(refused), 0.1).is_err(), "{refused}");
        }
        let message = check_divergence(&of(42.5), 0.1).unwrap_err().to_string();
        assert!(message.contains("is 42.500 nats per token, above policy.max_behaviour_divergence = 0.1"), "{message}");
    }
}
