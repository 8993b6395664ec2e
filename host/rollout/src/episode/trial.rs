//! Trial episodes before a run, which are not stored: the functions that an oracle calls, its episode with the failures of
//! plugins, and the first prompt of a policy.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use gymkhana_driver::{Episode, EpisodeSeeds, EpisodeSetup, NoHooks, ORACLE_TURNS, StartFailure};
use gymkhana_policy::{GenerateRequest, Sampling, ScriptedPolicy};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Failure, Phase, Seed, TaskRef};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Advice, OptionalInterface, Plugin};

use crate::context::host_functions;
use crate::episode::finish::{ended, never_started};
use crate::episode::state::{Actor, EpisodePlan, EpisodeState};
use crate::replay::overrides::ReplayOverrides;
use crate::reward::{EpisodeEnd, EpisodeName, MetricRuleError};
use crate::scoring::reward_call::{RewardCall, ScoringResult};
use crate::scoring::reward_failure;
use crate::{Rollout, RolloutError};

/// Turns of an episode that is shown without an oracle.
const SHOWN_TURNS: u32 = 2;

/// Reason why no first prompt of a task is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPrompt {
    /// The environment or a tool may make outbound calls.
    #[error("a plugin may make outbound calls")]
    CallsOut,
    /// An agent program plays.
    #[error("an agent program plays")]
    Agent,
    /// The prompt leaves no room for a reply.
    #[error("it is longer than the context of {context} tokens")]
    TooLong {
        /// Length of the context in tokens.
        context: usize,
    },
    /// A plugin failed.
    #[error("{0}")]
    Failed(String),
    /// The episode ends without a turn of a policy.
    #[error("the episode has no turn of the policy")]
    NoTurn,
}

impl Rollout {
    /// Starts a trial of a task; `None` if the environment fails.
    pub(crate) async fn trial(&self, task: &TaskRef, seed: Seed) -> Option<Episode> {
        self.start_trial(task, seed).await.ok()
    }

    async fn start_trial(&self, task: &TaskRef, seed: Seed) -> Result<Episode, StartFailure> {
        let setup = EpisodeSetup {
            environment: &self.plugins.environment,
            tools: &self.plugins.tools,
            task: task.clone(),
            seeds: EpisodeSeeds::same(seed),
            overrides: Arc::default(),
            max_bytes: self.limits.episode_bytes,
        };
        Episode::open(setup, self.plugins.seats(), &host_functions(&self.context), &mut NoHooks).await
    }

    /// Functions that the oracle calls in its first turn of a task and that no plugin offers. The oracle receives that
    /// `others` are available too. Empty if the environment has no oracle or fails, or if a plugin can make outbound
    /// calls, which a trial must not repeat.
    pub async fn missing_functions(&self, task: &TaskRef, seed: Seed, others: &[&str]) -> Vec<String> {
        if !self.oracle_can_play() {
            return vec![];
        }
        let Some(mut episode) = self.trial(task, seed).await else { return vec![] };
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

    /// Plays a trial of a task by the oracle and asks each reward about it, except rewards that can make outbound calls.
    /// The failures of the record are those of the environment, the tools and the rewards. `None` without an oracle, or if
    /// the environment or a tool can make outbound calls.
    pub async fn oracle_trial(&self, task: &TaskRef, seed: Seed) -> Option<EpisodeRecord> {
        if !self.oracle_can_play() {
            return None;
        }
        let (begun, plan) = (Instant::now(), plan(task, seed));
        let mut episode = match self.start_trial(task, seed).await {
            Ok(episode) => episode,
            Err(failed) => return Some(never_started(self, &plan, failed, begun)),
        };
        let ending = episode.play_oracle(self.limits.calls).await.unwrap_or_else(|failure| {
            episode.data.failures.push(failure);
            Ending::EnvironmentFailed
        });
        let mut record = episode.finish(&NoHooks, ending, begun, ended(self, &plan, ending, vec![])).await;
        if !matches!(record.ending, Ending::Dropped | Ending::EnvironmentFailed) {
            let failures = self.refusals_of_rewards(&record).await;
            record.failures.extend(failures);
        }
        Some(record)
    }

    /// Checks that the end of a trial has the facts that the success rule and gates name. Nothing is checked if the
    /// environment did not end the trial.
    ///
    /// # Errors
    /// If a fact is missing, so that the rule could never hold.
    pub fn check_trial_facts(&self, trial: &EpisodeRecord) -> Result<(), MetricRuleError> {
        match EpisodeEnd::new(EpisodeName::Trial(trial.task.clone()), trial.ending, &trial.extras) {
            Some(end) => self.reward_sum.check_facts(&self.plugins.terms(), &end),
            None => Ok(()),
        }
    }

    /// The tokens that a policy with this context reads before the first reply to a task.
    ///
    /// # Errors
    /// The reason why there are none.
    pub async fn first_prompt(&self, task: &TaskRef, seed: Seed, context: usize) -> Result<Vec<u32>, NoPrompt> {
        if self.calls_out() {
            return Err(NoPrompt::CallsOut);
        }
        if self.agent.is_some() {
            return Err(NoPrompt::Agent);
        }
        let seen = OnceLock::new();
        let policy = ScriptedPolicy::new(context, |request: &GenerateRequest| {
            seen.get_or_init(|| request.tokens.to_vec());
            self.stop.to_vec()
        });
        let plan = EpisodePlan { turns: Some(1), ..plan(task, seed) };
        // Whatever ends the episode, the prompt was seen before.
        let played = self.play_trial(plan, Actor::Policy(&policy)).await;
        seen.into_inner().ok_or_else(|| match played {
            Ok(record) if record.ending == Ending::ContextLimit => {
                NoPrompt::TooLong { context: self.limits.context_tokens.min(context) }
            }
            Ok(record) => match record.failures.last() {
                Some(failure) => NoPrompt::Failed(failure.to_string()),
                None => NoPrompt::NoTurn,
            },
            Err(error) => NoPrompt::Failed(error.to_string()),
        })
    }

    /// The texts of the contexts of a whole episode as policies would read them: the oracle plays, or without one each reply
    /// is empty, for two turns.
    ///
    /// # Errors
    /// The reason why there are none.
    pub async fn shown_episode(&self, task: &TaskRef, seed: Seed, context: usize) -> Result<Vec<String>, NoPrompt> {
        if self.calls_out() {
            return Err(NoPrompt::CallsOut);
        }
        if self.agent.is_some() {
            return Err(NoPrompt::Agent);
        }
        let silent = ScriptedPolicy::new(context, |_: &GenerateRequest| self.stop.iter().copied().take(1).collect());
        let by_oracle = self.oracle_can_play() && !self.context.asks_for_notes();
        let (actor, turns) = match by_oracle {
            true => (Actor::Oracle, ORACLE_TURNS),
            false => (Actor::Policy(&silent), SHOWN_TURNS),
        };
        let plan = EpisodePlan { turns: Some(turns), ..plan(task, seed) };
        let failed = |why: String| NoPrompt::Failed(why);
        let record = self.play_trial(plan, actor).await.map_err(|error| failed(error.to_string()))?;
        let texts = record.segments.iter().map(|segment| self.chat.decode(segment.tokens()));
        texts.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))
    }

    /// Names of the functions that the seats may call at the start of a task. `None` if a plugin fails or can make outbound
    /// calls, which a trial must not repeat.
    pub async fn offered_functions(&self, task: &TaskRef, seed: Seed) -> Option<BTreeSet<String>> {
        if self.calls_out() {
            return None;
        }
        let episode = self.trial(task, seed).await?;
        let of_seat = |seat| episode.data.functions(seat).iter().map(|function| function.name.clone());
        Some((0..self.plugins.seats() as u32).flat_map(of_seat).collect())
    }

    /// Plays an episode without the agent program.
    async fn play_trial(&self, plan: EpisodePlan, actor: Actor<'_>) -> Result<EpisodeRecord, RolloutError> {
        EpisodeState::begin(self, plan, ReplayOverrides::default()).await?.play(actor).await
    }

    /// Failures of rewards that score a trial, without those of the host and without rewards that can make outbound calls.
    async fn refusals_of_rewards(&self, trial: &EpisodeRecord) -> Vec<Failure> {
        let mut failures = Vec::new();
        for reward in self.plugins.rewards.iter().filter(|reward| !calls_out(&reward.bound.plugin)) {
            let mut call = RewardCall::new(self, reward, &[], &[]);
            if let ScoringResult::Failed(error) = call.score(std::slice::from_ref(trial), &[0]).await {
                failures.push(reward_failure(reward, error));
            }
        }
        failures
    }

    /// Whether the environment has an oracle that can play without outbound calls.
    fn oracle_can_play(&self) -> bool {
        self.plugins.environment.plugin.offers(OptionalInterface::Oracle) && !self.calls_out()
    }

    /// Whether the environment or a tool may make outbound calls, which cost money and change other systems.
    fn calls_out(&self) -> bool {
        let tools = self.plugins.tools.tools().iter().map(|tool| &tool.bound.plugin);
        self.plugins.environment.plugin.chain().chain(tools).any(calls_out)
    }
}

/// Whether a plugin may make outbound calls.
pub(crate) fn calls_out(plugin: &Plugin) -> bool {
    let capabilities = &plugin.manifest().capabilities;
    capabilities.contains(&Capability::Model) || capabilities.contains(&Capability::Http)
}

/// The plan of a trial of a task.
fn plan(task: &TaskRef, seed: Seed) -> EpisodePlan {
    let id = EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 };
    let (task, sampling) = (task.clone(), Sampling::GREEDY);
    EpisodePlan { id, task, seed, sampling, place: 0, turns: Some(ORACLE_TURNS), guidance: None }
}
