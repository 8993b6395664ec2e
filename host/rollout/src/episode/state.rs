//! The state of one episode and its loop: generate, parse, take the turn, check the limits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gymkhana_chat::Role;
use gymkhana_driver::{Episode, EpisodeSeeds, EpisodeSetup, Hooks, TimedCall};
use gymkhana_policy::{Conversation, Policy, Sampling};
use gymkhana_record::{
    Call, Content, Ending, EpisodeId, EpisodeRecord, Failure, Fork, Function, PolicyTurn, Seed, TaskRef, Turn, text_of,
};

use crate::context::Context;
use crate::episode::early_stop::StateCounts;
use crate::episode::finish::never_started;
use crate::episode::generate::{self, Generation};
use crate::episode::limits::{Limits, Usage};
use crate::episode::live_bytes::{HeldBytes, START_WAIT, TURN_WAIT};
use crate::episode::probe::Answer;
use crate::episode::state_key::StateDigest;
use crate::metrics::{RolloutMetrics, Timer, WaitKind};
use crate::replay::overrides::ReplayOverrides;
use crate::{Rollout, RolloutError};

/// The plan of one episode.
#[derive(Debug, Clone)]
pub struct EpisodePlan {
    /// Id of the episode.
    pub id: EpisodeId,
    /// Task.
    pub task: TaskRef,
    /// Root of the episode's seeds.
    pub seed: Seed,
    /// Sampling settings of the policy.
    pub sampling: Sampling,
    /// Index in the batch, from 0.
    pub place: u32,
    /// Turn limit of one seat, if it differs from the run's.
    pub turns: Option<u32>,
    /// A hint from a failed attempt, shown to the seat to move before its first turn.
    pub guidance: Option<Content>,
}

/// The player of one seat.
#[derive(Clone, Copy)]
pub enum SeatPlayer<'a> {
    /// A policy.
    Policy(&'a dyn Policy),
    /// The environment's oracle.
    Oracle,
}

/// The players of the seats.
#[derive(Clone, Copy)]
pub enum Actor<'a> {
    /// A policy, for every seat.
    Policy(&'a dyn Policy),
    /// The environment's oracle, for every seat.
    Oracle,
    /// A player for each seat, in the order of the seats.
    Seats(&'a [SeatPlayer<'a>]),
}

impl<'a> Actor<'a> {
    /// The player of a seat. A seat beyond the list has the last player.
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

/// An episode between two turns.
pub(crate) struct EpisodeState<'a> {
    pub(crate) rollout: &'a Rollout,
    /// The environment and the tools.
    pub(crate) episode: Episode,
    /// The policies' side.
    pub(crate) policy: PolicyData,
    /// Share of the bytes of all live episodes.
    pub(crate) held: HeldBytes,
}

/// The policies' side of an episode: contexts, turns and the plan. A fork gets a clone.
#[derive(Clone)]
pub(crate) struct PolicyData {
    pub(crate) plan: EpisodePlan,
    pub(crate) overrides: Arc<ReplayOverrides>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) policy_turns: Vec<PolicyTurn>,
    pub(crate) begun: Instant,
    /// Forks that led to this episode, the first one first.
    pub(crate) forks: Vec<Fork>,
    /// Later seeds: the number of turns of all seats after which each applies, and the seed.
    pub(crate) reseeds: VecDeque<(u32, Seed)>,
    pub(crate) seen: StateCounts,
    pub(crate) state: StateDigest,
    /// The text that the run's probe scores.
    pub(crate) answer: Option<Answer>,
}

impl PolicyData {
    fn new(plan: EpisodePlan, overrides: ReplayOverrides, begun: Instant) -> Self {
        Self {
            plan,
            overrides: Arc::new(overrides),
            contexts: vec![],
            policy_turns: vec![],
            begun,
            forks: vec![],
            reseeds: VecDeque::new(),
            seen: StateCounts::default(),
            state: StateDigest::default(),
            answer: None,
        }
    }

    /// Number of turns that all seats have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.contexts.iter().map(|context| context.turns).sum()
    }
}

/// The policies' side as the driver calls it: contexts receive what their seats see, and answer edits of themselves.
pub(crate) struct SeatHooks<'m, 'c> {
    metrics: &'m RolloutMetrics,
    contexts: &'c mut [Context],
}

/// Hooks for the contexts of an episode.
pub(crate) fn hooks<'m, 'c>(rollout: &'m Rollout, contexts: &'c mut [Context]) -> SeatHooks<'m, 'c> {
    SeatHooks { metrics: &rollout.metrics, contexts }
}

impl<'m> Hooks for SeatHooks<'m, '_> {
    type Timer = Timer<'m>;

    fn time(&self, call: TimedCall) -> Timer<'m> {
        self.metrics.time(match call {
            TimedCall::Environment => WaitKind::Environment,
            TimedCall::Tool => WaitKind::Tool,
        })
    }

    fn recorded(&mut self, turn: &Turn) {
        match turn {
            Turn::Observation { seat, content } => self.contexts[*seat as usize].hear(Role::User, &text_of(content)),
            Turn::Answer { seat, content, .. } => self.contexts[*seat as usize].hear(Role::Tool, &text_of(content)),
            Turn::Message { .. } | Turn::Call { .. } | Turn::MalformedCall { .. } => {}
        }
    }

    fn answer(&mut self, seat: u32, call: &Call) -> Option<Result<String, String>> {
        let context = &mut self.contexts[seat as usize];
        context.answers(&call.name).then(|| context.edit(&call.arguments))
    }
}

/// Seeds of an episode's plugins.
pub(crate) fn plugin_seeds(seed: Seed) -> EpisodeSeeds {
    EpisodeSeeds { environment: seed.child("environment"), tools: seed.child("tool") }
}

/// The outcome of an episode's start.
pub(crate) enum Started<'a> {
    /// The episode is in flight.
    Running(Box<EpisodeState<'a>>),
    /// The episode ended before the first turn.
    Finished(Box<EpisodeRecord>),
}

/// Plays one episode to its end. The record contains every failure except the host's own faults.
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
    /// Starts the environment and shows each seat its functions and its first observations.
    pub(crate) async fn begin(
        rollout: &'a Rollout,
        plan: EpisodePlan,
        overrides: ReplayOverrides,
    ) -> Result<Started<'a>, RolloutError> {
        rollout.live.room(START_WAIT).await;
        let begun = Instant::now();
        let setup = EpisodeSetup {
            environment: &rollout.plugins.environment,
            tools: &rollout.plugins.tools,
            task: plan.task.clone(),
            seeds: plugin_seeds(plan.seed),
            overrides: Arc::clone(&overrides.calls),
            max_bytes: rollout.limits.episode_bytes,
        };
        let episode = match Episode::start(setup, &hooks(rollout, &mut [])).await {
            Ok(episode) => episode,
            Err(failed) => return Ok(Started::Finished(Box::new(never_started(rollout, &plan, failed, begun)))),
        };
        let (policy, held) = (PolicyData::new(plan, overrides, begun), rollout.live.share());
        let mut play = Self { rollout, episode, policy, held };
        let opened = match play.open() {
            Ok(()) => play.find_answer().await?,
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(()) => Ok(Started::Running(Box::new(play))),
            Err(failure) => {
                play.episode.data.failures.push(failure);
                Ok(Started::Finished(Box::new(play.finish(Ending::EnvironmentFailed).await?)))
            }
        }
    }

    /// Gives each seat its functions and its first observations.
    fn open(&mut self) -> Result<(), Failure> {
        let hosts: Vec<Function> = self.rollout.context.functions().into_iter().collect();
        self.episode.offer(self.seats(), &hosts)?;
        for seat in 0..self.seats() {
            let functions = self.episode.data.functions(seat).to_vec();
            let (system, strategy) = (self.rollout.system.as_deref(), Arc::clone(&self.rollout.context));
            let context = Context::new(seat, self.conversation(seat), functions, system, strategy);
            self.policy.contexts.push(context);
        }
        let hooks = &mut hooks(self.rollout, &mut self.policy.contexts);
        self.episode.observe_opening(hooks);
        if let Some(hint) = self.policy.plan.guidance.clone() {
            self.episode.observe(hooks, self.episode.data.seat, hint);
        }
        Ok(())
    }

    fn seats(&self) -> u32 {
        self.rollout.plugins.seats() as u32
    }

    /// A name for a seat's conversation, unique in the rollout.
    pub(crate) fn conversation(&self, seat: u32) -> Conversation {
        let id = self.rollout.conversations.fetch_add(1, Ordering::Relaxed);
        Conversation { id, place: self.policy.plan.place * self.seats() + seat }
    }

    /// Number of turns that all seats have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.policy.taken()
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

    /// Releases the episode's conversations in the policies.
    pub(crate) fn release(&self, actor: Actor<'_>) {
        for (seat, context) in (0..).zip(&self.policy.contexts) {
            if let SeatPlayer::Policy(policy) = actor.player(seat) {
                policy.release(context.conversation);
            }
        }
    }

    /// Plays one turn of the seat to move. Returns the ending if the episode ends with it.
    pub(crate) async fn advance(&mut self, actor: Actor<'_>) -> Result<Option<Ending>, RolloutError> {
        let generation = self.generate_reply(actor).await?;
        self.act(generation).await
    }

    /// Generates a reply of the seat to move. Until [`act`](Self::act) takes it, the episode can be forked before it.
    pub(crate) async fn generate_reply(&mut self, actor: Actor<'_>) -> Result<Generation, RolloutError> {
        self.held.grow_to(self.episode.data.budget.used());
        // A wait is not the episode's time.
        self.policy.begun += self.rollout.live.room(TURN_WAIT).await;
        let taken = self.taken();
        while let Some((_, seed)) = self.policy.reseeds.pop_front_if(|(after, _)| *after <= taken) {
            self.reseed(seed);
        }
        if let Err(failure) = self.state_digest().await {
            self.episode.data.failures.push(failure);
            return Ok(Generation::Ended(Ending::EnvironmentFailed));
        }
        let since = Instant::now();
        let generation = generate::generation(self, self.episode.data.seat, actor).await;
        self.episode.data.timing.policy_ms += milliseconds(since);
        generation
    }

    /// Takes the turn of a reply. Returns the ending if the episode ends with it.
    pub(crate) async fn act(&mut self, generation: Generation) -> Result<Option<Ending>, RolloutError> {
        let said = match generation {
            Generation::SampledReply(said) => said,
            Generation::Ended(ending) => return Ok(Some(ending)),
        };
        if let Some(ending) = self.take_turn(&said).await? {
            return Ok(Some(ending));
        }
        if self.episode.data.failures.iter().any(|failure| failure.kind.is_hosts()) {
            return Ok(Some(Ending::Dropped));
        }
        if let Some(ending) = self.limit_reached() {
            return Ok(Some(ending));
        }
        if self.policy.policy_turns.last().is_some_and(|turn| turn.note.is_some()) {
            // A note changes no state that the early-stop rule looks at.
            return Ok(None);
        }
        Ok(self.early_stop().await)
    }

    /// Derives all later random numbers from this seed.
    pub(crate) fn reseed(&mut self, seed: Seed) {
        self.policy.plan.seed = seed;
        self.episode.reseed(plugin_seeds(seed));
    }

    /// Turn limit of one seat.
    pub(crate) fn turn_limit(&self) -> u32 {
        self.policy.plan.turns.unwrap_or(self.rollout.limits.turns)
    }

    /// The limit that leaves no room for another turn, if any. A replay takes the time limit from the record.
    fn limit_reached(&self) -> Option<Ending> {
        let context = &self.policy.contexts[self.episode.data.seat as usize];
        let mut used = Usage {
            turns: context.turns,
            context_tokens: context.lasting_tokens(),
            calls: self.episode.data.calls,
            time: self.policy.begun.elapsed(),
        };
        if let Some(recorded) = self.policy.overrides.time_limit_after() {
            used.time = if self.taken() >= recorded { self.rollout.limits.time } else { Duration::ZERO };
        }
        let limits = Limits { turns: self.turn_limit(), ..self.rollout.limits };
        limits.reached(used)
    }
}

/// Milliseconds since an instant.
pub(crate) fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Tokens of a context in the form that a policy takes.
pub(crate) fn shared(tokens: &[u32]) -> Arc<[u32]> {
    tokens.into()
}
