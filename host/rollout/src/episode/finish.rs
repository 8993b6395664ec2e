//! The end of an episode: final views and the record.

use std::time::Instant;

use gymkhana_driver::StartFailure;
use gymkhana_record::{CallSite, Ending, EpisodeRecord, Failure, Timing};
use gymkhana_sandbox::{CallFuture, EnvironmentEpisode, OptionalInterface};
use serde::Serialize;

use crate::context::Context;
use crate::episode::state::{EpisodePlan, EpisodeState, hooks, milliseconds};
use crate::{Rollout, RolloutError};

impl EpisodeState<'_> {
    /// Reads the final views and writes the record.
    pub(crate) async fn finish(mut self, mut ending: Ending) -> Result<EpisodeRecord, RolloutError> {
        if ending.is_limit()
            && let Err(failure) = self.episode.check_totals()
        {
            self.episode.data.failures.push(failure);
            ending = Ending::EnvironmentFailed;
        }
        let (mut privileged, mut hint) = (None, None);
        if ending != Ending::EnvironmentFailed {
            privileged =
                self.read(OptionalInterface::Privileged, CallSite::Privileged, EnvironmentEpisode::privileged).await;
            hint = self.read(OptionalInterface::Guidance, CallSite::Guidance, EnvironmentEpisode::guidance).await;
        }
        let views = self.episode.final_views().await;
        let turn_limit = self.turn_limit();
        let (data, policy) = (self.episode.data, self.policy);
        Ok(EpisodeRecord {
            opening: data.opening,
            turns: data.turns,
            policy_turns: policy.policy_turns,
            segments: policy.contexts.into_iter().flat_map(Context::into_segments).collect(),
            environment_rewards: data.rewards,
            extras: data.extras,
            privileged: privileged.unwrap_or_default(),
            views,
            costs: data.costs,
            exchanges: data.exchanges,
            logs: data.logs.into_entries(),
            unsandboxed: self.rollout.plugins.unsandboxed(),
            timing: Timing { total_ms: milliseconds(policy.begun), ..data.timing },
            forks: policy.forks,
            agent: policy.agent,
            hint,
            turn_limit,
            ..ended(&policy.plan, ending, data.failures)
        })
    }

    /// Reads the environment through an optional interface, if it offers it. A failure is recorded.
    async fn read<T: Serialize>(
        &mut self,
        interface: OptionalInterface,
        site: CallSite,
        read: impl for<'e> FnOnce(&'e mut EnvironmentEpisode) -> CallFuture<'e, T>,
    ) -> Option<T> {
        let hooks = hooks(self.rollout, &mut self.policy.contexts);
        let seen = self.episode.read(&hooks, interface, site.clone(), read).await?;
        let seen = seen.and_then(|value| self.episode.keep(site, value));
        seen.map_err(|failure| self.episode.data.failures.push(failure)).ok()
    }
}

/// The record of an episode in flight, with what a replay up to here needs.
pub(crate) fn so_far(play: &EpisodeState<'_>) -> EpisodeRecord {
    let segments = play.policy.contexts.iter().flat_map(|context| context.segments().to_vec()).collect();
    let forks = play.policy.forks.clone();
    let (policy_turns, exchanges) = (play.policy.policy_turns.clone(), play.episode.data.exchanges.clone());
    let record = ended(&play.policy.plan, Ending::Dropped, play.episode.data.failures.clone());
    EpisodeRecord { segments, forks, policy_turns, exchanges, ..record }
}

/// The record of an episode whose environment did not start.
pub(crate) fn never_started(
    rollout: &Rollout,
    plan: &EpisodePlan,
    failed: StartFailure,
    begun: Instant,
) -> EpisodeRecord {
    let StartFailure { failure, exchanges, logs } = failed;
    let timing = Timing { total_ms: milliseconds(begun), ..Timing::default() };
    let unsandboxed = rollout.plugins.unsandboxed();
    EpisodeRecord { timing, exchanges, logs, unsandboxed, ..ended(plan, Ending::EnvironmentFailed, vec![failure]) }
}

/// An empty record with this ending. An episode with a fault of the host is dropped, whatever its ending.
pub(crate) fn ended(plan: &EpisodePlan, ending: Ending, failures: Vec<Failure>) -> EpisodeRecord {
    let fault = failures.iter().any(|failure| failure.kind.is_hosts());
    let ending = if fault { Ending::Dropped } else { ending };
    EpisodeRecord {
        turn_limit: plan.turns.unwrap_or(0),
        guidance: plan.guidance.clone(),
        failures,
        ..EpisodeRecord::new(plan.id, plan.task.clone(), plan.seed, ending)
    }
}
