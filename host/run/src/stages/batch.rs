//! Plays batches of groups concurrently and stores each group when it finishes.

use std::sync::Arc;

use gymkhana_record::{EpisodeRecord, Phase};
use gymkhana_rollout::{FailedForks, PluginSet, SamplingPlan};
use tokio::sync::Semaphore;

use crate::seats::{SeatPolicies, weight_sync};
use crate::stages::tally::BatchFailures;
use crate::stop::Halt;
use crate::training_run::TrainingRun;
use gymkhana_config::{RlStage, RunFile, Stage};
use gymkhana_orchestration::environments::BoundEnvironment;
use gymkhana_orchestration::places::check_group;
use gymkhana_orchestration::rewards::with_nearest_name;
use gymkhana_orchestration::scheduler::{FinishedGroup, GroupBatch, GroupRunner, InFlight, Scheduler};
use gymkhana_orchestration::{Progress, ProgressFigures, SuccessRate};
use gymkhana_orchestration::{RunError, RunResult};

impl TrainingRun {
    /// Plays a batch, again while an outage lasts; returns its groups in the order of its tasks. A requested stop halts it
    /// at once: its finished episodes are stored, and a resumed run plays it again.
    pub(crate) async fn play(
        &mut self,
        mut batch: GroupBatch,
        progress: Option<&dyn Progress>,
    ) -> Result<Vec<Vec<EpisodeRecord>>, Halt> {
        let what = match batch.phase {
            Phase::Train => format!("step {}", batch.step),
            Phase::Demonstration => "these demonstrations".to_owned(),
            _ => "this evaluation".to_owned(),
        };
        let mut outage = None;
        let mut groups: Vec<Vec<EpisodeRecord>> = vec![vec![]; batch.tasks.len()];
        let mut places: Vec<usize> = (0..batch.tasks.len()).collect();
        loop {
            let (in_flight, failures) = self.play_once(&batch, progress).await?;
            let lost = in_flight.lost(self.server_failed()?);
            places.iter().zip(in_flight.into_groups()).for_each(|(&place, group)| groups[place] = group);
            if lost.is_empty() {
                weight_sync::check_interrupted(&self.seats).await?;
                if progress.is_some()
                    && let Some(last) = &failures.tally.last
                {
                    self.reporter.warn(&failures.total.described(last));
                }
                self.close_batch(failures)?;
                return Ok(groups);
            }
            let outage = outage.get_or_insert_with(|| self.begin_outage());
            self.wait_for_recovery(outage, failures, &what).await?;
            batch.first_group += batch.tasks.len() as u32;
            (places, batch.tasks) = lost.iter().map(|&lost| (places[lost], batch.tasks[lost].clone())).unzip();
        }
    }

    /// Plays a batch once.
    async fn play_once(
        &mut self,
        batch: &GroupBatch,
        progress: Option<&dyn Progress>,
    ) -> Result<(InFlight, BatchFailures), Halt> {
        // The oracle plays demonstrations, so that the server's weights may stay behind.
        if batch.phase != Phase::Demonstration {
            self.push_weights().await?;
        }
        let mut scheduler = self.scheduler(batch.plan.members(batch.group_size));
        let mut in_flight = scheduler.start(batch);
        let (mut done, mut solved) = (0, 0);
        let mut failures = BatchFailures::default();
        loop {
            let arrival = tokio::select! {
                biased;
                () = self.stop.requested() => return Err(Halt::Stopped),
                arrival = scheduler.next() => arrival,
            };
            let Some(arrival) = arrival else { break };
            let FinishedGroup { place, records, .. } = arrival?;
            for record in &records {
                self.store(record)?;
                done += 1;
                solved += u64::from(record.success);
                failures.count(record);
            }
            if let Some(progress) = progress {
                let success = Some(SuccessRate::SoFar { solved, played: done });
                let others = failures.tally.figure();
                progress.at(done, &ProgressFigures { success, others });
            }
            in_flight.arrive(place, records);
        }
        Ok((in_flight, failures))
    }

    /// A scheduler with capacity for as many episodes as this stage may have in flight.
    pub(crate) fn scheduler(&self, members: u32) -> Scheduler<SeatPolicies> {
        Scheduler::new(GroupRunner {
            rollouts: self.environments.rollouts(),
            seats: self.seats.clone(),
            seeds: self.episode_seeds(),
            stage: self.progress.stage as u32,
            guests: self.guests.handle().clone(),
            permits: Arc::new(Semaphore::new(self.in_flight(members))),
            remote: self.remote.clone(),
        })
    }

    /// Largest number of attempts at a task in a stage, before its plan adds any.
    pub(crate) fn most_attempts(&self, stage: &RlStage) -> u32 {
        let samplers = self.environments.iter().map(|environment| &environment.settings.sampler);
        samplers.map(|sampler| sampler.most_attempts(stage.group_size)).max().unwrap_or(stage.group_size)
    }

    /// Stores a finished episode.
    pub(crate) fn store(&mut self, record: &EpisodeRecord) -> RunResult<()> {
        self.episodes.append(record)?;
        record.logs.iter().for_each(|entry| self.reporter.log(record.id, entry));
        self.metrics_of_rollouts().finished(&record.failures);
        let environment = self.environments.of(record)?;
        environment.rollout.check_facts(record).map_err(|error| environment.blame(with_nearest_name(&error)))
    }

    /// Finishes a batch: counts failures, syncs the store and checks the failure limit.
    pub(crate) fn close_batch(&mut self, failures: BatchFailures) -> RunResult<()> {
        self.episodes.sync()?;
        self.report_failed_forks();
        self.judge_failures(failures)
    }

    /// Maximum number of episodes in flight: the policy's concurrency, bounded by the episodes that can have all
    /// plugins alive. Without that bound, episodes could deadlock waiting for each other's capacity.
    fn in_flight(&self, group_size: u32) -> usize {
        let most = self.places as usize / self.environments.places();
        self.file.policy.max_concurrent_sequences.max(group_size as usize).min(most)
    }

    /// Reports forks that failed and were replaced by episodes from the start.
    fn report_failed_forks(&self) {
        for environment in self.environments.iter() {
            let FailedForks { count, last } = environment.rollout.take_failed_forks();
            if count > 0 {
                self.reporter.warn(&format!(
                    "{count} forks failed, their episodes started from the beginning; last failure: {last}"
                ));
            }
        }
    }
}

/// Number of episodes that a deterministic policy generates concurrently: each seat of an episode has its own slot, by
/// the episode's index in its batch. `None` if the run is not deterministic.
pub(crate) fn deterministic_places(file: &RunFile, plugins: &PluginSet) -> RunResult<Option<usize>> {
    if !file.deterministic {
        return Ok(None);
    }
    let (slots, seats) = (file.policy.max_concurrent_sequences, plugins.seats());
    match slots / seats {
        0 => Err(RunError::user(format!(
            "policy.max_concurrent_sequences is {slots}, but deterministic = true needs one slot for each of the \
             {seats} seats of environment `{}`\nhint: raise policy.max_concurrent_sequences to {seats} or more",
            plugins.environment().plugin.name()
        ))),
        places => {
            check_plans(file, plugins)?;
            Ok(Some(places))
        }
    }
}

/// Rejects sampling plans with forks or late starts in deterministic runs with several seats: the seats of a fork would
/// take slots that other episodes wait for.
fn check_plans(file: &RunFile, plugins: &PluginSet) -> RunResult<()> {
    let plain = SamplingPlan::default().kind();
    let plans = file.stages.iter().filter_map(|stage| match stage {
        Stage::Sft(_) | Stage::BestOfN(_) => None,
        Stage::Rl(stage) => Some((&stage.name, stage.plan.kind())),
    });
    match plans.filter(|_| plugins.seats() > 1).find(|(_, kind)| *kind != plain) {
        Some((stage, kind)) => Err(RunError::user(format!(
            "stage `{stage}`: plan.kind is \"{kind}\", but deterministic = true supports only plain groups for \
             environment `{}` with {} seats\nhint: remove the plan, or set deterministic = false",
            plugins.environment().plugin.name(),
            plugins.seats()
        ))),
        None => Ok(()),
    }
}

/// Rejects stages whose groups cannot have all plugins alive in `places` instances.
pub(crate) fn check_places(stages: &[Stage], bound: &BoundEnvironment, places: u32) -> RunResult<()> {
    let sampler = &bound.settings.sampler;
    stages.iter().try_for_each(|stage| {
        let group = match stage {
            Stage::Sft(_) => 1,
            Stage::BestOfN(stage) => stage.attempts as usize,
            Stage::Rl(stage) => stage.plan.members(sampler.most_attempts(stage.group_size)) as usize,
        };
        check_group(&format!("stage `{}`", stage.name()), group, &bound.set, places)
    })
}
