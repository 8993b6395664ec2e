//! One episode in flight: generate, parse, call tools or step the environment, append, and again.
//!
//! The order of everything that is recorded follows the policy's own order, never that in which answers arrived,
//! so that a record does not depend on the host's scheduling.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gymkhana_record::{
    Boundary, CallCost, CallSite, Content, Ending, EpisodeId, EpisodeRecord, Exchange, Failure, FailureKind, Fork,
    Function, NamedValue, Opening, PolicyTurn, SeatFunctions, SeatRewards, Seed, TaskRef, Timing, Turn, text_of,
};
use gymkhana_sandbox::{CallError, EnvironmentEpisode};

use crate::context::Context;
use crate::early_stop::StateCounts;
use crate::finish::never_started;
use crate::generate::{self, Generation};
use crate::limits::{Limits, Usage};
use crate::metrics::WaitKind;
use crate::overrides::ReplayOverrides;
use crate::probe::Answer;
use crate::recorder::ExchangeRecorder;
use crate::tools::{Toolbox, witnessed};
use crate::{Rollout, RolloutError};
use gymkhana_chat::Role;
use gymkhana_policy::Sampling;
use gymkhana_policy::{Conversation, Policy};

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
    /// A voice for each seat, in their order.
    Seats(&'a [SeatPlayer<'a>]),
}

impl<'a> Actor<'a> {
    /// Who speaks for this seat; a seat without a voice of its own has the last one's.
    #[must_use]
    pub fn voice(self, seat: u32) -> SeatPlayer<'a> {
        match self {
            Self::Policy(policy) => SeatPlayer::Policy(policy),
            Self::Oracle => SeatPlayer::Oracle,
            Self::Seats(voices) => voices.get(seat as usize).or(voices.last()).copied().unwrap_or(SeatPlayer::Oracle),
        }
    }
}

/// Conversations are numbered through, so that no two of a process share a cache.
static CONVERSATIONS: AtomicU64 = AtomicU64::new(0);

/// An episode between two turns.
pub(crate) struct EpisodeState<'a> {
    pub(crate) rollout: &'a Rollout,
    pub(crate) plan: EpisodePlan,
    pub(crate) injected: Arc<ReplayOverrides>,
    pub(crate) environment: EnvironmentEpisode,
    /// Between the environment and the world, if it may ask anything.
    pub(crate) witness: Option<Arc<ExchangeRecorder>>,
    pub(crate) opening: Opening,
    pub(crate) toolbox: Toolbox<'a>,
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
    /// Whose turn it is.
    pub(crate) seat: u32,
    pub(crate) steps: u32,
    pub(crate) calls: u32,
    /// What the calls of each seat's last turn were answered, for the oracle.
    pub(crate) results: Vec<Vec<String>>,
    /// Where the episode left others' paths.
    pub(crate) forks: Vec<Fork>,
    /// Seeds to come: after how many turns of all seats, and which.
    pub(crate) reseeds: VecDeque<(u32, Seed)>,
    pub(crate) seen: StateCounts,
    /// What the run's probe scores.
    pub(crate) answer: Option<Answer>,
}

/// How an episode began.
pub(crate) enum Started<'a> {
    /// It is in flight.
    Playing(Box<EpisodeState<'a>>),
    /// It was over before the first turn.
    Over(Box<EpisodeRecord>),
}

/// Plays one episode to its end. Whatever goes wrong is in the record, except for the host's own faults.
pub(crate) async fn play(
    rollout: &Rollout,
    plan: EpisodePlan,
    speaker: Actor<'_>,
) -> Result<EpisodeRecord, RolloutError> {
    match EpisodeState::begin(rollout, plan, ReplayOverrides::default()).await? {
        Started::Playing(play) => play.to_end(speaker).await,
        Started::Over(record) => Ok(*record),
    }
}

impl<'a> EpisodeState<'a> {
    /// Starts the environment and shows each seat what it may call and see.
    pub(crate) async fn begin(
        rollout: &'a Rollout,
        plan: EpisodePlan,
        injected: ReplayOverrides,
    ) -> Result<Started<'a>, RolloutError> {
        let begun = Instant::now();
        let bound = &rollout.plugins.environment;
        let at = rollout.environment_boundary();
        let witness = ExchangeRecorder::of(&bound.plugin, injected.exchanges(&at));
        let plugin = witnessed(&bound.plugin, witness.as_ref());
        let started = match injected.failure(&at, &CallSite::Reset) {
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
                let heard = witness.map(|witness| witness.take(&at, &CallSite::Reset)).unwrap_or_default();
                return Ok(Started::Over(Box::new(never_started(&plan, failure, heard, begun))));
            }
        };
        let injected = Arc::new(injected);
        let mut play = Self {
            rollout,
            environment,
            witness,
            toolbox: Toolbox::new(rollout, &injected, plan.seed, &started.opening.setup),
            injected,
            plan,
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
            seat: started.seat,
            steps: 0,
            calls: 0,
            results: vec![],
            opening: started.opening,
            forks: vec![],
            reseeds: VecDeque::new(),
            seen: StateCounts::default(),
            answer: None,
        };
        play.pay(CallSite::Reset);
        let opened = match play.open() {
            Ok(()) => play.find_answer().await?,
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(()) => Ok(Started::Playing(Box::new(play))),
            Err(failure) => {
                play.failures.push(failure);
                Ok(Started::Over(Box::new(play.finish(Ending::EnvironmentFailed).await?)))
            }
        }
    }

    /// Gives each seat its functions and its first observations.
    fn open(&mut self) -> Result<(), Failure> {
        let tools: Vec<Function> = self.toolbox.functions();
        let mut offered = Vec::new();
        for seat in 0..self.seats() {
            let own = self.opening.functions.iter().find(|own| own.seat == seat);
            let own: Vec<Function> = own.map(|own| own.functions.clone()).unwrap_or_default();
            if let Some((twice, by)) = own.iter().find_map(|own| Some((own, self.rollout.offered_by(&own.name)?))) {
                let message = format!("it offers a function `{}`, which {by} offers as well", twice.name);
                let error = CallError { kind: FailureKind::Malformed, message };
                return Err(self.rollout.environment_failure(CallSite::Reset, error));
            }
            let hosts = self.rollout.context.functions();
            let functions: Vec<Function> = own.into_iter().chain(tools.iter().cloned()).chain(hosts).collect();
            let conversation = self.conversation(seat);
            let (system, strategy) = (self.rollout.system.as_deref(), Arc::clone(&self.rollout.context));
            self.contexts.push(Context::new(seat, conversation, functions.clone(), system, strategy));
            offered.push(SeatFunctions { seat, functions });
            self.rewards.push(SeatRewards { seat, rewards: vec![] });
            self.results.push(vec![]);
        }
        self.opening.functions = offered;
        let observations = self.opening.observations.clone();
        for (seat, content) in observations {
            self.show(seat, content);
        }
        if let Some(hint) = self.plan.guidance.clone() {
            self.show(self.seat, hint);
        }
        Ok(())
    }

    /// Shows a seat something.
    pub(crate) fn show(&mut self, seat: u32, content: Content) {
        self.contexts[seat as usize].hear(Role::User, &text_of(&content));
        self.turns.push(Turn::Observation { seat, content });
    }

    /// Writes down what the environment's last call used and what it asked the world.
    pub(crate) fn pay(&mut self, call_site: CallSite) {
        let at = self.rollout.environment_boundary();
        self.hear_environment(&call_site);
        self.costs.push(CallCost { at, call_site, cost: self.environment.cost() });
    }

    /// Writes down what the environment asked the world in its last call.
    pub(crate) fn hear_environment(&mut self, site: &CallSite) {
        if let Some(witness) = &self.witness {
            self.exchanges.extend(witness.take(&self.rollout.environment_boundary(), site));
        }
    }

    fn seats(&self) -> u32 {
        self.rollout.plugins.seats() as u32
    }

    /// A name for a seat's conversation that no other has.
    pub(crate) fn conversation(&self, seat: u32) -> Conversation {
        let id = CONVERSATIONS.fetch_add(1, Ordering::Relaxed);
        Conversation { id, place: self.plan.place * self.seats() + seat }
    }

    /// How many turns all seats have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.contexts.iter().map(|context| context.turns).sum()
    }

    /// Plays to the end and writes the record.
    pub(crate) async fn to_end(mut self: Box<Self>, speaker: Actor<'_>) -> Result<EpisodeRecord, RolloutError> {
        let ending = loop {
            if let Some(ending) = self.advance(speaker).await? {
                break ending;
            }
        };
        self.release(speaker);
        self.finish(ending).await
    }

    /// Tells the policies that the episode's conversations are over.
    pub(crate) fn release(&self, speaker: Actor<'_>) {
        for (seat, context) in (0..).zip(&self.contexts) {
            if let SeatPlayer::Policy(policy) = speaker.voice(seat) {
                policy.release(context.conversation);
            }
        }
    }

    /// One turn of the seat to move; gives the ending if the episode ends with it.
    pub(crate) async fn advance(&mut self, speaker: Actor<'_>) -> Result<Option<Ending>, RolloutError> {
        let utterance = self.utter(speaker).await?;
        self.act(utterance).await
    }

    /// Lets the seat to move say something, without doing anything about it: up to here its path can be forked.
    pub(crate) async fn utter(&mut self, speaker: Actor<'_>) -> Result<Generation, RolloutError> {
        let taken = self.taken();
        while let Some((_, seed)) = self.reseeds.pop_front_if(|(after, _)| *after <= taken) {
            self.reseed(seed);
        }
        let since = Instant::now();
        let utterance = generate::utterance(self, self.seat, speaker).await;
        self.timing.policy_ms += milliseconds(since);
        utterance
    }

    /// Does what was said; gives the ending if the episode ends with it.
    pub(crate) async fn act(&mut self, utterance: Generation) -> Result<Option<Ending>, RolloutError> {
        let said = match utterance {
            Generation::SampledReply(said) => said,
            Generation::Ended(ending) => return Ok(Some(ending)),
        };
        if let Some(ending) = self.take_turn(&said).await? {
            return Ok(Some(ending));
        }
        if self.failures.iter().any(|failure| failure.kind.is_hosts()) {
            return Ok(Some(Ending::Dropped));
        }
        if let Some(ending) = self.limit_reached() {
            return Ok(Some(ending));
        }
        if self.policy_turns.last().is_some_and(|turn| turn.note.is_some()) {
            // Nothing was done that could be early_stop.
            return Ok(None);
        }
        Ok(self.given_up().await)
    }

    /// From here on everything random comes from this seed.
    pub(crate) fn reseed(&mut self, seed: Seed) {
        self.plan.seed = seed;
        self.environment.reseed(seed.child("environment"));
        self.toolbox.reseed(seed);
    }

    /// The most turns of one seat.
    pub(crate) fn turn_limit(&self) -> u32 {
        self.plan.turns.unwrap_or(self.rollout.limits.turns)
    }

    /// Whether a limit leaves no room for another turn. On a replay the clock's word is the recorded one.
    fn limit_reached(&self) -> Option<Ending> {
        let context = &self.contexts[self.seat as usize];
        let mut used = Usage {
            turns: context.turns,
            context_tokens: context.lasting_tokens(),
            calls: self.calls,
            time: self.begun.elapsed(),
        };
        if let Some(recorded) = self.injected.time_limit_after() {
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
