//! A live episode: the environment and its tools, with the host's part of the state.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_record::{
    Boundary, CallCost, CallSite, Content, Exchange, Failure, FailureKind, Function, LogEntry, NamedValue,
    SeatFunctions, SeatRewards, Seed, TaskRef, Turn, stored_bytes,
};
use gymkhana_sandbox::{Advice, CallError, CallFuture, EnvironmentEpisode, OptionalInterface};
use serde::Serialize;

use crate::chain::{Chain, boundary};
use crate::data::EpisodeData;
use crate::hooks::{Hooks, TimedCall};
use crate::limits::ByteBudget;
use crate::limits::log::EpisodeLog;
use crate::overrides::CallOverrides;
use crate::tools::Toolbox;
use crate::tools::tool_set::{BoundPlugin, ToolSet};

/// Seeds of the plugins of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeSeeds {
    /// Seed of the environment.
    pub environment: Seed,
    /// Root of the seeds of the tools.
    pub tools: Seed,
}

impl EpisodeSeeds {
    /// Seeds of an episode with this seed, as runs derive them.
    #[must_use]
    pub fn of(seed: Seed) -> Self {
        Self { environment: seed.child("environment"), tools: seed.child("tool") }
    }

    /// The same seed for all plugins, as trials use it.
    #[must_use]
    pub fn same(seed: Seed) -> Self {
        Self { environment: seed, tools: seed }
    }
}

/// Inputs of a new episode.
pub struct EpisodeSetup<'a> {
    /// The environment.
    pub environment: &'a BoundPlugin,
    /// The tools.
    pub tools: &'a Arc<ToolSet>,
    /// The task.
    pub task: TaskRef,
    /// The seeds.
    pub seeds: EpisodeSeeds,
    /// Recorded results that replace calls.
    pub overrides: Arc<CallOverrides>,
    /// Budget of the record for what plugins return, in bytes.
    pub max_bytes: u64,
}

/// An environment that did not start.
#[derive(Debug, Clone)]
pub struct StartFailure {
    /// The failure.
    pub failure: Failure,
    /// Outbound calls that the environment made before it failed.
    pub exchanges: Vec<Exchange>,
    /// Lines that the environment logged before it failed.
    pub logs: Vec<LogEntry>,
}

/// A live episode. Dropping it ends it.
pub struct Episode {
    pub(crate) bound: BoundPlugin,
    pub(crate) environment: EnvironmentEpisode,
    /// Records the outbound calls and the logs of the environment's plugins.
    pub(crate) chain: Chain,
    pub(crate) toolbox: Toolbox,
    /// The host's part.
    pub data: EpisodeData,
}

impl BoundPlugin {
    /// The boundary of the environment that this is.
    #[must_use]
    pub fn boundary(&self) -> Boundary {
        boundary(&self.plugin)
    }

    /// A failure of the environment that this is, or of the plugin inside of it that failed.
    pub(crate) fn failure(&self, call_site: CallSite, error: CallError) -> Failure {
        let at = error.inner.map_or_else(|| self.boundary(), Boundary::Environment);
        Failure { at, kind: error.kind, call_site, message: error.message }
    }
}

impl Episode {
    /// Starts the environment, gives each of `seats` seats its functions, with those of the owner, and adds the first
    /// observations to the transcript.
    ///
    /// # Errors
    /// As [`Episode::start`] and [`Episode::offer`].
    pub async fn open<H: Hooks>(
        setup: EpisodeSetup<'_>,
        seats: usize,
        owners: &[Function],
        hooks: &mut H,
    ) -> Result<Self, StartFailure> {
        let mut episode = Self::start(setup, hooks).await?;
        if let Err(failure) = episode.offer(u32::try_from(seats).unwrap_or(u32::MAX), owners) {
            let EpisodeData { exchanges, logs, .. } = episode.data;
            return Err(StartFailure { failure, exchanges, logs: logs.into_entries() });
        }
        episode.observe_opening(hooks);
        Ok(episode)
    }

    /// Starts the environment. [`offer`](Self::offer) and [`observe_opening`](Self::observe_opening) follow.
    ///
    /// # Errors
    /// If the environment rejects the task or an option, or fails.
    pub async fn start<H: Hooks>(setup: EpisodeSetup<'_>, hooks: &H) -> Result<Self, StartFailure> {
        let EpisodeSetup { environment: bound, tools, task, seeds, overrides, max_bytes } = setup;
        let (chain, plugin) = Chain::new(&bound.plugin, &overrides);
        let mut logs = EpisodeLog::new(plugin.log_bytes());
        let started = match overridden(&chain, &overrides, &CallSite::Reset) {
            Some(failure) => Err(failure),
            None => {
                let _timer = hooks.time(TimedCall::Environment);
                EnvironmentEpisode::start(&plugin, &task, &bound.options, seeds.environment)
                    .await
                    .map_err(|error| bound.failure(CallSite::Reset, error))
            }
        };
        let mut budget = ByteBudget::new(max_bytes);
        let started = started.and_then(|(environment, started)| {
            let charged = budget.charge(&started.opening);
            charged.map(|()| (environment, started)).map_err(|error| bound.failure(CallSite::Reset, error))
        });
        let (environment, started) = match started {
            Ok(started) => started,
            Err(failure) => {
                let exchanges = chain.take_exchanges(&CallSite::Reset);
                logs.extend(chain.take_log(&CallSite::Reset, None));
                return Err(StartFailure { failure, exchanges, logs: logs.into_entries() });
            }
        };
        let toolbox = Toolbox::new(tools, &overrides, seeds.tools, &started.opening.setup);
        let data = EpisodeData::new(task, overrides, started, budget, logs);
        let mut episode = Self { bound: bound.clone(), environment, chain, toolbox, data };
        episode.account(&CallSite::Reset, None);
        Ok(episode)
    }

    /// Gives each of `seats` seats its functions: those of the environment, of the seat's tools and of the owner.
    ///
    /// # Errors
    /// If the environment offers a function that a tool or the owner offers, or the functions of all seats exceed the
    /// record's budget.
    pub fn offer(&mut self, seats: u32, owners: &[Function]) -> Result<(), Failure> {
        let tools = self.toolbox.tools();
        let mut offered = Vec::new();
        for seat in 0..seats {
            let own = self.data.functions(seat);
            for function in own {
                let other = if tools.index_of(&function.name).is_some() {
                    "a tool"
                } else if owners.iter().any(|owner| owner.name == function.name) {
                    "the host"
                } else {
                    continue;
                };
                let message = format!("it offers a function `{}`, which {other} offers as well", function.name);
                return Err(self.failure(CallSite::Reset, CallError::new(FailureKind::Malformed, message)));
            }
            let shared = tools.stored_bytes_of(seat).saturating_add(stored_bytes(owners));
            if let Err(error) = self.data.budget.charge_bytes(shared) {
                return Err(self.failure(CallSite::Reset, error));
            }
            let own = self.data.functions(seat);
            let functions = own.iter().chain(tools.functions_of(seat)).chain(owners).cloned().collect();
            offered.push(SeatFunctions { seat, functions });
        }
        self.data.opening.functions = offered;
        self.data.rewards = (0..seats).map(|seat| SeatRewards { seat, rewards: vec![] }).collect();
        self.data.results = (0..seats).map(|_| vec![]).collect();
        Ok(())
    }

    /// Adds the initial observations to the transcript.
    pub fn observe_opening<H: Hooks>(&mut self, hooks: &mut H) {
        // The record holds them twice: in its opening and in its transcript.
        self.data.budget.add(&self.data.opening.observations);
        for (seat, content) in self.data.opening.observations.clone() {
            self.observe(hooks, seat, content);
        }
    }

    /// Adds an observation to the transcript.
    pub fn observe<H: Hooks>(&mut self, hooks: &mut H, seat: u32, content: Content) {
        self.record(hooks, Turn::Observation { seat, content });
    }

    pub(crate) fn record<H: Hooks>(&mut self, hooks: &mut H, turn: Turn) {
        hooks.recorded(&turn);
        self.data.turns.push(turn);
    }

    /// Asks the environment's oracle for the next turn of the seat to move.
    ///
    /// # Errors
    /// If the environment has no oracle, or fails.
    pub async fn advise<H: Hooks>(&mut self, hooks: &H) -> Result<Advice, Failure> {
        let functions = self.toolbox.tools().functions_of(self.data.seat);
        let names: Vec<String> = functions.map(|function| function.name.clone()).collect();
        let results = self.data.results.get(self.data.seat as usize).map_or(&[][..], Vec::as_slice);
        let timer = hooks.time(TimedCall::Environment);
        let advice = self.environment.advise(&names, results).await;
        drop(timer);
        self.account(&CallSite::Advise, Some(self.data.seat));
        advice.map_err(|error| self.failure(CallSite::Advise, error))
    }

    /// Reads the environment through an optional interface; `None` if the environment does not offer it. The failure is
    /// not added to the episode's failures.
    pub async fn read<T, H: Hooks>(
        &mut self,
        hooks: &H,
        interface: OptionalInterface,
        site: CallSite,
        read: impl for<'e> FnOnce(&'e mut EnvironmentEpisode) -> CallFuture<'e, T>,
    ) -> Option<Result<T, Failure>> {
        if !self.offers(interface) {
            return None;
        }
        if let Some(failure) = self.overridden(&site) {
            return Some(Err(failure));
        }
        let timer = hooks.time(TimedCall::Environment);
        let read = read(&mut self.environment).await;
        drop(timer);
        self.account(&site, None);
        Some(read.map_err(|error| self.failure(site, error)))
    }

    /// Returns a value of the environment that the record is about to hold.
    ///
    /// # Errors
    /// If the record has no room for it.
    pub fn keep<T: Serialize>(&mut self, site: CallSite, value: T) -> Result<T, Failure> {
        let charged = self.data.budget.charge(&value);
        charged.map(|()| value).map_err(|error| self.failure(site, error))
    }

    /// The canonical form of the environment's state after `taken` turns of all seats. It is not charged to the
    /// episode's costs.
    ///
    /// # Errors
    /// If the environment offers no state keys, or fails.
    pub async fn state_key(&mut self, taken: u32) -> Result<Vec<u8>, Failure> {
        let site = CallSite::StateKey(taken);
        if let Some(failure) = self.overridden(&site) {
            return Err(failure);
        }
        let key = self.environment.state_key().await;
        self.environment.take_inner_costs();
        self.take_exchanges(&site);
        self.take_log(&site, None);
        key.map_err(|error| self.failure(site, error))
    }

    /// Checks that the sum of each seat's rewards is in the environment's declared range.
    ///
    /// # Errors
    /// If a sum is out of range.
    pub fn check_totals(&self) -> Result<(), Failure> {
        self.environment.check_totals().map_err(|error| self.failure(CallSite::LimitCheck, error))
    }

    /// Final views of the tools that were called and have one, as `tool.field`. Failures are added to the episode's.
    pub async fn final_views(&mut self) -> Vec<NamedValue> {
        self.toolbox.final_views(&mut self.data).await
    }

    /// Derives all later random numbers of the plugins from these seeds.
    pub fn reseed(&mut self, seeds: EpisodeSeeds) {
        self.environment.reseed(seeds.environment);
        self.toolbox.reseed(seeds.tools);
    }

    /// Ends a replay: later calls use these overrides, and outbound calls are made.
    pub fn end_replay(&mut self, overrides: Arc<CallOverrides>) {
        self.toolbox.end_replay(&overrides);
        self.data.overrides = overrides;
        self.chain.end_replay();
    }

    /// The live environment, for calls that do not belong to the record.
    pub fn environment(&mut self) -> &mut EnvironmentEpisode {
        &mut self.environment
    }

    /// The environment's boundary in failures, costs and exchanges.
    #[must_use]
    pub fn boundary(&self) -> Boundary {
        self.bound.boundary()
    }

    /// A failure of the environment.
    #[must_use]
    pub fn failure(&self, call_site: CallSite, error: CallError) -> Failure {
        self.bound.failure(call_site, error)
    }

    /// Whether the environment offers an optional interface.
    #[must_use]
    pub fn offers(&self, interface: OptionalInterface) -> bool {
        self.bound.plugin.offers(interface)
    }

    /// Closes the episode in the environment.
    ///
    /// # Errors
    /// If the environment fails.
    pub async fn close(self) -> Result<(), CallError> {
        self.environment.close().await
    }

    /// The recorded failure of the environment that replaces this call, if any.
    pub(crate) fn overridden(&self, site: &CallSite) -> Option<Failure> {
        overridden(&self.chain, &self.data.overrides, site)
    }

    /// Adds the costs, the outbound calls and the logs of the environment's last call, in which this seat acted.
    pub(crate) fn account(&mut self, call_site: &CallSite, seat: Option<u32>) {
        self.take_exchanges(call_site);
        self.take_log(call_site, seat);
        let inside = self.environment.take_inner_costs();
        self.data.costs.push(CallCost {
            at: self.boundary(),
            call_site: call_site.clone(),
            cost: self.environment.cost(),
        });
        for (plugin, cost) in inside {
            let at = Boundary::Environment(plugin.to_string());
            self.data.costs.push(CallCost { at, call_site: call_site.clone(), cost });
        }
    }

    /// Adds the log of the environment's last call.
    fn take_log(&mut self, site: &CallSite, seat: Option<u32>) {
        let entries = self.chain.take_log(site, seat);
        self.data.log(entries);
    }

    /// Adds the outbound calls of the environment's last call.
    fn take_exchanges(&mut self, site: &CallSite) {
        let exchanges = self.chain.take_exchanges(site);
        if !exchanges.is_empty() {
            self.data.budget.add(&exchanges);
            self.data.exchanges.extend(exchanges);
        }
    }
}

/// The recorded failure of a plugin of the environment that replaces this call, if any.
fn overridden(chain: &Chain, overrides: &CallOverrides, site: &CallSite) -> Option<Failure> {
    chain.boundaries().find_map(|at| overrides.failure(at, site))
}

/// Milliseconds since an instant.
pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
