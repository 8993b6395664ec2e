//! One episode from start to end: generate, parse, call tools or step the environment, append, and again.
//!
//! The order of everything that is recorded follows the policy's own order, never that in which answers arrived,
//! so that a record does not depend on the host's scheduling.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use gymkhana_episode::{
    Boundary, Call, CallCost, EPISODE_SCHEMA, Ending, EpisodeId, EpisodeRecord, Failure, FailureKind, Function,
    NamedValue, Opening, Part, SeatFunctions, SeatRewards, Seed, TaskRef, Timing, Turn, text_of,
};
use gymkhana_sandbox::{CallError, Deed, EnvironmentEpisode, Optional, Stepped};

use crate::assembly::sum;
use crate::chat::Role;
use crate::context::Context;
use crate::injected::Injected;
use crate::limits::Used;
use crate::policy::{Conversation, Policy, Sampling};
use crate::speak::{self, Utterance};
use crate::tool_call::{WrittenCall, parse_reply};
use crate::tools::{FinalViews, ToolAnswer, Toolbox};
use crate::{Rollout, RolloutError};

/// What one episode is to be.
#[derive(Debug, Clone)]
pub struct EpisodePlan {
    /// Names it.
    pub id: EpisodeId,
    /// What it is about.
    pub task: TaskRef,
    /// Its place in the tree of seeds.
    pub seed: Seed,
    /// How its policy chooses tokens.
    pub sampling: Sampling,
    /// Its place in the batch, from 0.
    pub place: u32,
}

/// Who speaks for the seats.
#[derive(Clone, Copy)]
pub enum Speaker<'a> {
    /// A policy, for every seat.
    Policy(&'a dyn Policy),
    /// The environment's oracle.
    Oracle,
}

/// Conversations are numbered through, so that no two of a process share a cache.
static CONVERSATIONS: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Play<'a> {
    pub(crate) rollout: &'a Rollout,
    plan: &'a EpisodePlan,
    pub(crate) speaker: Speaker<'a>,
    pub(crate) injected: &'a Injected,
    pub(crate) environment: EnvironmentEpisode,
    opening: Opening,
    toolbox: Toolbox<'a>,
    pub(crate) contexts: Vec<Context>,
    turns: Vec<Turn>,
    rewards: Vec<SeatRewards>,
    extras: Vec<NamedValue>,
    pub(crate) failures: Vec<Failure>,
    costs: Vec<CallCost>,
    pub(crate) timing: Timing,
    begun: Instant,
    seat: u32,
    steps: u32,
    calls: u32,
    /// What the last turn's calls were answered, for the oracle.
    pub(crate) results: Vec<String>,
}

/// Plays one episode to its end. Whatever goes wrong is in the record, except for the host's own faults.
pub(crate) async fn play(
    rollout: &Rollout,
    plan: &EpisodePlan,
    speaker: Speaker<'_>,
    injected: &Injected,
) -> Result<EpisodeRecord, RolloutError> {
    let begun = Instant::now();
    let bound = &rollout.plugins.environment;
    let started = match injected.failure(&rollout.environment_boundary(), "start") {
        Some(failure) => Err(failure),
        None => EnvironmentEpisode::start(&bound.plugin, &plan.task, &bound.options, plan.seed.child("environment"))
            .await
            .map_err(|error| rollout.environment_failure("start", error)),
    };
    let (environment, started) = match started {
        Ok(started) => started,
        Err(failure) => return Ok(never_started(plan, failure, begun)),
    };
    let mut play = Play {
        rollout,
        plan,
        speaker,
        injected,
        environment,
        toolbox: Toolbox::new(rollout, injected, plan.seed, &started.opening.setup),
        contexts: vec![],
        turns: vec![],
        rewards: vec![],
        extras: vec![],
        failures: vec![],
        costs: vec![],
        timing: Timing::default(),
        begun,
        seat: started.seat,
        steps: 0,
        calls: 0,
        results: vec![],
        opening: started.opening,
    };
    play.pay("start".to_owned());
    let ending = match play.open() {
        Ok(()) => play.run().await?,
        Err(failure) => {
            play.failures.push(failure);
            Ending::EnvironmentFailed
        }
    };
    play.finish(ending).await
}

impl Play<'_> {
    /// Gives each seat its functions and its first observations.
    fn open(&mut self) -> Result<(), Failure> {
        let tools: Vec<Function> = self.toolbox.functions();
        let seats = self.rollout.plugins.seats() as u32;
        let mut offered = Vec::new();
        for seat in 0..seats {
            let own = self.opening.functions.iter().find(|own| own.seat == seat);
            let own: Vec<Function> = own.map(|own| own.functions.clone()).unwrap_or_default();
            if let Some(twice) = own.iter().find(|own| self.rollout.plugins.directory.contains_key(&own.name)) {
                let message = format!("it offers a function `{}`, which a tool offers as well", twice.name);
                let error = CallError { kind: FailureKind::Malformed, message };
                return Err(self.rollout.environment_failure("start", error));
            }
            let functions: Vec<Function> = own.into_iter().chain(tools.iter().cloned()).collect();
            let id = CONVERSATIONS.fetch_add(1, Ordering::Relaxed);
            let conversation = Conversation { id, place: self.plan.place * seats + seat };
            self.contexts.push(Context::new(seat, conversation, functions.clone(), self.rollout.system.as_deref()));
            offered.push(SeatFunctions { seat, functions });
            self.rewards.push(SeatRewards { seat, rewards: vec![] });
        }
        self.opening.functions = offered;
        let observations = self.opening.observations.clone();
        for (seat, content) in observations {
            self.contexts[seat as usize].hear(Role::User, text_of(&content));
            self.turns.push(Turn::Observation { seat, content });
        }
        Ok(())
    }

    async fn run(&mut self) -> Result<Ending, RolloutError> {
        let mut taken = 0;
        loop {
            if let Some(ending) = self.take_turn().await? {
                return Ok(ending);
            }
            if is_hosts_fault(&self.failures) {
                return Ok(Ending::Dropped);
            }
            taken += 1;
            if let Some(ending) = self.limit_reached(taken) {
                return Ok(ending);
            }
        }
    }

    /// Whether a limit leaves no room for another turn. On a replay the clock's word is the recorded one.
    fn limit_reached(&self, taken: u32) -> Option<Ending> {
        let context = &self.contexts[self.seat as usize];
        let mut used = Used {
            turns: context.turns,
            context_tokens: context.tokens(),
            calls: self.calls,
            time: self.begun.elapsed(),
        };
        if let Some(recorded) = self.injected.time_limit_after() {
            used.time = if taken >= recorded { self.rollout.limits.time } else { std::time::Duration::ZERO };
        }
        self.rollout.limits.reached(used)
    }

    /// One turn of the seat to move; gives the ending if the episode ends with it.
    async fn take_turn(&mut self) -> Result<Option<Ending>, RolloutError> {
        let seat = self.seat;
        let since = Instant::now();
        let utterance = speak::utterance(self, seat, self.plan).await?;
        self.timing.policy_ms += milliseconds(since);
        let (sampled, stopped) = match utterance {
            Utterance::Said { sampled, stopped } => (sampled, stopped),
            Utterance::Ended(ending) => return Ok(Some(ending)),
        };
        let text = self.rollout.chat.decode_reply(&sampled.tokens)?;
        self.contexts[seat as usize].speak(text.clone(), &sampled, stopped)?;
        let reply = parse_reply(&text);
        let says = |text: String| Turn::Message { seat, content: vec![Part::Text(text)] };
        if reply.calls.is_empty() {
            self.turns.push(says(reply.message.clone()));
            return Ok(self.step(seat, Deed::Message(&[Part::Text(reply.message)])).await.err());
        }
        if !reply.message.is_empty() {
            self.turns.push(says(reply.message));
        }
        self.answer_calls(seat, reply.calls).await
    }

    /// Answers a turn's calls: tools side by side, the environment's own functions in their order.
    async fn answer_calls(&mut self, seat: u32, written: Vec<WrittenCall>) -> Result<Option<Ending>, RolloutError> {
        if self.calls as usize + written.len() > self.rollout.limits.calls as usize {
            return Ok(Some(Ending::CallLimit));
        }
        let calls: Vec<(Call, Option<String>)> = written.into_iter().map(|written| self.number(written)).collect();
        for (call, _) in &calls {
            let cost = self.contexts[seat as usize].functions.iter().find(|function| function.name == call.name);
            let cost = cost.map_or(0.0, |function| function.cost);
            self.turns.push(Turn::Call { seat, call: call.clone(), cost });
        }
        let since = Instant::now();
        let answers = self.toolbox.answer(&calls).await;
        self.timing.tool_ms += milliseconds(since);
        self.results.clear();
        let mut ending = None;
        for ((call, malformed), answer) in calls.iter().zip(answers) {
            let answer = match (malformed, answer) {
                (Some(reason), _) => ToolAnswer::failed(reason.clone()),
                (None, Some(answer)) => answer,
                (None, None) if self.is_own_function(seat, &call.name) => {
                    if ending.is_some() {
                        ToolAnswer::failed("the episode is over".to_owned())
                    } else if self.seat != seat {
                        ToolAnswer::failed("it is not your turn".to_owned())
                    } else {
                        // What the environment shows this seat first is the answer; `step` has recorded it.
                        ending = self.step(seat, Deed::Call(call)).await.err();
                        continue;
                    }
                }
                (None, None) => ToolAnswer::failed(self.unknown_function(seat, &call.name)),
            };
            self.failures.extend(answer.failure);
            self.costs.extend(answer.cost);
            let text = text_of(&answer.content);
            self.contexts[seat as usize].hear(Role::Tool, text.clone());
            self.results.push(text);
            self.turns.push(Turn::Answer { seat, id: call.id.clone(), content: answer.content, failed: answer.failed });
        }
        Ok(ending)
    }

    /// Gives a written call its id; a malformed one keeps its text and its fault.
    fn number(&mut self, written: WrittenCall) -> (Call, Option<String>) {
        let id = format!("call-{}", self.calls);
        self.calls += 1;
        match written {
            WrittenCall::Sound { name, arguments } => (Call { id, name, arguments }, None),
            WrittenCall::Malformed { text, reason } => {
                (Call { id, name: String::new(), arguments: text }, Some(reason))
            }
        }
    }

    fn is_own_function(&self, seat: u32, name: &str) -> bool {
        let known = self.contexts[seat as usize].functions.iter().any(|function| function.name == name);
        known && !self.rollout.plugins.directory.contains_key(name)
    }

    fn unknown_function(&self, seat: u32, name: &str) -> String {
        let functions = &self.contexts[seat as usize].functions;
        let known: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        if known.is_empty() {
            return format!("there is no function `{name}`, nor any other");
        }
        format!("there is no function `{name}`; there is {}", known.join(", "))
    }

    /// Acts for a seat and hands round what the environment says.
    async fn step(&mut self, seat: u32, deed: Deed<'_>) -> Result<(), Ending> {
        let during = format!("step {}", self.steps);
        self.steps += 1;
        let since = Instant::now();
        let stepped = match self.injected.failure(&self.rollout.environment_boundary(), &during) {
            Some(failure) => Err(failure),
            None => {
                let stepped = self.environment.step(seat, deed).await;
                let stepped = stepped.map_err(|error| self.rollout.environment_failure(&during, error));
                self.pay(during);
                stepped
            }
        };
        self.timing.environment_ms += milliseconds(since);
        match stepped {
            Ok(stepped) => self.take_in(stepped, seat, deed),
            Err(failure) => {
                self.failures.push(failure);
                Err(Ending::EnvironmentFailed)
            }
        }
    }

    /// Writes down what the environment's last call used.
    fn pay(&mut self, during: String) {
        let at = self.rollout.environment_boundary();
        self.costs.push(CallCost { at, during, cost: self.environment.cost() });
    }

    fn take_in(&mut self, stepped: Stepped, mover: u32, deed: Deed<'_>) -> Result<(), Ending> {
        for rewards in &mut self.rewards {
            let earned = stepped.rewards.iter().filter(|(seat, _)| *seat == rewards.seat);
            rewards.rewards.push(sum(earned.map(|(_, reward)| *reward)));
        }
        let mut call = match deed {
            Deed::Call(call) => Some(call),
            Deed::Message(_) | Deed::Other(_) => None,
        };
        for (seat, content) in stepped.observations {
            let text = text_of(&content);
            match call.take_if(|_| seat == mover) {
                Some(call) => {
                    self.contexts[seat as usize].hear(Role::Tool, text.clone());
                    self.results.push(text);
                    self.turns.push(Turn::Answer { seat, id: call.id.clone(), content, failed: false });
                }
                None => {
                    self.contexts[seat as usize].hear(Role::User, text);
                    self.turns.push(Turn::Observation { seat, content });
                }
            }
        }
        if let Some(call) = call {
            // The environment had nothing to say; the call is answered all the same.
            self.contexts[mover as usize].hear(Role::Tool, String::new());
            self.turns.push(Turn::Answer { seat: mover, id: call.id.clone(), content: vec![], failed: false });
        }
        self.extras = stepped.extras;
        self.seat = stepped.seat;
        if stepped.terminated {
            Err(Ending::Terminated)
        } else if stepped.truncated {
            Err(Ending::Truncated)
        } else {
            Ok(())
        }
    }

    /// Looks once more at everything and writes the record.
    async fn finish(mut self, mut ending: Ending) -> Result<EpisodeRecord, RolloutError> {
        if ending.is_limit()
            && let Err(error) = self.environment.check_totals()
        {
            self.failures.push(self.rollout.environment_failure("the end by a limit", error));
            ending = Ending::EnvironmentFailed;
        }
        if let Speaker::Policy(policy) = self.speaker {
            for context in &self.contexts {
                policy.release(context.conversation);
            }
        }
        let mut privileged = Vec::new();
        let plugin = &self.rollout.plugins.environment.plugin;
        if ending != Ending::EnvironmentFailed && plugin.offers(Optional::Privileged) {
            let during = "privileged";
            let facts = match self.injected.failure(&self.rollout.environment_boundary(), during) {
                Some(failure) => Err(failure),
                None => {
                    let facts = self.environment.privileged().await;
                    self.pay(during.to_owned());
                    facts.map_err(|error| self.rollout.environment_failure(during, error))
                }
            };
            match facts {
                Ok(facts) => privileged = facts,
                Err(failure) => self.failures.push(failure),
            }
        }
        let FinalViews { views, failures, costs } = self.toolbox.final_views().await;
        self.failures.extend(failures);
        self.costs.extend(costs);
        self.timing.total_ms = milliseconds(self.begun);
        Ok(EpisodeRecord {
            opening: self.opening,
            turns: self.turns,
            segments: self.contexts.into_iter().flat_map(Context::into_segments).collect(),
            environment_rewards: self.rewards,
            extras: self.extras,
            privileged,
            views,
            costs: self.costs,
            timing: self.timing,
            ..ended(self.plan, ending, self.failures)
        })
    }
}

/// Whether a fault of the host is among the failures: then the episode is neither the agent's nor a plugin's doing.
fn is_hosts_fault(failures: &[Failure]) -> bool {
    failures.iter().any(|failure| failure.kind.is_hosts())
}

/// The record of an episode whose environment did not start.
fn never_started(plan: &EpisodePlan, failure: Failure, begun: Instant) -> EpisodeRecord {
    let timing = Timing { total_ms: milliseconds(begun), ..Timing::default() };
    EpisodeRecord { timing, ..ended(plan, Ending::EnvironmentFailed, vec![failure]) }
}

/// The record of an episode that ended so, with nothing in it yet; one that met a fault of the host is dropped,
/// however it ended.
fn ended(plan: &EpisodePlan, ending: Ending, failures: Vec<Failure>) -> EpisodeRecord {
    let ending = if is_hosts_fault(&failures) { Ending::Dropped } else { ending };
    EpisodeRecord {
        schema: EPISODE_SCHEMA,
        id: plan.id,
        task: plan.task.clone(),
        seed: plan.seed,
        training_step: plan.id.step,
        opening: Opening::default(),
        turns: vec![],
        segments: vec![],
        ending,
        environment_rewards: vec![],
        extras: vec![],
        privileged: vec![],
        views: vec![],
        scores: vec![],
        rewards: vec![],
        success: false,
        failures,
        costs: vec![],
        timing: Timing::default(),
    }
}

pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The tokens of a context as a policy takes them.
pub(crate) fn shared(tokens: &[u32]) -> Arc<[u32]> {
    tokens.into()
}

impl Rollout {
    pub(crate) fn environment_boundary(&self) -> Boundary {
        Boundary::Environment(self.plugins.environment.plugin.name().to_owned())
    }

    pub(crate) fn environment_failure(&self, during: &str, error: CallError) -> Failure {
        Failure { at: self.environment_boundary(), kind: error.kind, during: during.to_owned(), message: error.message }
    }
}
