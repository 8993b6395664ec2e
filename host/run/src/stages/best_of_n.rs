//! Expert iteration: a round samples attempts, keeps the best that pass a filter, and imitates them.

use gymkhana_config::{BestOfNStage, PolicySection};
use gymkhana_filter::{Episode, EpisodeNames};
use gymkhana_orchestration::scheduler::GroupBatch;
use gymkhana_orchestration::{ProgressFigures, RunError, RunResult, SuccessRate, Work};
use gymkhana_record::step_metrics::best_of_n;
use gymkhana_record::{Ending, EpisodeRecord, Phase, StepMetrics};
use gymkhana_rollout::SamplingPlan;
use gymkhana_trainer::SftSettings;
use tracing::{Instrument, info_span};

use crate::schedule::StagePart;
use crate::sources::Demonstration;
use crate::stages::groups::reward_of;
use crate::stages::replies::Replies;
use crate::stop::Halt;
use crate::training_run::TrainingRun;

impl TrainingRun {
    pub(crate) async fn best_of_n(&mut self, stage: &BestOfNStage) -> Result<(), Halt> {
        let PolicySection { micro_batch_tokens, activation_checkpointing, .. } = self.file.policy;
        let settings = SftSettings { micro_batch_tokens, activation_checkpointing, ..stage.settings() };
        let mut order = self.training_tasks().await?;
        let (first, tasks) = (self.tasks_seen_before(), u64::from(stage.tasks));
        let progress = self.reporter.progress(Work {
            done: self.steps_done(),
            later: self.later(StagePart::Training),
            ..Work::new(format!("{}: rounds", stage.name), stage.steps)
        });
        let mut was_empty = false;
        while let Some(round) = self.next_training_step(stage.steps).await? {
            order.set_dropped(&self.dropped());
            let batch = GroupBatch {
                phase: Phase::Train,
                step: round,
                tasks: order.take(first + round * tasks, tasks),
                first_group: 0,
                group_size: stage.attempts,
                sampling: stage.sampling(),
                plan: SamplingPlan::default(),
                spare: 0,
            };
            let groups = self.play(batch, None).await?;
            if round == 0 {
                check_names(stage, &groups)?;
            }
            let replies = Replies::of(groups.iter().flatten(), self.seats.own_seats(), &self.environments);
            let cut = self.cuts.step(&self.file, self.progress.stage, replies.cut_share());
            cut.iter().for_each(|warning| self.reporter.warn(warning));
            self.health.episodes(groups.iter().flatten());
            let kept: Vec<&EpisodeRecord> = groups.iter().flat_map(|group| best(stage, group)).collect();
            if kept.is_empty() && !was_empty {
                self.reporter.warn(&format!(
                    "stage {}, round {round}: none of {} attempts meets `{}`, so that nothing is learned\nhint: begin \
                     with demonstrations, use easier tasks, or raise `attempts`",
                    stage.name,
                    groups.iter().flatten().count(),
                    stage.filter.text()
                ));
            }
            was_empty = kept.is_empty();
            let span = info_span!("train", stage = stage.name, step = round);
            let (learned, tokens) = self.imitate_best(stage, round, &kept, &settings).instrument(span).await?;
            self.count_step(kept.len(), tokens);
            let figures = Figures::of(&groups, &kept);
            let mut measured = figures.metrics();
            measured.append(learned);
            measured.append(self.kept_by_environment(&groups, &kept));
            self.record_step(round, &measured)?;
            let kept = format!("{} kept", kept.len());
            let success = Some(SuccessRate::OfStep(figures.success));
            progress.at(round + 1, &ProgressFigures { success, others: vec![kept] });
            if (round + 1) % stage.checkpoint_every == 0 || round + 1 == stage.steps {
                self.checkpoint().await?;
            }
        }
        match &self.progress.current {
            Some(current) if current.episodes == 0 && !current.stopped_early => Err(nothing_kept(stage).into()),
            _ => Ok(()),
        }
    }

    /// Fine-tunes on kept attempts, in an order of the round. Returns the means of the trainer's values over the optimiser
    /// steps, and the number of tokens.
    async fn imitate_best(
        &self,
        stage: &BestOfNStage,
        round: u64,
        kept: &[&EpisodeRecord],
        settings: &SftSettings,
    ) -> RunResult<(StepMetrics, usize)> {
        let of = |record: &&EpisodeRecord| Demonstration { segments: record.segments.clone(), weight: 1.0 };
        let kept: Vec<Demonstration> = kept.iter().map(of).collect();
        let (mut steps, mut tokens) = (Vec::new(), 0);
        for epoch in 0..stage.epochs {
            let mut order: Vec<&Demonstration> = kept.iter().collect();
            let seed = self.seed.child("best-of-n").child(self.progress.stage).child(round).child(epoch);
            seed.stream().shuffle(&mut order);
            for part in order.chunks(stage.batch as usize) {
                let (measured, own) = self.imitate(&[], part, settings).await?;
                tokens += own;
                steps.push(measured);
            }
        }
        let mut measured = StepMetrics::from([(best_of_n::UPDATES, steps.len() as f64)]);
        measured.append(StepMetrics::mean(&steps));
        Ok((measured, tokens))
    }

    /// Episodes and kept ones of each environment, in a run with several.
    fn kept_by_environment(&self, groups: &[Vec<EpisodeRecord>], kept: &[&EpisodeRecord]) -> StepMetrics {
        let mut metrics = StepMetrics::default();
        for name in self.environments.iter().filter_map(|environment| environment.settings.name.as_ref()) {
            let is_own = |record: &EpisodeRecord| record.environment.as_ref() == Some(name);
            let own: Vec<EpisodeRecord> = groups.iter().flatten().filter(|record| is_own(record)).cloned().collect();
            let kept: Vec<&EpisodeRecord> = kept.iter().copied().filter(|record| is_own(record)).collect();
            if !own.is_empty() {
                metrics.append(Figures::of(&[own], &kept).metrics().of_environment(name));
            }
        }
        metrics
    }
}

/// Refuses a name in the filter that no episode has.
fn check_names(stage: &BestOfNStage, groups: &[Vec<EpisodeRecord>]) -> RunResult<()> {
    let mut seen = EpisodeNames::default();
    groups.iter().flatten().for_each(|record| seen.add(Episode { record, stage: &stage.name }));
    stage.filter.check(&seen).map_err(|unseen| {
        let message = format!("stage `{}`: `{}`: {unseen}", stage.name, stage.filter.text());
        RunError::user(message).with_hint("correct `where` in a new run")
    })
}

/// The attempts of a group that are kept: the best that pass the filter, without those that repeat the tokens of another.
fn best<'g>(stage: &BestOfNStage, group: &'g [EpisodeRecord]) -> Vec<&'g EpisodeRecord> {
    let passes = |record: &&EpisodeRecord| {
        record.ending != Ending::Dropped && stage.filter.matches(Episode { record, stage: &stage.name })
    };
    let mut passed: Vec<&EpisodeRecord> = group.iter().filter(passes).collect();
    passed.sort_by(|one, other| reward_of(other, 0).total_cmp(&reward_of(one, 0)));
    let mut kept: Vec<&EpisodeRecord> = Vec::new();
    for record in passed {
        if kept.len() < stage.keep as usize && !kept.iter().any(|known| same_tokens(known, record)) {
            kept.push(record);
        }
    }
    kept
}

fn same_tokens(one: &EpisodeRecord, other: &EpisodeRecord) -> bool {
    let pairs = one.segments.iter().zip(&other.segments);
    one.segments.len() == other.segments.len() && { pairs }.all(|(one, other)| one.tokens() == other.tokens())
}

/// The error of a stage that kept nothing in all of its rounds.
fn nothing_kept(stage: &BestOfNStage) -> RunError {
    let message = format!("stage `{}`: no attempt met `{}` in {} rounds", stage.name, stage.filter.text(), stage.steps);
    RunError::user(message)
        .with_hint("begin with demonstrations, use easier tasks, raise `attempts`, or loosen `where`")
}

/// Figures of a round.
struct Figures {
    episodes: usize,
    success: f64,
    reward: f64,
    kept: usize,
    solved_tasks: usize,
}

impl Figures {
    fn of(groups: &[Vec<EpisodeRecord>], kept: &[&EpisodeRecord]) -> Self {
        let played = || groups.iter().flatten().filter(|record| record.ending != Ending::Dropped);
        let count = played().count();
        let mean = |value: &dyn Fn(&EpisodeRecord) -> f64| played().map(value).sum::<f64>() / count.max(1) as f64;
        let mut tasks: Vec<(u64, u32)> = kept.iter().map(|record| (record.id.step, record.id.group)).collect();
        tasks.dedup();
        Self {
            episodes: count,
            success: mean(&|record| f64::from(u8::from(record.success))),
            reward: mean(&|record| reward_of(record, 0)),
            kept: kept.len(),
            solved_tasks: tasks.len(),
        }
    }

    fn metrics(&self) -> StepMetrics {
        StepMetrics::from([
            (best_of_n::REWARD, self.reward),
            (best_of_n::SUCCESS, self.success),
            (best_of_n::EPISODES, self.episodes as f64),
            (best_of_n::KEPT, self.kept as f64),
            (best_of_n::TASKS, self.solved_tasks as f64),
        ])
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{EpisodeId, Sampled, Seed, Segment, TaskRef};

    use super::*;

    fn attempt(member: u32, reward: f64, success: bool, token: u32) -> EpisodeRecord {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let mut segment = Segment::new(0);
        let (log_probs, entropies, versions) = (vec![0.0], vec![0.0], vec![0]);
        segment.append_sampled(&Sampled { tokens: vec![token], log_probs, entropies, versions }, 0).expect("one token");
        let (rewards, segments) = (vec![reward], vec![segment]);
        EpisodeRecord { rewards, segments, success, ..EpisodeRecord::new(id, task, Seed(0), Ending::Terminated) }
    }

    #[test]
    fn the_best_distinct_successes_are_kept() {
        let mut group = vec![
            attempt(0, 0.5, true, 1),
            attempt(1, 0.9, true, 2),
            attempt(2, 1.0, false, 3),
            attempt(3, 0.9, true, 2),
            attempt(4, 0.7, true, 4),
            attempt(5, 0.8, true, 5),
        ];
        group[5].ending = Ending::Dropped;
        let kept = |stage: BestOfNStage| best(&stage, &group).iter().map(|record| record.id.member).collect::<Vec<_>>();
        assert_eq!(kept(BestOfNStage::default()), [1]);
        assert_eq!(kept(BestOfNStage { keep: 5, ..BestOfNStage::default() }), [1, 4, 0]);
        let filter = gymkhana_filter::Filter::parse("reward >= 0.9").expect("a filter");
        assert_eq!(kept(BestOfNStage { keep: 5, filter, ..BestOfNStage::default() }), [2, 1]);
    }
}
