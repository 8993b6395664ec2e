//! Prefetching: plays steps ahead of the one in training, within the staleness bound.
//!
//! Step `s` starts once the weights have taken at least `s - max_staleness` training steps, and is trained on when they
//! have taken `s`. No token is therefore older than `max_staleness` steps, whatever the order in which groups finish
//! and wherever a run is resumed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gymkhana_record::step_metrics::rl;
use gymkhana_record::{Boundary, Ending, EpisodeRecord, Failure, FailureKind, Phase, Segment, StepMetrics};
use gymkhana_rollout::RolloutMetrics;
use gymkhana_waits::reminding;

use crate::seats::{SeatPolicies, weight_sync};
use crate::stages::groups::{reward_of, rewards_differ};
use crate::stages::outage::Outage;
use crate::stages::tally::BatchFailures;
use crate::stop::Halt;
use crate::training_run::TrainingRun;
use gymkhana_config::RlStage;
use gymkhana_orchestration::mixture::DroppedEnvironment;
use gymkhana_orchestration::sampler::memory::Attempts;
use gymkhana_orchestration::sampler::{SamplerState, TaskSampler};
use gymkhana_orchestration::scheduler::{FinishedGroup, GroupBatch, GroupTask, InFlight, Scheduler};
use gymkhana_orchestration::{RunError, RunResult};

/// Groups of one step.
struct StepGroups {
    in_flight: InFlight,
    /// Groups of earlier rounds with a learning signal.
    kept: Vec<Vec<EpisodeRecord>>,
    failures: BatchFailures,
    /// Attempts of all groups by their numbers, for samplers.
    attempts: BTreeMap<u32, Attempts>,
    /// Figures of all groups.
    played: PlayedFigures,
    /// Tasks of all rounds.
    tasks: Vec<GroupTask>,
    /// Number of tasks taken so far.
    taken: usize,
    /// Tasks of the groups in flight.
    round: Vec<GroupTask>,
    /// Number of groups started so far: more than tasks after an outage.
    started: usize,
    rounds: u32,
    outage: Option<Outage>,
}

/// Time after which a wait for episodes or for the trainer is reported.
const QUIET: Duration = Duration::from_secs(300);

/// Steps in flight.
pub(crate) struct Prefetcher<'a> {
    stage: &'a RlStage,
    tasks: TaskSampler,
    /// Number of tasks that earlier stages used.
    seen: u64,
    /// Turn limit of each environment.
    most_turns: Vec<u32>,
    /// Sets of trained seats whose rewards are compared.
    compared: Vec<Vec<u32>>,
    /// Seats that the run's policy plays.
    own_seats: Vec<u32>,
    scheduler: Scheduler<SeatPolicies>,
    /// Next step to start.
    next: u64,
    steps: BTreeMap<u64, StepGroups>,
}

impl<'a> Prefetcher<'a> {
    pub fn new(
        session: &TrainingRun,
        stage: &'a RlStage,
        tasks: TaskSampler,
        seen: u64,
        compared: Vec<Vec<u32>>,
    ) -> Self {
        Self {
            stage,
            tasks,
            seen,
            most_turns: session
                .environments
                .iter()
                .map(|environment| environment.settings.rules.limits.turns)
                .collect(),
            compared,
            own_seats: session.seats.own_seats().to_vec(),
            scheduler: session.scheduler(stage.plan.members(session.most_attempts(stage))),
            next: session.steps_done(),
            steps: BTreeMap::new(),
        }
    }

    /// Starts the steps allowed once the weights have taken `done` steps. The dropped environments have no part in them.
    pub fn begin(&mut self, done: u64, dropped: &[DroppedEnvironment]) {
        self.tasks.set_dropped(dropped);
        while self.next <= done + u64::from(self.stage.max_staleness) && self.next < self.stage.steps {
            let tasks = self.draw(self.next);
            let taken = (self.stage.groups + self.stage.oversample_groups) as usize;
            let step = StepGroups {
                in_flight: InFlight::empty(),
                kept: vec![],
                failures: BatchFailures::default(),
                attempts: BTreeMap::new(),
                played: PlayedFigures::default(),
                round: tasks[..taken].to_vec(),
                tasks,
                taken,
                started: 0,
                rounds: 0,
                outage: None,
            };
            self.steps.insert(self.next, step);
            self.start_round(self.next, self.stage.oversample_groups);
            self.next += 1;
        }
    }

    /// The tasks of all rounds of a step.
    fn draw(&mut self, step: u64) -> Vec<GroupTask> {
        let stage = self.stage;
        let position = self.seen + step * stage.tasks_of_step();
        let later = vec![stage.groups; stage.dynamic_sampling.max_rounds as usize];
        let rounds = [vec![stage.groups + stage.oversample_groups], later].concat();
        let mut tasks = self.tasks.draw(step, position, &rounds, stage.group_size);
        for task in &mut tasks {
            let Some(most) = self.most_turns.get(task.environment) else { continue };
            let scheduled = stage.turns.map(|schedule| schedule.at(step, *most));
            task.turns = turn_limit(*most, scheduled, task.turns);
        }
        tasks
    }

    /// Starts the groups of a step's current round, of which `spare` are cancelled once the others have finished.
    fn start_round(&mut self, number: u64, spare: u32) {
        let Some(step) = self.steps.get_mut(&number) else { return };
        let batch = GroupBatch {
            phase: Phase::Train,
            step: number,
            tasks: step.round.clone(),
            first_group: u32::try_from(step.started).unwrap_or(u32::MAX),
            group_size: self.stage.group_size,
            sampling: self.stage.sampling(),
            plan: self.stage.plan.clone(),
            spare,
        };
        step.started += step.round.len();
        step.in_flight = self.scheduler.start(&batch);
    }

    /// Takes the groups that an outage has lost out of a step whose groups have all finished, with the failures and the
    /// outage. [`Self::start_again`] must follow.
    fn take_lost(&mut self, number: u64, server_failed: bool) -> Option<(BatchFailures, Option<Outage>)> {
        let step = self.steps.get_mut(&number)?;
        if step.in_flight.missing() > 0 {
            return None;
        }
        let lost = step.in_flight.lost(server_failed);
        if lost.is_empty() {
            return None;
        }
        step.round = lost.iter().map(|&place| step.round[place].clone()).collect();
        let sound = std::mem::replace(&mut step.in_flight, InFlight::empty()).into_groups();
        let (stage, compared) = (self.stage, &self.compared);
        step.kept.extend(usable(sound).filter(|group| !group.is_empty() && learns_from(stage, compared, group)));
        Some((std::mem::take(&mut step.failures), step.outage.take()))
    }

    /// Plays the lost groups of a step again.
    fn start_again(&mut self, number: u64, outage: Outage) {
        if let Some(step) = self.steps.get_mut(&number) {
            step.outage = Some(outage);
        }
        self.start_round(number, 0);
    }

    /// Reports whether the group's step still needs it: not a group of an earlier round that was cancelled too late.
    fn awaits(&self, arrival: &FinishedGroup) -> bool {
        let Some(step) = self.steps.get(&arrival.step) else { return false };
        let first = step.started - step.round.len();
        let is_of_round = arrival.records.first().is_some_and(|record| record.id.group as usize >= first);
        is_of_round && step.in_flight.missing() > 0
    }

    /// Reports whether the step learns from a group: not from one of equal rewards, which dynamic sampling replaces.
    fn learns_from(&self, group: &[EpisodeRecord]) -> bool {
        learns_from(self.stage, &self.compared, group)
    }

    /// Adds a finished group. After the last group of a round, zero-variance groups are replaced by groups of other
    /// tasks, up to the stage's number of rounds.
    fn arrive(&mut self, arrival: FinishedGroup) {
        let Some(step) = self.steps.get_mut(&arrival.step) else { return };
        for record in &arrival.records {
            step.failures.count(record);
            step.played.add(record, &self.own_seats);
        }
        if let (Some(first), Some(attempts)) = (arrival.records.first(), Attempts::of(&arrival.records)) {
            step.attempts.insert(first.id.group, attempts);
        }
        step.in_flight.arrive(arrival.place, arrival.records);
        let is_last = step.rounds >= self.stage.dynamic_sampling.max_rounds;
        if step.in_flight.missing() > 0 || is_last || !step.in_flight.lost(false).is_empty() {
            return;
        }
        let nothing = InFlight::empty();
        let groups = std::mem::replace(&mut step.in_flight, nothing).into_groups();
        step.kept.extend(usable(groups).filter(|group| rewards_differ(&group.iter(), &self.compared)));
        step.rounds += 1;
        let missing = (self.stage.groups as usize).saturating_sub(step.kept.len());
        let begin = step.taken;
        step.taken += missing;
        if missing > 0 {
            step.round = step.tasks[begin..step.taken].to_vec();
            self.start_round(arrival.step, self.stage.oversample_groups);
        }
    }

    /// A complete step. Samplers remember its attempts from here on.
    fn take(&mut self, step: u64) -> Option<PlayedStep> {
        if self.steps.get(&step)?.in_flight.missing() > 0 {
            return None;
        }
        let StepGroups { in_flight, mut kept, failures, attempts, played, .. } = self.steps.remove(&step)?;
        self.tasks.observe(step, &attempts.into_values().collect::<Vec<_>>());
        kept.extend(usable(in_flight.into_groups()).filter(|group| self.learns_from(group)));
        let metrics = played.metrics(self.stage.dynamic_sampling.max_rounds > 0);
        Some(PlayedStep { groups: kept, failures, metrics })
    }

    /// State of the samplers, which belongs to the steps taken so far.
    pub fn sampler_state(&self) -> SamplerState {
        self.tasks.state()
    }

    /// Figures of the samplers.
    pub fn sampler_metrics(&self) -> StepMetrics {
        self.tasks.metrics()
    }
}

/// Reports whether a stage learns from a group, by the rewards of the compared seats.
fn learns_from(stage: &RlStage, compared: &[Vec<u32>], group: &[EpisodeRecord]) -> bool {
    let usable = group.iter().filter(|record| is_usable(record));
    stage.dynamic_sampling.max_rounds == 0 || rewards_differ(&usable, compared)
}

/// The turn limit of a group: the least of the stage's schedule, the sampler's limit and `limits.turns`; `None` for the last
/// alone.
fn turn_limit(most: u32, scheduled: Option<u32>, sampled: Option<u32>) -> Option<u32> {
    [scheduled, sampled].into_iter().flatten().min().map(|turns| turns.min(most))
}

/// Groups without dropped and unselected episodes.
fn usable(groups: Vec<Vec<EpisodeRecord>>) -> impl Iterator<Item = Vec<EpisodeRecord>> {
    groups.into_iter().map(|mut group| {
        group.retain(is_usable);
        group
    })
}

fn is_usable(record: &EpisodeRecord) -> bool {
    record.ending != Ending::Dropped && record.selected
}

/// A step whose groups are complete.
struct PlayedStep {
    groups: Vec<Vec<EpisodeRecord>>,
    failures: BatchFailures,
    /// Figures over all episodes.
    metrics: StepMetrics,
}

/// Sums over the episodes that a step played, also those of groups that it did not learn from.
#[derive(Debug, Clone, Default)]
struct PlayedFigures {
    episodes: f64,
    reward: f64,
    solved: f64,
    dropped: f64,
    /// Failures by owner and kind.
    failures: Vec<(Boundary, FailureKind, f64)>,
}

impl PlayedFigures {
    fn add(&mut self, record: &EpisodeRecord, own_seats: &[u32]) {
        for Failure { at, kind, .. } in &record.failures {
            match self.failures.iter_mut().find(|(known, of, _)| known == at && of == kind) {
                Some((.., count)) => *count += 1.0,
                None => self.failures.push((at.clone(), *kind, 1.0)),
            }
        }
        if record.ending == Ending::Dropped {
            self.dropped += 1.0;
            return;
        }
        let reward: f64 = own_seats.iter().map(|seat| reward_of(record, *seat)).sum();
        self.episodes += 1.0;
        self.reward += reward / own_seats.len().max(1) as f64;
        self.solved += f64::from(u8::from(record.success));
    }

    /// Means over all episodes only if they differ from those that the step learns from.
    fn metrics(self, differ: bool) -> StepMetrics {
        let mut metrics = StepMetrics::from([(rl::DROPPED, self.dropped)]);
        if differ {
            let episodes = self.episodes.max(1.0);
            metrics.push(rl::PLAYED_REWARD, self.reward / episodes);
            metrics.push(rl::PLAYED_SUCCESS, self.solved / episodes);
        }
        for (at, kind, count) in self.failures {
            metrics.append(StepMetrics::from([(rl::FAILED_CALLS, count)]).of_failures(&at, kind));
        }
        metrics
    }
}

impl TrainingRun {
    /// Waits for a complete step and stores all groups that finish in the meantime. A requested stop waits too, but not
    /// for workers that are not there: a resumed run plays the step again.
    pub(crate) async fn await_step(
        &mut self,
        prefetcher: &mut Prefetcher<'_>,
        step: u64,
    ) -> Result<(Vec<Vec<EpisodeRecord>>, StepMetrics), Halt> {
        loop {
            if let Some((failures, outage)) = prefetcher.take_lost(step, self.server_failed()?) {
                let mut outage = outage.unwrap_or_else(|| self.begin_outage());
                self.wait_for_recovery(&mut outage, failures, &format!("step {step}")).await?;
                prefetcher.start_again(step, outage);
            }
            if let Some(PlayedStep { groups, failures, metrics }) = prefetcher.take(step) {
                weight_sync::check_interrupted(&self.seats).await?;
                self.close_batch(failures)?;
                return Ok((groups, metrics));
            }
            let since = Instant::now();
            let arrival = tokio::select! {
                biased;
                arrival = reminding(QUIET, prefetcher.scheduler.next(), |waited| {
                    self.reporter.status(&format!("step {step} has waited {} s for its episodes", waited.as_secs()));
                }) => arrival,
                () = self.stopped_without_workers() => {
                    self.reporter.status(&format!("no worker plays: step {step} is given up"));
                    return Err(Halt::Stopped);
                }
            };
            self.metrics_of_rollouts().trainer_waited(since.elapsed());
            match arrival {
                Some(arrival) => self.accept(prefetcher, arrival?)?,
                None => return Err(RunError::internal(format!("step {step} was never begun")).into()),
            }
        }
    }

    /// Waits until a stop is requested and no worker plays. Episodes of this process end by themselves.
    async fn stopped_without_workers(&self) {
        let Some(remote) = &self.remote else { return std::future::pending().await };
        self.stop.requested().await;
        remote.until_unplayed().await;
    }

    /// Stores finished groups while `work` runs.
    pub(crate) async fn meanwhile<T>(
        &mut self,
        prefetcher: &mut Prefetcher<'_>,
        work: impl Future<Output = T>,
    ) -> RunResult<T> {
        let reporter = Arc::clone(&self.reporter);
        let mut work = pin!(reminding(QUIET, work, |waited| {
            reporter.status(&format!("the trainer has computed for {} s", waited.as_secs()));
        }));
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                Some(arrival) = prefetcher.scheduler.next() => self.accept(prefetcher, arrival?)?,
            }
        }
    }

    /// Stores a group and adds it to its step. A late oversampled group is recorded as unselected.
    fn accept(&mut self, prefetcher: &mut Prefetcher<'_>, mut arrival: FinishedGroup) -> RunResult<()> {
        let awaited = prefetcher.awaits(&arrival);
        let learnt = awaited && prefetcher.learns_from(&arrival.records);
        for record in &mut arrival.records {
            record.selected &= learnt;
            self.store(record)?;
        }
        if awaited {
            prefetcher.arrive(arrival);
        }
        Ok(())
    }
}

/// Number of sampled tokens in a step by staleness in training steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Staleness(BTreeMap<u32, u64>);

impl Staleness {
    /// Counts the tokens of all trained models, each by its own weight version.
    pub fn of(groups: &[Vec<EpisodeRecord>], seats: &SeatPolicies) -> Self {
        let mut tokens = BTreeMap::new();
        for model in seats.trained() {
            let now = model.trainer.weight_version();
            let segments = groups.iter().flatten().flat_map(|record| &record.segments);
            for segment in segments.filter(|segment| model.seats.contains(&segment.seat())) {
                for version in sampled_versions(segment) {
                    *tokens.entry(now.saturating_sub(version)).or_default() += 1;
                }
            }
        }
        Self(tokens)
    }

    /// Maximum staleness.
    pub fn most(&self) -> u32 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }

    /// Mean staleness over all sampled tokens.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|(steps, tokens)| f64::from(*steps) * *tokens as f64).sum();
        sum / self.0.values().sum::<u64>().max(1) as f64
    }

    /// Adds every token to the metrics.
    pub fn report(&self, metrics: &RolloutMetrics) {
        for (steps, tokens) in &self.0 {
            metrics.record_staleness(*steps, *tokens);
        }
    }
}

fn sampled_versions(segment: &Segment) -> impl Iterator<Item = u32> {
    segment.versions().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled).map(|(version, _)| *version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `limits.turns` is 6: neither a schedule nor a sampler lifts it, and the shorter of both counts.
    #[test]
    fn no_turn_limit_is_above_that_of_the_run() {
        for (scheduled, sampled, expected) in [
            (None, None, None),
            (None, Some(12), Some(6)),
            (None, Some(4), Some(4)),
            (Some(3), Some(12), Some(3)),
            (Some(5), Some(4), Some(4)),
        ] {
            assert_eq!(turn_limit(6, scheduled, sampled), expected);
        }
    }
}
