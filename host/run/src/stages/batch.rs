//! Plays many groups side by side and stores each as soon as it is finished.

use std::sync::Arc;

use gymkhana_record::{EpisodeId, EpisodeRecord, Failure};
use gymkhana_rollout::{FailedForks, PluginSet, SamplingPlan};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::error::{RunError, RunResult};
use crate::report::Progress;
use crate::session::Session;
use crate::stages::scheduler::{Batch, FinishedGroup, Player, Scheduler};
use gymkhana_config::{RunFile, Stage};

/// The share of failures is judged from so many episodes on.
const ENOUGH: u64 = 20;

/// How many episodes met a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Failures {
    failed: u64,
    played: u64,
}

impl Failures {
    pub fn count(&mut self, record: &EpisodeRecord) {
        self.failed += u64::from(!record.failures.is_empty());
        self.played += 1;
    }

    fn add(&mut self, more: Self) {
        self.failed += more.failed;
        self.played += more.played;
    }

    /// Refuses more than this share, where these are all.
    pub fn judge(self, limit: f64, last: Option<LastFailure>) -> RunResult<()> {
        if self.exceed(limit) { Err(self.too_many("episodes", limit, last)) } else { Ok(()) }
    }

    /// That these are more than this share of the episodes that `of` tells.
    fn too_many(self, of: &str, limit: f64, last: Option<LastFailure>) -> RunError {
        let Self { failed, played } = self;
        let last = last.map(|(id, failure)| format!("; the last, in episode {id}: {failure}"));
        RunError::user(format!(
            "{failed} of {played} {of} met a failure, more than failures.limit = {limit} allows{}",
            last.unwrap_or_default()
        ))
    }

    /// Whether these are more than this share, of enough episodes to say so.
    fn exceed(self, limit: f64) -> bool {
        self.played >= ENOUGH && self.failed as f64 > limit * self.played as f64
    }
}

/// A failure and the episode that met it.
pub(crate) type LastFailure = (EpisodeId, Failure);

/// The last failure that an episode met, if any.
pub(crate) fn last_failure(record: &EpisodeRecord) -> Option<LastFailure> {
    Some((record.id, record.failures.last()?.clone()))
}

impl Session {
    /// Plays a batch; its groups come back in the order of its tasks.
    pub(crate) async fn play(
        &mut self,
        batch: &Batch,
        progress: Option<&dyn Progress>,
    ) -> RunResult<Vec<Vec<EpisodeRecord>>> {
        let mut flights = self.flights(batch.plan.members(batch.group_size));
        let mut flight = flights.start(batch);
        let (mut done, mut solved) = (0, 0);
        let (mut failures, mut last) = (Failures::default(), None);
        while let Some(arrival) = flights.next().await {
            let FinishedGroup { place, records, .. } = arrival?;
            for record in &records {
                self.keep(record)?;
                done += 1;
                solved += u64::from(record.success);
                failures.count(record);
                last = last_failure(record).or(last);
            }
            if let Some(progress) = progress {
                progress.at(done, &format!("success {:.1} %", 100.0 * solved as f64 / done as f64));
            }
            flight.arrive(place, records);
        }
        self.close_batch(failures, last)?;
        Ok(flight.into_groups())
    }

    /// A place for groups in flight, with room for as many episodes as this stage may have.
    pub(crate) fn flights(&self, members: u32) -> Scheduler {
        Scheduler::new(Player {
            rollout: Arc::clone(&self.rollout),
            seats: self.seats.clone(),
            seeds: self.episode_seeds(),
            stage: self.progress.stage as u32,
            room: Arc::new(Semaphore::new(self.in_flight(members))),
        })
    }

    /// Stores an episode as soon as it is finished.
    pub(crate) fn keep(&mut self, record: &EpisodeRecord) -> RunResult<()> {
        self.episodes.append(record)?;
        self.rollout.metrics().finished(record.failures.iter().map(|failure| &failure.at));
        self.rollout.check_facts(record).map_err(|error| crate::setup::rewards::with_nearest_name(&error))
    }

    /// What is done when the last group of a batch has arrived.
    pub(crate) fn close_batch(&mut self, failures: Failures, last: Option<LastFailure>) -> RunResult<()> {
        self.progress.failures.add(failures);
        self.episodes.sync()?;
        self.tell_failed_forks();
        crate::seats::weight_sync::check(&self.seats)?;
        self.judge_failures(failures, last)
    }

    /// How many episodes are in flight at once: as many as the policy generates side by side, and no more than can
    /// have all their plugins alive, since episodes that wait for each other's places would wait for ever.
    fn in_flight(&self, group_size: u32) -> usize {
        let most = most_in_flight(self.rollout.plugins(), self.places);
        self.file.policy.max_concurrent_sequences.max(group_size as usize).min(most)
    }

    /// Says that a plan did not get forks that it wanted.
    fn tell_failed_forks(&self) {
        let FailedForks { count, last } = self.rollout.take_failed_forks();
        if count > 0 {
            self.reporter
                .status(&format!("{count} episodes were played from the start, as forks failed; the last: {last}"));
        }
    }

    /// Ends the run when too many episodes met a failure.
    fn judge_failures(&self, batch: Failures, last: Option<LastFailure>) -> RunResult<()> {
        let limit = self.file.failures.limit;
        match too_many(self.progress.failures, batch, limit) {
            Some((failures, of)) => Err(failures.too_many(of, limit, last)),
            None => Ok(()),
        }
    }
}

/// How many episodes a deterministic policy generates side by side: all seats of an episode have slots of their own,
/// by the episode's place in its batch. None where the policy shares its slots out as it likes.
pub(crate) fn deterministic_places(file: &RunFile, plugins: &PluginSet) -> RunResult<Option<usize>> {
    if !file.deterministic {
        return Ok(None);
    }
    let (slots, seats) = (file.policy.max_concurrent_sequences, plugins.seats());
    match slots / seats {
        0 => Err(RunError::user(format!(
            "policy.max_concurrent_sequences is {slots}, but environment `{}` has {seats} seats, each of which needs a slot of its own \
             under deterministic = true; raise policy.max_concurrent_sequences to {seats} or more",
            plugins.environment().plugin.name()
        ))),
        places => {
            check_plans(file, plugins)?;
            Ok(Some(places))
        }
    }
}

/// Refuses plans whose episodes part or come later where each seat has a slot by its episode's place: the seats of a
/// fork would take slots that other episodes wait for with theirs.
fn check_plans(file: &RunFile, plugins: &PluginSet) -> RunResult<()> {
    let plain = SamplingPlan::default().kind();
    let plans = file.stages.iter().filter_map(|stage| match stage {
        Stage::Sft(_) => None,
        Stage::Rl(stage) => Some((&stage.name, stage.plan.kind())),
    });
    match plans.filter(|_| plugins.seats() > 1).find(|(_, kind)| *kind != plain) {
        Some((stage, kind)) => Err(RunError::user(format!(
            "stage `{stage}`: plan.kind is \"{kind}\", but environment `{}` has {} seats, and under deterministic = true \
             its episodes are played in plain groups alone; leave the plan out, or set deterministic = false",
            plugins.environment().plugin.name(),
            plugins.seats()
        ))),
        None => Ok(()),
    }
}

/// Which failures are too many, and of which episodes, in words: those of the stage, or those of the batch alone, since
/// a plugin that breaks late would hide behind what went well before.
fn too_many(stage: Failures, batch: Failures, limit: f64) -> Option<(Failures, &'static str)> {
    let judged = [(stage, "episodes of this stage"), (batch, "episodes that were played last")];
    judged.into_iter().find(|(failures, _)| failures.exceed(limit))
}

/// How many episodes can have all their plugins alive in so many places of the sandbox.
pub(crate) fn most_in_flight(plugins: &PluginSet, places: u32) -> usize {
    places as usize / plugins.places()
}

/// Says that the sandbox holds fewer episodes than the policy could generate for; others wait for room.
pub(crate) fn fewer_in_flight(file: &RunFile, plugins: &PluginSet, places: u32) -> Option<String> {
    let (most, slots) = (most_in_flight(plugins, places), file.policy.max_concurrent_sequences);
    (most < slots).then(|| {
        format!(
            "policy.max_concurrent_sequences asks for {slots} episodes in flight, but the sandbox's {places} places hold the plugins of \
             {most}; the others wait for room: raise sandbox.instances or vm.max_map_count"
        )
    })
}

/// Refuses a stage whose groups cannot have all their plugins alive: `places` is how many the sandbox has.
pub(crate) fn check_places(file: &RunFile, plugins: &PluginSet, places: u32) -> RunResult<()> {
    file.stages.iter().try_for_each(|stage| {
        let group = match stage {
            Stage::Sft(_) => 1,
            Stage::Rl(stage) => stage.plan.members(stage.group_size) as usize,
        };
        check_group(&format!("stage `{}`", stage.name()), group, plugins, places)
    })
}

/// Refuses a group of so many episodes if it cannot have all its plugins alive; `whose` says where it is played.
pub(crate) fn check_group(whose: &str, group: usize, plugins: &PluginSet, places: u32) -> RunResult<()> {
    let taken = plugins.places();
    let needed = group * taken;
    if needed <= places as usize {
        return Ok(());
    }
    Err(RunError::user(format!(
        "{whose}: a group of {group} episodes, each with plugins that take {taken} places of the sandbox, needs {needed} \
         of them, but there are only {places}; lower group_size or what its plan adds, or raise sandbox.instances or \
         vm.max_map_count"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_breaks_late_is_noticed_at_once() {
        let failures = |failed, played| Failures { failed, played };
        let judged = |stage, batch| too_many(stage, batch, 0.2).map(|(failures, _)| failures);
        assert_eq!(judged(failures(20, 2000), failures(20, 40)), Some(failures(20, 40)));
        assert_eq!(judged(failures(8, 2000), failures(8, 40)), None, "as many as the limit allows");
        // Small batches are judged together.
        assert_eq!(judged(failures(10, 19), failures(4, 4)), None);
        assert_eq!(judged(failures(10, 20), failures(4, 4)), Some(failures(10, 20)));
    }
}
