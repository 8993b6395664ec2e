//! Forks: several episodes continue one episode from the same turn.
//!
//! If every plugin with a state offers snapshots, the state is copied. Otherwise a new episode replays the recorded
//! replies up to the same turn. In both cases the fork has the host's state of that turn: clocks, positions of random
//! streams, sessions and contexts. After the turn it uses a seed of its own.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use gymkhana_driver::{Episode, EpisodeSeeds};
use gymkhana_policy::{ReplayedPolicy, Sampling};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Failure, Fork};
use tracing::{Instrument, info_span};

use crate::episode::EpisodeStart;
use crate::episode::finish::so_far;
use crate::episode::state::{Actor, EpisodePlan, EpisodeState, PolicyData};
use crate::replay::overrides::{ReplayOverrides, turns_taken};
use crate::{ReplayDifference, Rollout, RolloutError};

/// Reason why an episode could not be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The episode has no such turn.
    #[error("episode `{episode}` has {turns} turns: it can be forked before turn 0 to {last}", last = turns.saturating_sub(1))]
    NoTurn {
        /// The episode.
        episode: EpisodeId,
        /// Number of turns of all seats.
        turns: u32,
    },
    /// A plugin failed to copy its state.
    #[error("the episode's state cannot be copied: {0}")]
    Failed(Failure),
    /// The replay of the beginning differs from the record.
    #[error("the episode's beginning cannot be played again: {0}")]
    Diverged(String),
    /// A fault of the host.
    #[error(transparent)]
    Host(#[from] RolloutError),
}

/// Forks that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedForks {
    /// Number.
    pub count: u64,
    /// Reason of the last failure; empty without failures.
    pub last: String,
}

impl<'a> EpisodeState<'a> {
    /// Forks the episode. The fork has the id and the later seed of `plan`.
    pub(crate) async fn fork(&mut self, plan: EpisodePlan) -> Result<Box<EpisodeState<'a>>, ForkError> {
        if self.episode.can_be_copied() { self.fork_by_copy(plan).await } else { self.fork_by_replay(plan).await }
    }

    /// The forks that lead to a fork at the present turn.
    fn lineage(&self) -> Vec<Fork> {
        let turns = self.policy.contexts.iter().map(|context| context.turns).collect();
        let here = Fork { parent: self.policy.plan.id, turns, seed: self.policy.plan.seed };
        self.policy.forks.iter().cloned().chain([here]).collect()
    }

    /// Forks by snapshots.
    pub(crate) async fn fork_by_copy(&mut self, plan: EpisodePlan) -> Result<Box<EpisodeState<'a>>, ForkError> {
        let seeds = EpisodeSeeds::of(plan.seed);
        let snapshot = self.episode.snapshot().await.map_err(ForkError::Failed)?;
        let data = self.episode.data.clone();
        let episode = Episode::restore(&snapshot, data, seeds).await.map_err(ForkError::Failed)?;
        let policy = PolicyData { forks: self.lineage(), plan, ..self.policy.clone() };
        let mut fork =
            Box::new(EpisodeState { rollout: self.rollout, episode, policy, held: self.rollout.live.share() });
        fork.name_conversations();
        Ok(fork)
    }

    /// Forks by a replay of the beginning with the recorded replies.
    pub(crate) async fn fork_by_replay(&mut self, plan: EpisodePlan) -> Result<Box<EpisodeState<'a>>, ForkError> {
        let record = so_far(self.rollout, &self.policy, &self.episode.data);
        let policy = ReplayedPolicy::of(&record);
        let mut fork = self.rollout.replay_until(&record, &policy, self.taken()).await?;
        let differs = |what: &str| Err(ForkError::Diverged(format!("{what} differ from those of the first time")));
        if fork.episode.data.turns != self.episode.data.turns {
            return differs("its turns");
        }
        if fork.episode.data.rewards != self.episode.data.rewards || fork.episode.data.seat != self.episode.data.seat {
            return differs("its rewards or the seat to move");
        }
        fork.policy.forks = self.lineage();
        fork.policy.begun = self.policy.begun;
        fork.policy.reseeds = self.policy.reseeds.clone();
        fork.end_replay(Arc::clone(&self.policy.overrides));
        fork.reseed(plan.seed);
        fork.policy.plan = plan;
        fork.name_conversations();
        Ok(fork)
    }

    /// Gives the conversation of every seat a new id.
    fn name_conversations(&mut self) {
        for seat in 0..self.policy.contexts.len() {
            self.policy.contexts[seat].conversation = self.conversation(seat as u32);
        }
    }

    /// Plays one recorded turn. Returns the ending if the episode ends with it.
    async fn replay_turn(&mut self, policy: &ReplayedPolicy) -> Result<Option<Ending>, RolloutError> {
        let generation = self.generate_reply(Actor::Policy(policy)).await?;
        self.act(generation).await
    }

    /// Ends a replay: later calls use these overrides, and outbound calls are made.
    fn end_replay(&mut self, overrides: Arc<ReplayOverrides>) {
        self.episode.end_replay(Arc::clone(&overrides.calls));
        self.policy.overrides = overrides;
    }
}

impl Rollout {
    /// Replays a recorded episode up to `taken` turns of all its seats.
    async fn replay_until(
        &self,
        record: &EpisodeRecord,
        policy: &ReplayedPolicy,
        taken: u32,
    ) -> Result<Box<EpisodeState<'_>>, ForkError> {
        if record.agent.is_some() {
            return Err(ForkError::Diverged(
                "an agent program played it, and a program starts at the beginning".to_owned(),
            ));
        }
        let mut play = match self.begin_replay(record).await? {
            EpisodeStart::Running(play) => play,
            EpisodeStart::Finished(over) => {
                return Err(ForkError::Diverged(format!("it ended at once: {:?}", over.ending)));
            }
        };
        while play.taken() < taken {
            if let Some(ending) = play.replay_turn(policy).await? {
                let why = play.episode.data.failures.last().map_or_else(|| format!("{ending:?}"), ToString::to_string);
                return Err(ForkError::Diverged(format!("it ended after {} turns: {why}", play.taken())));
            }
        }
        Ok(play)
    }

    /// Starts the replay of a recorded episode, with the recorded decisions of its clock.
    pub(crate) async fn begin_replay(&self, record: &EpisodeRecord) -> Result<EpisodeStart<'_>, RolloutError> {
        let (seed, reseeds) = record.seeds();
        let plan = EpisodePlan {
            id: record.id,
            task: record.task.clone(),
            seed,
            sampling: Sampling::GREEDY,
            place: 0,
            turns: Some(record.turn_limit),
            guidance: record.guidance.clone(),
        };
        let mut begun = EpisodeState::begin(self, plan, ReplayOverrides::of(record)).await?;
        match &mut begun {
            EpisodeStart::Running(play) => {
                play.policy.reseeds = reseeds.into();
                play.policy.forks.clone_from(&record.forks);
            }
            EpisodeStart::Finished(over) => {
                over.seed = record.seed;
                over.forks.clone_from(&record.forks);
            }
        }
        Ok(begun)
    }

    /// Replays a recorded episode up to turn `turn` of all its seats, counted from 0, and continues from there once for
    /// each plan, concurrently. The results are scored together, as a group.
    ///
    /// # Errors
    /// If the episode has no such turn, the replay differs from the record, or a plugin cannot be copied.
    pub async fn fork_recorded(
        &self,
        record: &EpisodeRecord,
        turn: u32,
        plans: Vec<EpisodePlan>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, ForkError> {
        let mut records = self.fork_unscored(record, turn, plans, actor).await?;
        self.score_group(&mut records, &[]).await;
        Ok(records)
    }

    /// As [`Rollout::fork_recorded`], without the scores.
    pub(crate) async fn fork_unscored(
        &self,
        record: &EpisodeRecord,
        turn: u32,
        plans: Vec<EpisodePlan>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, ForkError> {
        let turns = turns_taken(record);
        if turn >= turns {
            return Err(ForkError::NoTurn { episode: record.id, turns });
        }
        let mut base = self.replay_until(record, &ReplayedPolicy::of(record), turn).await?;
        base.end_replay(Arc::default());
        // The new forks do not share what comes later in the recorded tree.
        base.policy.reseeds.clear();
        base.policy.forks.retain(|fork| fork.taken() <= turn);
        let mut forks = Vec::with_capacity(plans.len());
        for plan in plans {
            forks.push(base.fork(plan).await?);
        }
        drop(base);
        let ends = forks.into_iter().map(|fork| {
            let span = info_span!("episode", id = %fork.policy.plan.id);
            fork.to_end(actor).instrument(span)
        });
        Ok(futures::future::try_join_all(ends).await?)
    }

    /// Counts a fork that failed, after which a plan starts a new episode instead. Faults of the host are returned.
    pub(crate) fn could_not_fork(&self, error: ForkError) -> Result<(), ForkError> {
        if let ForkError::Host(_) = error {
            return Err(error);
        }
        let mut failed = self.failed_forks.lock().unwrap_or_else(PoisonError::into_inner);
        failed.count += 1;
        failed.last = error.to_string();
        Ok(())
    }

    /// Adds failed forks of another process.
    pub fn add_failed_forks(&self, others: FailedForks) {
        if others.count > 0 {
            let mut own = self.failed_forks.lock().unwrap_or_else(PoisonError::into_inner);
            *own = FailedForks { count: own.count + others.count, last: others.last };
        }
    }

    /// Takes the failed forks since the last call.
    pub fn take_failed_forks(&self) -> FailedForks {
        std::mem::take(&mut self.failed_forks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forks a recorded episode by snapshot before each of its turns and continues every fork with the recorded replies:
    /// each must reach the recorded end, byte by byte. Stops at the first difference. An episode whose plugins offer no snapshots is only replayed, and one
    /// of an agent program has no forks.
    ///
    /// # Errors
    /// If the replay fails.
    pub async fn check_forks(&self, record: &EpisodeRecord) -> Result<ForkCheck, ForkError> {
        self.check_forks_at(record, 0..turns_taken(record)).await
    }

    /// As [`check_forks`](Self::check_forks), before one turn of all seats, from 0.
    ///
    /// # Errors
    /// If the episode has no such turn, or the replay fails.
    pub async fn check_fork_before(&self, record: &EpisodeRecord, turn: u32) -> Result<ForkCheck, ForkError> {
        let turns = turns_taken(record);
        if turn >= turns {
            return Err(ForkError::NoTurn { episode: record.id, turns });
        }
        self.check_forks_at(record, turn..turn + 1).await
    }

    async fn check_forks_at(&self, record: &EpisodeRecord, places: Range<u32>) -> Result<ForkCheck, ForkError> {
        let expected = unscored(record);
        let policy = ReplayedPolicy::of(record);
        let mut check = ForkCheck::default();
        if record.agent.is_some() {
            return Ok(check);
        }
        let EpisodeStart::Running(mut base) = self.begin_replay(record).await? else { return Ok(check) };
        for turn in 0..places.end {
            if places.contains(&turn) && base.episode.can_be_copied() {
                let turns: Vec<u32> = base.policy.contexts.iter().map(|context| context.turns).collect();
                let mut fork = base.fork_by_copy(base.policy.plan.clone()).await?;
                fork.policy.forks.clone_from(&record.forks);
                let rest = ReplayedPolicy::after(record, &turns);
                let forked = fork.to_end(Actor::Policy(&rest)).await?;
                check.forks += 1;
                if let Some(difference) = ReplayDifference::between(&expected, &unscored(&forked)) {
                    check.difference = Some((turn, difference));
                    return Ok(check);
                }
            }
            if base.replay_turn(&policy).await?.is_some() {
                break;
            }
        }
        Ok(check)
    }
}

/// Result of replaying an episode's forks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ForkCheck {
    /// Number of forks that were replayed.
    pub forks: u32,
    /// The first difference, with the turn before which its fork began.
    pub difference: Option<(u32, ReplayDifference)>,
}

/// The record without scores.
fn unscored(record: &EpisodeRecord) -> EpisodeRecord {
    let mut record = EpisodeRecord { training_step: 0, selected: true, ..record.clone() };
    record.clear_scores();
    // The costs of a copied instance differ, because it starts later.
    record.costs.clear();
    record
}
