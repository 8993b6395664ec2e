//! Forks: several episodes continue one episode from the same turn.
//!
//! The state is copied by snapshot where every plugin with a state offers that, and else built again: a new episode is
//! played with the recorded replies up to the same turn. The host's side goes along either way: clocks, positions of
//! random streams, sessions, contexts. A fork gets a seed of its own for what comes after it.

use std::sync::{Arc, PoisonError};

use gymkhana_record::{CallSite, EpisodeId, EpisodeRecord, Failure, Fork};
use gymkhana_sandbox::{EnvironmentEpisode, OptionalInterface};
use tracing::{Instrument, info_span};

use crate::context::Context;
use crate::episode::finish::so_far;
use crate::episode::state::{Actor, EpisodeData, EpisodePlan, EpisodeState, Started};
use crate::replay::overrides::{ReplayOverrides, turns_taken};
use crate::replay::recorder::ExchangeRecorder;
use crate::tools::session::with_recorder;
use crate::{Difference, Rollout, RolloutError};
use gymkhana_policy::{ReplayedPolicy, Sampling};

/// Why an episode could not be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// There is no such turn.
    #[error("episode `{episode}` has {turns} turns: it can be forked in front of turn 0 to {last}", last = turns.saturating_sub(1))]
    NoTurn {
        /// The episode.
        episode: EpisodeId,
        /// How many turns all its seats took.
        turns: u32,
    },
    /// A plugin failed at being copied.
    #[error("the episode's state cannot be copied: {0}")]
    Failed(Failure),
    /// Played again, the beginning came out otherwise.
    #[error("the episode's beginning cannot be played again: {0}")]
    Diverged(String),
    /// A fault of the host.
    #[error(transparent)]
    Host(#[from] RolloutError),
}

/// Forks that plans wanted and did not get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedForks {
    /// How many.
    pub count: u64,
    /// Why the last one failed; empty if none did.
    pub last: String,
}

impl<'a> EpisodeState<'a> {
    /// Whether every plugin that holds a state of this episode can copy it.
    pub(crate) fn can_be_copied(&self) -> bool {
        self.rollout.plugins.environment.plugin.offers(OptionalInterface::Snapshot) && self.toolbox.can_be_copied()
    }

    /// The same episode once more, as `plan` names it, with the plan's seed for what comes after.
    pub(crate) async fn fork(&mut self, plan: EpisodePlan) -> Result<Box<EpisodeState<'a>>, ForkError> {
        if self.can_be_copied() { self.fork_by_copy(plan).await } else { self.fork_by_replay(plan).await }
    }

    /// The part of the tree that a fork of this moment hangs on.
    fn lineage(&self) -> Vec<Fork> {
        let turns = self.data.contexts.iter().map(|context| context.turns).collect();
        let here = Fork { parent: self.data.plan.id, turns, seed: self.data.plan.seed };
        self.data.forks.iter().cloned().chain([here]).collect()
    }

    /// Forks by snapshots.
    pub(crate) async fn fork_by_copy(&mut self, plan: EpisodePlan) -> Result<Box<EpisodeState<'a>>, ForkError> {
        let seed = plan.seed.child("environment");
        let recorder = self.recorder.as_deref().map(ExchangeRecorder::copy);
        let plugin = &with_recorder(&self.rollout.plugins.environment.plugin, recorder.as_ref());
        let mute = |muted| [&self.recorder, &recorder].into_iter().flatten().for_each(|recorder| recorder.mute(muted));
        mute(true);
        let copied = match self.environment.snapshot().await {
            Ok(snapshot) => EnvironmentEpisode::restore(plugin, &snapshot, seed).await,
            Err(error) => Err(error),
        };
        mute(false);
        let environment =
            copied.map_err(|error| ForkError::Failed(self.rollout.environment_failure(CallSite::Fork, error)))?;
        let toolbox = self.toolbox.copy(plan.seed).await.map_err(ForkError::Failed)?;
        let data = EpisodeData { forks: self.lineage(), plan, ..self.data.clone() };
        let mut fork = Box::new(EpisodeState { rollout: self.rollout, environment, recorder, toolbox, data });
        fork.name_conversations();
        Ok(fork)
    }

    /// Forks by playing the beginning again, with the replies that were given.
    pub(crate) async fn fork_by_replay(&mut self, plan: EpisodePlan) -> Result<Box<EpisodeState<'a>>, ForkError> {
        let record = so_far(self);
        let policy = ReplayedPolicy::of(&record);
        let mut fork = self.rollout.replay_until(&record, &policy, self.taken()).await?;
        let differs = |what: &str| Err(ForkError::Diverged(format!("{what} differ from those of the first time")));
        if fork.data.turns != self.data.turns {
            return differs("its turns");
        }
        if fork.data.rewards != self.data.rewards || fork.data.seat != self.data.seat {
            return differs("its rewards or the seat to move");
        }
        fork.data.forks = self.lineage();
        fork.data.begun = self.data.begun;
        fork.data.reseeds = self.data.reseeds.clone();
        fork.inject(Arc::clone(&self.data.overrides));
        fork.reseed(plan.seed);
        fork.data.plan = plan;
        fork.name_conversations();
        Ok(fork)
    }

    /// Gives every seat's conversation a name of its own.
    fn name_conversations(&mut self) {
        for seat in 0..self.data.contexts.len() {
            self.data.contexts[seat].conversation = self.conversation(seat as u32);
        }
    }

    /// From here on this is overrides, and the world is asked.
    fn inject(&mut self, overrides: Arc<ReplayOverrides>) {
        self.toolbox.inject(&overrides);
        self.data.overrides = overrides;
        if let Some(recorder) = &self.recorder {
            recorder.ask_the_world();
        }
    }
}

impl Rollout {
    /// Plays a recorded episode again up to `taken` turns of all its seats.
    async fn replay_until(
        &self,
        record: &EpisodeRecord,
        policy: &ReplayedPolicy,
        taken: u32,
    ) -> Result<Box<EpisodeState<'_>>, ForkError> {
        let mut play = match self.begin_replay(record).await? {
            Started::Running(play) => play,
            Started::Finished(over) => return Err(ForkError::Diverged(format!("it ended at once: {:?}", over.ending))),
        };
        while play.taken() < taken {
            if let Some(ending) = play.advance(Actor::Policy(policy)).await? {
                let why = play.data.failures.last().map_or_else(|| format!("{ending:?}"), ToString::to_string);
                return Err(ForkError::Diverged(format!("it ended after {} turns: {why}", play.taken())));
            }
        }
        Ok(play)
    }

    /// Begins a recorded episode again, with what its machine's clock decided.
    pub(crate) async fn begin_replay(&self, record: &EpisodeRecord) -> Result<Started<'_>, RolloutError> {
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
            Started::Running(play) => {
                play.data.reseeds = reseeds.into();
                play.data.forks.clone_from(&record.forks);
            }
            Started::Finished(over) => {
                over.seed = record.seed;
                over.forks.clone_from(&record.forks);
            }
        }
        Ok(begun)
    }

    /// Plays a recorded episode again up to the turn number `turn` of all its seats, counted from 0, and goes on from
    /// there once for each plan, side by side. What comes is scored together, as a group.
    ///
    /// # Errors
    /// If there is no such turn, the beginning does not come out as it was recorded, or a plugin cannot be copied.
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
        base.inject(ReplayOverrides::nothing());
        // What comes later in the recorded tree is none of the new forks'.
        base.data.reseeds.clear();
        base.data.forks.retain(|fork| fork.taken() <= turn);
        let mut forks = Vec::with_capacity(plans.len());
        for plan in plans {
            forks.push(base.fork(plan).await?);
        }
        drop(base);
        let ends = forks.into_iter().map(|fork| {
            let span = info_span!("episode", id = %fork.data.plan.id);
            fork.to_end(actor).instrument(span)
        });
        Ok(futures::future::try_join_all(ends).await?)
    }

    /// What a plan does about an episode that cannot be forked: it plays from the start instead, and says so once the
    /// step is over. Faults of the host are passed on.
    pub(crate) fn could_not_fork(&self, error: ForkError) -> Result<(), ForkError> {
        if let ForkError::Host(_) = error {
            return Err(error);
        }
        let mut failed = self.failed_forks.lock().unwrap_or_else(PoisonError::into_inner);
        failed.count += 1;
        failed.last = error.to_string();
        Ok(())
    }

    /// Takes what is known of forks that failed since this was last asked.
    pub fn take_failed_forks(&self) -> FailedForks {
        std::mem::take(&mut self.failed_forks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forks a recorded episode by snapshot in front of each of its turns and lets every fork go on with the recorded
    /// replies: each must come to the recorded end, byte by byte. Gives the first turn at which one does not, and how.
    /// An episode whose plugins offer no snapshots is only played again.
    ///
    /// # Errors
    /// If the episode cannot be played again at all.
    pub async fn check_forks(&self, record: &EpisodeRecord) -> Result<Option<(u32, Difference)>, ForkError> {
        let expected = unscored(record);
        let policy = ReplayedPolicy::of(record);
        let Started::Running(mut base) = self.begin_replay(record).await? else { return Ok(None) };
        for turn in 0..turns_taken(record) {
            if base.can_be_copied() {
                let turns: Vec<u32> = base.data.contexts.iter().map(|context: &Context| context.turns).collect();
                let mut fork = base.fork_by_copy(base.data.plan.clone()).await?;
                fork.data.forks.clone_from(&record.forks);
                let rest = ReplayedPolicy::after(record, &turns);
                let forked = fork.to_end(Actor::Policy(&rest)).await?;
                if let Some(difference) = Difference::between(&expected, &unscored(&forked)) {
                    return Ok(Some((turn, difference)));
                }
            }
            if base.advance(Actor::Policy(&policy)).await?.is_some() {
                break;
            }
        }
        Ok(None)
    }
}

/// The record before its group was scored.
fn unscored(record: &EpisodeRecord) -> EpisodeRecord {
    let mut record = EpisodeRecord { training_step: 0, selected: true, ..record.clone() };
    record.clear_scores();
    // A copied instance began in the midst of things.
    record.costs.clear();
    record
}
