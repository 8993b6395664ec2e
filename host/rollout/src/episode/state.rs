//! The state of one episode and its loop: generate, parse, call tools or step the environment, append.
//!
//! Records follow the policy's order and not the order in which answers arrive, so that a record does not depend on
//! scheduling.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gymkhana_record::{
    Boundary, CallCost, CallSite, Content, Ending, EpisodeId, EpisodeRecord, Exchange, Failure, FailureKind, Fork,
    Function, NamedValue, Opening, PolicyTurn, SeatFunctions, SeatRewards, Seed, TaskRef, Timing, Turn, text_of,
};
use gymkhana_sandbox::{CallError, EnvironmentEpisode};

use crate::context::Context;
use crate::episode::early_stop::StateCounts;
use crate::episode::finish::never_started;
use crate::episode::generate::{self, Generation};
use crate::episode::limits::{Limits, Usage};
use crate::episode::probe::Answer;
use crate::metrics::WaitKind;
use crate::replay::overrides::ReplayOverrides;
use crate::replay::recorder::ExchangeRecorder;
use crate::tools::session::{Toolbox, with_recorder};
use crate::{Rollout, RolloutError};
use gymkhana_chat::Role;
use gymkhana_policy::Sampling;
use gymkhana_policy::{Conversation, Policy};

/// The plan of one episode.
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
    /// The most turns of one seat, where it differs from the run's.
    pub turns: Option<u32>,
    /// A hint from an attempt that failed, shown to the seat to move before its first turn.
    pub guidance: Option<Content>,
}

/// Who speaks for one seat.
#[derive(Clone, Copy)]
pub enum SeatPlayer<'a> {
    /// A policy.
    Policy(&'a dyn Policy),
    /// The environment's oracle.
    Oracle,
}

/// Who speaks for the seats.
#[derive(Clone, Copy)]
pub enum Actor<'a> {
    /// A policy, for every seat.
    Policy(&'a dyn Policy),
    /// The environment's oracle, for every seat.
    Oracle,
    /// A player for each seat, in their order.
    Seats(&'a [SeatPlayer<'a>]),
}

impl<'a> Actor<'a> {
    /// Who speaks for this seat; a seat without a player of its own has the last one's.
    #[must_use]
    pub fn player(self, seat: u32) -> SeatPlayer<'a> {
        match self {
            Self::Policy(policy) => SeatPlayer::Policy(policy),
            Self::Oracle => SeatPlayer::Oracle,
            Self::Seats(players) => {
                players.get(seat as usize).or(players.last()).copied().unwrap_or(SeatPlayer::Oracle)
            }
        }
    }
}

/// An episode between two turns: its data and the instances of its plugins.
pub(crate) struct EpisodeState<'a> {
    pub(crate) rollout: &'a Rollout,
    pub(crate) environment: EnvironmentEpisode,
    /// Records what the environment asks; none if it may ask nothing.
    pub(crate) recorder: Option<Arc<ExchangeRecorder>>,
    pub(crate) toolbox: Toolbox<'a>,
    pub(crate) data: EpisodeData,
}

/// The part of an episode's state that the host holds. A fork gets a clone.
#[derive(Clone)]
pub(crate) struct EpisodeData {
    pub(crate) plan: EpisodePlan,
    pub(crate) overrides: Arc<ReplayOverrides>,
    pub(crate) opening: Opening,
    pub(crate) contexts: Vec<Context>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) policy_turns: Vec<PolicyTurn>,
    pub(crate) rewards: Vec<SeatRewards>,
    pub(crate) extras: Vec<NamedValue>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) costs: Vec<CallCost>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) timing: Timing,
    pub(crate) begun: Instant,
    /// The seat to move.
    pub(crate) seat: u32,
    /// Number of steps of the environment.
    pub(crate) steps: u32,
    /// Number of calls of all seats.
    pub(crate) calls: u32,
    /// The answers to the calls of each seat's last turn, for the oracle.
    pub(crate) results: Vec<Vec<String>>,
    /// The forks that led to this episode, the first one first.
    pub(crate) forks: Vec<Fork>,
    /// Later seeds: the number of turns of all seats after which each begins, and the seed.
    pub(crate) reseeds: VecDeque<(u32, Seed)>,
    pub(crate) seen: StateCounts,
    /// The text that the run's probe scores.
    pub(crate) answer: Option<Answer>,
}

impl EpisodeData {
    /// The data of an episode that has just started.
    fn new(plan: EpisodePlan, overrides: Arc<ReplayOverrides>, opening: Opening, seat: u32, begun: Instant) -> Self {
        Self {
            plan,
            overrides,
            opening,
            contexts: vec![],
            turns: vec![],
            policy_turns: vec![],
            rewards: vec![],
            extras: vec![],
            failures: vec![],
            costs: vec![],
            exchanges: vec![],
            timing: Timing::default(),
            begun,
            seat,
            steps: 0,
            calls: 0,
            results: vec![],
            forks: vec![],
            reseeds: VecDeque::new(),
            seen: StateCounts::default(),
            answer: None,
        }
    }

    /// Number of turns that all seats have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.contexts.iter().map(|context| context.turns).sum()
    }
}

/// The outcome of an episode's start.
pub(crate) enum Started<'a> {
    /// It is in flight.
    Running(Box<EpisodeState<'a>>),
    /// It was over before the first turn.
    Finished(Box<EpisodeRecord>),
}

/// Plays one episode to its end. Whatever goes wrong is in the record, except for the host's own faults.
pub(crate) async fn play(
    rollout: &Rollout,
    plan: EpisodePlan,
    actor: Actor<'_>,
) -> Result<EpisodeRecord, RolloutError> {
    match EpisodeState::begin(rollout, plan, ReplayOverrides::default()).await? {
        Started::Running(play) => play.to_end(actor).await,
        Started::Finished(record) => Ok(*record),
    }
}

impl<'a> EpisodeState<'a> {
    /// Starts the environment and shows each seat what it may call and see.
    pub(crate) async fn begin(
        rollout: &'a Rollout,
        plan: EpisodePlan,
        overrides: ReplayOverrides,
    ) -> Result<Started<'a>, RolloutError> {
        let begun = Instant::now();
        let bound = &rollout.plugins.environment;
        let at = rollout.environment_boundary();
        let recorder = ExchangeRecorder::of(&bound.plugin, overrides.exchanges(&at));
        let plugin = with_recorder(&bound.plugin, recorder.as_ref());
        let started = match overrides.failure(&at, &CallSite::Reset) {
            Some(failure) => Err(failure),
            None => {
                let _timer = rollout.metrics.time(WaitKind::Environment);
                EnvironmentEpisode::start(&plugin, &plan.task, &bound.options, plan.seed.child("environment"))
                    .await
                    .map_err(|error| rollout.environment_failure(CallSite::Reset, error))
            }
        };
        let (environment, started) = match started {
            Ok(started) => started,
            Err(failure) => {
                let heard = recorder.map(|recorder| recorder.take(&at, &CallSite::Reset)).unwrap_or_default();
                return Ok(Started::Finished(Box::new(never_started(&plan, failure, heard, begun))));
            }
        };
        let overrides = Arc::new(overrides);
        let toolbox = Toolbox::new(rollout, &overrides, plan.seed, &started.opening.setup);
        let data = EpisodeData::new(plan, overrides, started.opening, started.seat, begun);
        let mut play = Self { rollout, environment, recorder, toolbox, data };
        play.pay(CallSite::Reset);
        let opened = match play.open() {
            Ok(()) => play.find_answer().await?,
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(()) => Ok(Started::Running(Box::new(play))),
            Err(failure) => {
                play.data.failures.push(failure);
                Ok(Started::Finished(Box::new(play.finish(Ending::EnvironmentFailed).await?)))
            }
        }
    }

    /// Gives each seat its functions and its first observations.
    fn open(&mut self) -> Result<(), Failure> {
        let tools: Vec<Function> = self.toolbox.functions();
        let mut offered = Vec::new();
        for seat in 0..self.seats() {
            let own = self.data.opening.functions.iter().find(|own| own.seat == seat);
            let own: Vec<Function> = own.map(|own| own.functions.clone()).unwrap_or_default();
            if let Some((twice, by)) = own.iter().find_map(|own| Some((own, self.rollout.offered_by(&own.name)?))) {
                let message = format!("it offers a function `{}`, which {by} offers as well", twice.name);
                let error = CallError::new(FailureKind::Malformed, message);
                return Err(self.rollout.environment_failure(CallSite::Reset, error));
            }
            let hosts = self.rollout.context.functions();
            let functions: Vec<Function> = own.into_iter().chain(tools.iter().cloned()).chain(hosts).collect();
            let conversation = self.conversation(seat);
            let (system, strategy) = (self.rollout.system.as_deref(), Arc::clone(&self.rollout.context));
            self.data.contexts.push(Context::new(seat, conversation, functions.clone(), system, strategy));
            offered.push(SeatFunctions { seat, functions });
            self.data.rewards.push(SeatRewards { seat, rewards: vec![] });
            self.data.results.push(vec![]);
        }
        self.data.opening.functions = offered;
        let observations = self.data.opening.observations.clone();
        for (seat, content) in observations {
            self.show(seat, content);
        }
        if let Some(hint) = self.data.plan.guidance.clone() {
            self.show(self.data.seat, hint);
        }
        Ok(())
    }

    /// Shows a seat something.
    pub(crate) fn show(&mut self, seat: u32, content: Content) {
        self.data.contexts[seat as usize].hear(Role::User, &text_of(&content));
        self.data.turns.push(Turn::Observation { seat, content });
    }

    /// Writes down what the environment's last call used and what it asked the world.
    pub(crate) fn pay(&mut self, call_site: CallSite) {
        let at = self.rollout.environment_boundary();
        self.hear_environment(&call_site);
        self.data.costs.push(CallCost { at, call_site, cost: self.environment.cost() });
    }

    /// Writes down what the environment asked the world in its last call.
    pub(crate) fn hear_environment(&mut self, site: &CallSite) {
        if let Some(recorder) = &self.recorder {
            self.data.exchanges.extend(recorder.take(&self.rollout.environment_boundary(), site));
        }
    }

    fn seats(&self) -> u32 {
        self.rollout.plugins.seats() as u32
    }

    /// A name for a seat's conversation, unique in the rollout.
    pub(crate) fn conversation(&self, seat: u32) -> Conversation {
        let id = self.rollout.conversations.fetch_add(1, Ordering::Relaxed);
        Conversation { id, place: self.data.plan.place * self.seats() + seat }
    }

    /// How many turns all seats have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.data.taken()
    }

    /// Plays to the end and writes the record.
    pub(crate) async fn to_end(mut self: Box<Self>, actor: Actor<'_>) -> Result<EpisodeRecord, RolloutError> {
        let ending = loop {
            if let Some(ending) = self.advance(actor).await? {
                break ending;
            }
        };
        self.release(actor);
        self.finish(ending).await
    }

    /// Tells the policies that the episode's conversations are over.
    pub(crate) fn release(&self, actor: Actor<'_>) {
        for (seat, context) in (0..).zip(&self.data.contexts) {
            if let SeatPlayer::Policy(policy) = actor.player(seat) {
                policy.release(context.conversation);
            }
        }
    }

    /// One turn of the seat to move; gives the ending if the episode ends with it.
    pub(crate) async fn advance(&mut self, actor: Actor<'_>) -> Result<Option<Ending>, RolloutError> {
        let generation = self.generate_reply(actor).await?;
        self.act(generation).await
    }

    /// Lets the seat to move say something, without doing anything about it: up to here its path can be forked.
    pub(crate) async fn generate_reply(&mut self, actor: Actor<'_>) -> Result<Generation, RolloutError> {
        let taken = self.taken();
        while let Some((_, seed)) = self.data.reseeds.pop_front_if(|(after, _)| *after <= taken) {
            self.reseed(seed);
        }
        let since = Instant::now();
        let generation = generate::generation(self, self.data.seat, actor).await;
        self.data.timing.policy_ms += milliseconds(since);
        generation
    }

    /// Does what was said; gives the ending if the episode ends with it.
    pub(crate) async fn act(&mut self, generation: Generation) -> Result<Option<Ending>, RolloutError> {
        let said = match generation {
            Generation::SampledReply(said) => said,
            Generation::Ended(ending) => return Ok(Some(ending)),
        };
        if let Some(ending) = self.take_turn(&said).await? {
            return Ok(Some(ending));
        }
        if self.data.failures.iter().any(|failure| failure.kind.is_hosts()) {
            return Ok(Some(Ending::Dropped));
        }
        if let Some(ending) = self.limit_reached() {
            return Ok(Some(ending));
        }
        if self.data.policy_turns.last().is_some_and(|turn| turn.note.is_some()) {
            // Nothing was done that could be early_stop.
            return Ok(None);
        }
        Ok(self.early_stop().await)
    }

    /// From here on everything random comes from this seed.
    pub(crate) fn reseed(&mut self, seed: Seed) {
        self.data.plan.seed = seed;
        self.environment.reseed(seed.child("environment"));
        self.toolbox.reseed(seed);
    }

    /// The most turns of one seat.
    pub(crate) fn turn_limit(&self) -> u32 {
        self.data.plan.turns.unwrap_or(self.rollout.limits.turns)
    }

    /// Whether a limit leaves no room for another turn. On a replay the clock's word is the recorded one.
    fn limit_reached(&self) -> Option<Ending> {
        let context = &self.data.contexts[self.data.seat as usize];
        let mut used = Usage {
            turns: context.turns,
            context_tokens: context.lasting_tokens(),
            calls: self.data.calls,
            time: self.data.begun.elapsed(),
        };
        if let Some(recorded) = self.data.overrides.time_limit_after() {
            used.time = if self.taken() >= recorded { self.rollout.limits.time } else { Duration::ZERO };
        }
        let limits = Limits { turns: self.turn_limit(), ..self.rollout.limits };
        limits.reached(used)
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

    /// Who, beside an environment, offers a function of this name.
    fn offered_by(&self, function: &str) -> Option<&'static str> {
        if self.plugins.directory.contains_key(function) {
            return Some("a tool");
        }
        self.context.offers(function).then_some("the host")
    }

    pub(crate) fn environment_failure(&self, call_site: CallSite, error: CallError) -> Failure {
        Failure { at: self.environment_boundary(), kind: error.kind, call_site, message: error.message }
    }
}
