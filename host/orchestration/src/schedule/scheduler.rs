//! Groups in flight, of one or several steps: started in order, returned as each finishes.

use std::sync::Arc;

use gymkhana_policy::Sampling;
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};
use gymkhana_rollout::{Actor, GroupPlan, Rollout, SamplingPlan, WaitKind};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use crate::error::{Classify, RunResult};
use crate::schedule::remote::{GroupJob, RemotePlayers};
use crate::schedule::seat_players::SeatPlayers;

/// The task of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupTask {
    /// Index of the environment among those of the run.
    pub environment: usize,
    /// The task.
    pub task: TaskRef,
    /// Turn limit per seat, if it differs from the environment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Number of episodes, if it differs from the batch's group size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl From<TaskRef> for GroupTask {
    /// A task of the run's only environment.
    fn from(task: TaskRef) -> Self {
        Self { environment: 0, task, turns: None, attempts: None }
    }
}

/// A batch of groups.
pub struct GroupBatch {
    /// Phase of the episodes.
    pub phase: Phase,
    /// Training step.
    pub step: u64,
    /// Tasks, one per group.
    pub tasks: Vec<GroupTask>,
    /// Number of the first group.
    pub first_group: u32,
    /// Episodes per group, before the plan adds any.
    pub group_size: u32,
    /// Sampling of tokens.
    pub sampling: Sampling,
    /// Sampling plan of each group.
    pub plan: SamplingPlan,
    /// Number of groups that are cancelled once the others have finished.
    pub spare: u32,
}

impl GroupBatch {
    /// A batch of single episodes.
    #[must_use]
    pub fn of_single_episodes(phase: Phase, step: u64, tasks: Vec<GroupTask>, sampling: Sampling) -> Self {
        let plan = SamplingPlan::default();
        Self { phase, step, tasks, first_group: 0, group_size: 1, sampling, plan, spare: 0 }
    }
}

/// Shared context of all groups in flight.
#[derive(Clone)]
pub struct GroupRunner<S> {
    /// Rules and plugins of the episodes of each environment.
    pub rollouts: Vec<Arc<Rollout>>,
    /// Policies of the seats.
    pub seats: S,
    /// Seed of episodes.
    pub seeds: Seed,
    /// Number of the stage.
    pub stage: u32,
    /// Threads on which episodes run.
    pub guests: Handle,
    /// Permits for episodes in flight, granted in order of start across steps.
    pub permits: Arc<Semaphore>,
    /// Processes that play the groups instead of this one.
    pub remote: Option<Arc<dyn RemotePlayers>>,
}

/// A finished group.
pub struct FinishedGroup {
    /// Training step of its batch.
    pub step: u64,
    /// Index in its batch.
    pub place: usize,
    /// Episodes of the group, scored.
    pub records: Vec<EpisodeRecord>,
}

/// Groups in flight. Dropping it cancels them.
pub struct Scheduler<S> {
    runner: GroupRunner<S>,
    playing: JoinSet<(u64, usize, RunResult<Vec<EpisodeRecord>>)>,
}

/// Finished groups of a batch in flight.
pub struct InFlight {
    /// Finished groups, by index of their task.
    groups: Vec<Option<Vec<EpisodeRecord>>>,
    /// Number of groups required.
    awaited: usize,
    handles: Vec<AbortHandle>,
}

impl<S: SeatPlayers + Clone> Scheduler<S> {
    /// A scheduler without groups.
    #[must_use]
    pub fn new(runner: GroupRunner<S>) -> Self {
        Self { runner, playing: JoinSet::new() }
    }

    /// Starts a batch.
    pub fn start(&mut self, batch: &GroupBatch) -> InFlight {
        let mut members_before = 0;
        let handles = (0_u32..).zip(&batch.tasks).map(|(place, GroupTask { environment, task, turns, attempts })| {
            let size = attempts.unwrap_or(batch.group_size);
            let members = batch.plan.members(size);
            let group = self.runner.group(batch, place, task, (size, *turns), members_before);
            members_before += members;
            let (runner, plan, environment) = (self.runner.clone(), batch.plan.clone(), *environment);
            let guests = runner.guests.clone();
            let play = async move {
                let rollout = &runner.rollouts[environment];
                let timer = rollout.metrics().time(WaitKind::Queue);
                let _permits = runner.permits.acquire_many(members).await;
                let records = match &runner.remote {
                    Some(remote) => {
                        let _places = rollout.hold_places(group.place, members).await;
                        drop(timer);
                        remote.play(GroupJob { environment, group: group.clone(), plan }).await
                    }
                    None => {
                        drop(timer);
                        let players = runner.seats.players();
                        let actor = match group.id.phase {
                            Phase::Demonstration => Actor::Oracle,
                            _ => Actor::Seats(&players),
                        };
                        rollout.run_plan(&group, &plan, actor).await.internal()
                    }
                };
                (group.id.step, place as usize, records)
            };
            self.playing.spawn_on(play, &guests)
        });
        let handles: Vec<AbortHandle> = handles.collect();
        let awaited = handles.len().saturating_sub(batch.spare as usize);
        InFlight { groups: handles.iter().map(|_| None).collect(), awaited, handles }
    }

    /// The next finished group; `None` if none is in flight. Cancel-safe.
    ///
    /// # Errors
    /// If an episode panicked, or the host failed.
    pub async fn next(&mut self) -> Option<RunResult<FinishedGroup>> {
        loop {
            match self.playing.join_next().await? {
                Ok((step, place, records)) => {
                    return Some(records.map(|records| FinishedGroup { step, place, records }));
                }
                Err(given_up) if given_up.is_cancelled() => {}
                Err(panicked) => return Some(Err(panicked).internal()),
            }
        }
    }
}

impl<S> GroupRunner<S> {
    /// The group of this number in a batch. `limits` are its size and its turns.
    fn group(
        &self,
        batch: &GroupBatch,
        number: u32,
        task: &TaskRef,
        (size, turns): (u32, Option<u32>),
        place: u32,
    ) -> GroupPlan {
        let id = EpisodeId {
            stage: self.stage,
            phase: batch.phase,
            step: batch.step,
            group: batch.first_group + number,
            member: 0,
            attempt: 0,
        };
        GroupPlan { id, task: task.clone(), seeds: self.seeds, sampling: batch.sampling, place, size, turns }
    }
}

impl InFlight {
    /// An empty batch.
    #[must_use]
    pub fn empty() -> Self {
        Self { groups: vec![], awaited: 0, handles: vec![] }
    }

    /// Adds a finished group. After the last required one, the groups still running are cancelled.
    pub fn arrive(&mut self, place: usize, records: Vec<EpisodeRecord>) {
        self.groups[place] = Some(records);
        if self.missing() == 0 {
            self.handles.iter().for_each(AbortHandle::abort);
        }
    }

    /// Number of required groups still missing. A group with only dropped episodes is replaced by an oversampled one.
    #[must_use]
    pub fn missing(&self) -> usize {
        let under_way = self.groups.len() - self.groups.iter().flatten().count();
        self.required().min(under_way)
    }

    /// Number of required groups that were not played: those under way, and those with only dropped episodes.
    fn required(&self) -> usize {
        let usable = |group: &&Vec<EpisodeRecord>| group.iter().any(|record| record.ending != Ending::Dropped);
        self.awaited.saturating_sub(self.groups.iter().flatten().filter(usable).count())
    }

    /// Places of required groups of which the infrastructure has lost every episode; none if other groups were played,
    /// unless `server_failed`.
    #[must_use]
    pub fn lost(&self, server_failed: bool) -> Vec<usize> {
        let is_lost = |group: &Vec<EpisodeRecord>| !group.is_empty() && group.iter().all(EpisodeRecord::is_lost);
        let required = self.required();
        if required == 0 || !(server_failed || required == self.awaited) {
            return vec![];
        }
        let places = (0..).zip(&self.groups).filter(|(_, group)| group.as_ref().is_some_and(is_lost));
        places.map(|(place, _)| place).take(required).collect()
    }

    /// Finished groups, in the order of their tasks.
    #[must_use]
    pub fn into_groups(self) -> Vec<Vec<EpisodeRecord>> {
        self.groups.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Boundary, CallSite, Failure, FailureKind};

    use super::*;

    /// An episode that ended, and one that a failure of this kind dropped in every attempt.
    fn episode(failure: Option<FailureKind>) -> EpisodeRecord {
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
        let ending = if failure.is_some() { Ending::Dropped } else { Ending::Terminated };
        let mut record = EpisodeRecord::new(id, TaskRef { split: "train".to_owned(), index: 0 }, Seed(0), ending);
        let failed =
            |kind| Failure { at: Boundary::Model, kind, call_site: CallSite::Score, message: "as asked".to_owned() };
        record.failures = failure.map(failed).into_iter().collect();
        record
    }

    /// Finished groups, of which `awaited` are required.
    fn finished(groups: &[&[Option<FailureKind>]], awaited: usize) -> InFlight {
        let group = |members: &&[Option<FailureKind>]| Some(members.iter().copied().map(episode).collect());
        InFlight { groups: groups.iter().map(group).collect(), awaited, handles: vec![] }
    }

    #[test]
    fn groups_are_lost_if_the_infrastructure_failed_in_all_their_episodes() {
        let (sound, down, trap) = (None, Some(FailureKind::Fault), Some(FailureKind::Trap));
        let lost =
            |groups: &[&[Option<FailureKind>]], awaited, server_failed| finished(groups, awaited).lost(server_failed);
        assert_eq!(lost(&[&[down, down], &[down]], 2, false), [0, 1]);
        // Other groups were played: only a server that does not answer is waited for.
        assert_eq!(lost(&[&[down], &[sound, down]], 2, false), [0; 0]);
        assert_eq!(lost(&[&[down], &[sound, down]], 2, true), [0]);
        // A plugin that fails before the first turn would fail again.
        assert_eq!(lost(&[&[trap, trap], &[trap]], 2, true), [0; 0]);
        // An oversampled group replaces a lost one.
        assert_eq!(lost(&[&[down], &[sound], &[sound]], 2, true), [0; 0]);
        assert_eq!(lost(&[&[down], &[sound], &[down]], 2, true), [0]);
        assert_eq!(lost(&[], 0, true), [0; 0]);
    }
}
