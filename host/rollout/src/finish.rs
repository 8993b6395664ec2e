//! The end of an episode: a last look at everything, and the record.

use std::time::Instant;

use gymkhana_record::{CallSite, EPISODE_SCHEMA, Ending, EpisodeRecord, Exchange, Failure, Opening, Timing};
use gymkhana_sandbox::{CallFuture, EnvironmentEpisode, OptionalInterface};

use crate::RolloutError;
use crate::context::Context;
use crate::metrics::WaitKind;
use crate::state::{EpisodePlan, EpisodeState, milliseconds};
use crate::tools::FinalViews;

impl EpisodeState<'_> {
    /// Looks once more at everything and writes the record.
    pub(crate) async fn finish(mut self, mut ending: Ending) -> Result<EpisodeRecord, RolloutError> {
        if ending.is_limit()
            && let Err(error) = self.environment.check_totals()
        {
            self.failures.push(self.rollout.environment_failure(CallSite::LimitCheck, error));
            ending = Ending::EnvironmentFailed;
        }
        let (mut privileged, mut hint) = (None, None);
        if ending != Ending::EnvironmentFailed {
            privileged =
                self.look(OptionalInterface::Privileged, CallSite::Privileged, EnvironmentEpisode::privileged).await;
            hint = self.look(OptionalInterface::Guidance, CallSite::Guidance, EnvironmentEpisode::guidance).await;
        }
        let FinalViews { views, failures, costs, exchanges } = self.toolbox.final_views().await;
        self.failures.extend(failures);
        self.costs.extend(costs);
        self.exchanges.extend(exchanges);
        self.timing.total_ms = milliseconds(self.begun);
        let turn_limit = self.turn_limit();
        Ok(EpisodeRecord {
            opening: self.opening,
            turns: self.turns,
            policy_turns: self.policy_turns,
            segments: self.contexts.into_iter().flat_map(Context::into_segments).collect(),
            environment_rewards: self.rewards,
            extras: self.extras,
            privileged: privileged.unwrap_or_default(),
            views,
            costs: self.costs,
            exchanges: self.exchanges,
            timing: self.timing,
            forks: self.forks,
            hint,
            turn_limit,
            ..ended(&self.plan, ending, self.failures)
        })
    }

    /// A last look at the environment, if it offers it; a failure is kept.
    async fn look<T>(
        &mut self,
        offered: OptionalInterface,
        site: CallSite,
        look: impl for<'e> FnOnce(&'e mut EnvironmentEpisode) -> CallFuture<'e, T>,
    ) -> Option<T> {
        if !self.rollout.plugins.environment.plugin.offers(offered) {
            return None;
        }
        let seen = match self.injected.failure(&self.rollout.environment_boundary(), &site) {
            Some(failure) => Err(failure),
            None => {
                let timer = self.rollout.metrics.time(WaitKind::Environment);
                let seen = look(&mut self.environment).await;
                drop(timer);
                self.pay(site.clone());
                seen.map_err(|error| self.rollout.environment_failure(site, error))
            }
        };
        seen.map_err(|failure| self.failures.push(failure)).ok()
    }
}

/// The record of an episode that goes on: what it takes to play it again up to here.
pub(crate) fn so_far(play: &EpisodeState<'_>) -> EpisodeRecord {
    let segments = play.contexts.iter().flat_map(|context| context.segments().to_vec()).collect();
    let forks = play.forks.clone();
    let (policy_turns, exchanges) = (play.policy_turns.clone(), play.exchanges.clone());
    let record = ended(&play.plan, Ending::Dropped, play.failures.clone());
    EpisodeRecord { segments, forks, policy_turns, exchanges, ..record }
}

/// The record of an episode whose environment did not start.
pub(crate) fn never_started(
    plan: &EpisodePlan,
    failure: Failure,
    exchanges: Vec<Exchange>,
    begun: Instant,
) -> EpisodeRecord {
    let timing = Timing { total_ms: milliseconds(begun), ..Timing::default() };
    EpisodeRecord { timing, exchanges, ..ended(plan, Ending::EnvironmentFailed, vec![failure]) }
}

/// The record of an episode that ended so, with nothing in it yet; one that met a fault of the host is dropped,
/// however it ended.
fn ended(plan: &EpisodePlan, ending: Ending, failures: Vec<Failure>) -> EpisodeRecord {
    let fault = failures.iter().any(|failure| failure.kind.is_hosts());
    let ending = if fault { Ending::Dropped } else { ending };
    EpisodeRecord {
        schema: EPISODE_SCHEMA,
        id: plan.id,
        task: plan.task.clone(),
        seed: plan.seed,
        forks: vec![],
        turn_limit: plan.turns.unwrap_or(0),
        guidance: plan.guidance.clone(),
        hint: None,
        selected: true,
        training_step: plan.id.step,
        opening: Opening::default(),
        turns: vec![],
        policy_turns: vec![],
        segments: vec![],
        ending,
        environment_rewards: vec![],
        extras: vec![],
        privileged: vec![],
        views: vec![],
        scores: vec![],
        rewards: vec![],
        turn_rewards: vec![],
        turn_gains: vec![],
        success: false,
        failures,
        exchanges: vec![],
        costs: vec![],
        timing: Timing::default(),
    }
}
