//! Trial episodes before a run, which nothing records: the functions that an oracle calls, the facts of its end, and the
//! first prompt of a policy.
//!
//! A failure of a plugin in a trial is ignored: the recorded episodes report it.

use std::sync::{Arc, OnceLock};

use gymkhana_driver::{Episode, EpisodeSeeds, EpisodeSetup, NoHooks};
use gymkhana_policy::{GenerateRequest, Sampling, ScriptedPolicy};
use gymkhana_record::{EpisodeId, Phase, Seed, TaskRef};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Advice, OptionalInterface};

use crate::Rollout;
use crate::episode::play::play;
use crate::episode::state::{Actor, EpisodePlan};
use crate::reward::{EndedEpisode, EpisodeEnd, RuleError};

/// Maximum number of turns of a trial: those that the conformance suite allows an oracle.
const MAX_TURNS: u32 = 300;

impl Rollout {
    /// Starts a trial of a task; `None` if the environment fails.
    pub(crate) async fn trial(&self, task: &TaskRef, seed: Seed) -> Option<Episode> {
        let setup = EpisodeSetup {
            environment: &self.plugins.environment,
            tools: &self.plugins.tools,
            task: task.clone(),
            seeds: EpisodeSeeds { environment: seed, tools: seed },
            overrides: Arc::default(),
            max_bytes: self.limits.episode_bytes,
        };
        Episode::start(setup, &NoHooks).await.ok()
    }

    /// Functions that the oracle calls in its first turn of a task and that no plugin offers. The oracle is told that
    /// `others` are available too. Empty if the environment has no oracle or fails, or if a plugin can make outbound
    /// calls, which a trial must not repeat.
    pub async fn missing_functions(&self, task: &TaskRef, seed: Seed, others: &[&str]) -> Vec<String> {
        let Some(mut episode) = self.oracle_trial(task, seed).await else { return vec![] };
        let tools = &self.plugins.tools;
        let mut told = tools.function_names();
        told.extend(others.iter().filter(|other| tools.index_of(other).is_none()).map(|other| (*other).to_owned()));
        let Ok(Advice::Calls(calls)) = episode.environment().advise(&told, &[]).await else { return vec![] };
        let offered = episode.data.functions(episode.data.seat);
        let mut missing = Vec::new();
        for call in calls {
            if !offered.iter().any(|function| function.name == call.name) && !missing.contains(&call.name) {
                missing.push(call.name);
            }
        }
        missing
    }

    /// Plays a trial by the oracle and checks that its end has the facts that the success rule and gates name. Nothing
    /// is checked without such facts, without an oracle, if a plugin fails or can make outbound calls, or if the
    /// environment does not end the trial.
    ///
    /// # Errors
    /// If a fact is missing, so that the rule could never hold.
    pub async fn check_oracle_facts(&self, task: &TaskRef, seed: Seed) -> Result<(), RuleError> {
        let terms = self.plugins.terms();
        if !self.names_facts() {
            return Ok(());
        }
        let Some(mut episode) = self.oracle_trial(task, seed).await else { return Ok(()) };
        for _ in 0..MAX_TURNS {
            let Ok(advice) = episode.advise(&NoHooks).await else { return Ok(()) };
            let Some(ending) = episode.take_turn(&mut NoHooks, advice.into(), self.limits.calls).await else {
                continue;
            };
            return match EpisodeEnd::new(EndedEpisode::Trial(task.clone()), ending, &episode.data.extras) {
                Some(end) => self.reward_sum.check_facts(&terms, &end),
                None => Ok(()),
            };
        }
        Ok(())
    }

    /// The tokens that a policy with this context reads before the first reply to a task. `None` if a plugin fails or can
    /// make outbound calls, an agent program plays, or the episode has no turn of a policy.
    pub async fn first_prompt(&self, task: &TaskRef, seed: Seed, context: usize) -> Option<Vec<u32>> {
        if self.calls_out() || self.agent.is_some() {
            return None;
        }
        let seen = OnceLock::new();
        let policy = ScriptedPolicy::new(context, |request: &GenerateRequest| {
            seen.get_or_init(|| request.tokens.to_vec());
            self.stop.to_vec()
        });
        let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
        let (sampling, guidance) = (Sampling::GREEDY, None);
        let plan = EpisodePlan { id, task: task.clone(), seed, sampling, place: 0, turns: Some(1), guidance };
        // Whatever ends the episode, the prompt was seen before.
        let _ = play(self, plan, Actor::Policy(&policy)).await;
        seen.into_inner()
    }

    /// Starts a trial in which each seat has its functions; `None` if the oracle cannot play it without outbound calls.
    async fn oracle_trial(&self, task: &TaskRef, seed: Seed) -> Option<Episode> {
        if !self.plugins.environment.plugin.offers(OptionalInterface::Oracle) || self.calls_out() {
            return None;
        }
        let mut episode = self.trial(task, seed).await?;
        episode.offer(self.plugins.seats() as u32, &self.context.functions()).ok()?;
        episode.observe_opening(&mut NoHooks);
        Some(episode)
    }

    /// Whether the environment or a tool may make outbound calls, which cost money and change other systems.
    fn calls_out(&self) -> bool {
        let tools = self.plugins.tools.tools().iter().map(|tool| &tool.bound.plugin);
        let mut plugins = self.plugins.environment.plugin.chain().chain(tools);
        plugins.any(|plugin| {
            let capabilities = &plugin.manifest().capabilities;
            capabilities.contains(&Capability::Model) || capabilities.contains(&Capability::Http)
        })
    }
}
