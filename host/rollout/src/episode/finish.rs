//! The end of an episode: final views and the record.

use std::time::Instant;

use gymkhana_record::{CallSite, EPISODE_SCHEMA, Ending, EpisodeRecord, Exchange, Failure, Opening, Timing};
use gymkhana_sandbox::{CallFuture, EnvironmentEpisode, OptionalInterface};

use crate::RolloutError;
use crate::context::Context;
use crate::episode::state::{EpisodePlan, EpisodeState, milliseconds};
use crate::metrics::WaitKind;
use crate::tools::session::FinalViews;

impl EpisodeState<'_> {
    /// Looks once more at everything and writes the record.
    pub(crate) async fn finish(mut self, mut ending: Ending) -> Result<EpisodeRecord, RolloutError> {
        if ending.is_limit()
            && let Err(error) = self.environment.check_totals()
        {
            self.data.failures.push(self.rollout.environment_failure(CallSite::LimitCheck, error));
            ending = Ending::EnvironmentFailed;
        }
        let (mut privileged, mut hint) = (None, None);
        if ending != Ending::EnvironmentFailed {
            privileged =
                self.look(OptionalInterface::Privileged, CallSite::Privileged, EnvironmentEpisode::privileged).await;
            hint = self.look(OptionalInterface::Guidance, CallSite::Guidance, EnvironmentEpisode::guidance).await;
        }
        let FinalViews { views, failures, costs, exchanges } = self.toolbox.final_views().await;
        self.data.failures.extend(failures);
        self.data.costs.extend(costs);
        self.data.exchanges.extend(exchanges);
        self.data.timing.total_ms = milliseconds(self.data.begun);
        let turn_limit = self.turn_limit();
        Ok(EpisodeRecord {
            opening: self.data.opening,
            turns: self.data.turns,
            policy_turns: self.data.policy_turns,
            segments: self.data.contexts.into_iter().flat_map(Context::into_segments).collect(),
            environment_rewards: self.data.rewards,
            extras: self.data.extras,
            privileged: privileged.unwrap_or_default(),
            views,
            costs: self.data.costs,
            exchanges: self.data.exchanges,
            timing: self.data.timing,
            forks: self.data.forks,
            hint,
            turn_limit,
            ..ended(&self.data.plan, ending, self.data.failures)
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
        let seen = match self.data.overrides.failure(&self.rollout.environment_boundary(), &site) {
            Some(failure) => Err(failure),
            None => {
                let timer = self.rollout.metrics.time(WaitKind::Environment);
                let seen = look(&mut self.environment).await;
                drop(timer);
                self.pay(site.clone());
                seen.map_err(|error| self.rollout.environment_failure(site, error))
            }
        };
        seen.map_err(|failure| self.data.failures.push(failure)).ok()
    }
}

/// The record of an episode that goes on: what it takes to play it again up to here.
pub(crate) fn so_far(play: &EpisodeState<'_>) -> EpisodeRecord {
    let segments = play.data.contexts.iter().flat_map(|context| context.segments().to_vec()).collect();
    let forks = play.data.forks.clone();
    let (policy_turns, exchanges) = (play.data.policy_turns.clone(), play.data.exchanges.clone());
    let record = ended(&play.data.plan, Ending::Dropped, play.data.failures.clone());
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
pub(crate) fn ended(plan: &EpisodePlan, ending: Ending, failures: Vec<Failure>) -> EpisodeRecord {
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
