//! The state of one episode: its plan, players, contexts and live plugins.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use gymkhana_chat::Role;
use gymkhana_driver::{Episode, EpisodeSeeds, Hooks, TimedCall};
use gymkhana_policy::{Conversation, Policy, Sampling};
use gymkhana_record::{AgentRun, Call, Content, EpisodeId, Failure, Fork, PolicyTurn, Seed, TaskRef, Turn, text_of};
use gymkhana_registry::Digest;
use gymkhana_sandbox::OptionalInterface;

use crate::Rollout;
use crate::context::SeatContext;
use crate::episode::live_bytes::HeldBytes;
use crate::episode::probe::ProbeAnswer;
use crate::episode::visited::{StateCounts, StateDigest};
use crate::metrics::{RolloutMetrics, Timer};
use crate::replay::overrides::ReplayOverrides;

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
    pub(crate) contexts: Vec<SeatContext>,
    pub(crate) policy_turns: Vec<PolicyTurn>,
    pub(crate) begun: Instant,
    /// Forks that led to this episode, the first one first.
    pub(crate) forks: Vec<Fork>,
    /// Later seeds: the number of turns of all seats after which each applies, and the seed.
    pub(crate) reseeds: VecDeque<(u32, Seed)>,
    pub(crate) seen: StateCounts,
    pub(crate) state: StateDigest,
    /// The text that the run's probe scores.
    pub(crate) answer: Option<ProbeAnswer>,
    /// The run of the agent program, once it has ended.
    pub(crate) agent: Option<AgentRun>,
}

impl PolicyData {
    pub(crate) fn new(plan: EpisodePlan, overrides: ReplayOverrides, begun: Instant) -> Self {
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
            agent: None,
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
    contexts: &'c mut [SeatContext],
}

/// Hooks for the contexts of an episode.
pub(crate) fn hooks<'m, 'c>(rollout: &'m Rollout, contexts: &'c mut [SeatContext]) -> SeatHooks<'m, 'c> {
    SeatHooks { metrics: &rollout.metrics, contexts }
}

impl<'m> Hooks for SeatHooks<'m, '_> {
    type Timer = Timer<'m>;

    fn time(&self, call: TimedCall) -> Timer<'m> {
        self.metrics.time(call.into())
    }

    fn recorded(&mut self, turn: &Turn) {
        match turn {
            Turn::Observation { seat, content } => self.contexts[*seat as usize].hear(Role::User, &text_of(content)),
            Turn::Answer { seat, id, content, .. } => {
                self.contexts[*seat as usize].hear_answer(id, &text_of(content));
            }
            Turn::Thought { .. } | Turn::Message { .. } | Turn::Call { .. } | Turn::MalformedCall { .. } => {}
        }
    }

    fn answer(&mut self, seat: u32, call: &Call) -> Option<Result<String, String>> {
        let context = &mut self.contexts[seat as usize];
        context.answers(&call.name).then(|| context.edit(&call.arguments))
    }
}

/// A name for the conversation of a planned episode's seat, unique in the rollout.
pub(crate) fn conversation(rollout: &Rollout, plan: &EpisodePlan, seat: u32) -> Conversation {
    let id = rollout.conversations.fetch_add(1, Ordering::Relaxed);
    Conversation { id, place: plan.place * rollout.plugins.seats() as u32 + seat }
}

impl EpisodeState<'_> {
    /// Number of seats.
    pub(crate) fn seats(&self) -> u32 {
        self.rollout.plugins.seats() as u32
    }

    /// A name for a seat's conversation, unique in the rollout.
    pub(crate) fn conversation(&self, seat: u32) -> Conversation {
        conversation(self.rollout, &self.policy.plan, seat)
    }

    /// Number of turns that all seats have taken.
    pub(crate) fn taken(&self) -> u32 {
        self.policy.taken()
    }

    /// Releases the episode's conversations in the policies.
    pub(crate) fn release(&self, actor: Actor<'_>) {
        for (seat, context) in (0..).zip(&self.policy.contexts) {
            if let SeatPlayer::Policy(policy) = actor.player(seat) {
                policy.release(context.conversation);
            }
        }
    }

    /// Derives all later random numbers from this seed.
    pub(crate) fn reseed(&mut self, seed: Seed) {
        self.policy.plan.seed = seed;
        self.episode.reseed(EpisodeSeeds::of(seed));
    }

    /// Turn limit of one seat.
    pub(crate) fn turn_limit(&self) -> u32 {
        self.policy.plan.turns.unwrap_or(self.rollout.limits.turns)
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

impl EpisodeState<'_> {
    /// Digest of the environment's present state key; `None` if the environment offers no state keys.
    pub(crate) async fn state_digest(&mut self) -> Result<Option<Digest>, Failure> {
        let taken = self.taken();
        if !self.episode.offers(OptionalInterface::StateKey) {
            return Ok(None);
        }
        if let known @ Some(_) = self.policy.state.known(taken) {
            return Ok(known);
        }
        let digest = Digest::of(&self.episode.state_key(taken).await?);
        self.policy.state = StateDigest::new(taken, digest);
        Ok(Some(digest))
    }
}
