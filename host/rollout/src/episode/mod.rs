//! One episode from its start to its record: state, turns, limits, early stop, the turn probe, and trials before a run.
//!
//! An episode starts, then generates a reply, takes the turn and checks the limits until its end.

pub(crate) mod agent;
pub(crate) mod early_stop;
pub(crate) mod finish;
pub(crate) mod generate;
pub(crate) mod limits;
pub(crate) mod live_bytes;
pub(crate) mod policy_turn;
pub(crate) mod probe;
pub(crate) mod seat_rules;
pub(crate) mod state;
pub(crate) mod trial;
pub(crate) mod visited;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gymkhana_driver::{Episode, EpisodeSeeds, EpisodeSetup};
use gymkhana_record::{CallSite, Ending, EpisodeRecord, Failure, FailureKind};
use gymkhana_rules::{Limits, TurnProbe};
use gymkhana_sandbox::{CallError, EnvironmentEpisode, OptionalInterface};

use crate::context::{SeatContext, host_functions};
use crate::episode::agent::AgentEpisode;
use crate::episode::finish::never_started;
use crate::episode::generate::Generation;
use crate::episode::limits::EpisodeUsage;
use crate::episode::live_bytes::START_WAIT;
use crate::episode::state::{Actor, EpisodePlan, EpisodeState, PolicyData, SeatPlayer, hooks};
use crate::replay::overrides::ReplayOverrides;
use crate::{Rollout, RolloutError};

/// The outcome of an episode's start.
pub(crate) enum EpisodeStart<'a> {
    /// The episode is in flight.
    Running(Box<EpisodeState<'a>>),
    /// The episode ended before the first turn.
    Finished(Box<EpisodeRecord>),
}

impl EpisodeStart<'_> {
    /// Plays to the end. The record contains every failure except the host's own faults.
    pub(crate) async fn play(self, actor: Actor<'_>) -> Result<EpisodeRecord, RolloutError> {
        match self {
            Self::Running(episode) => episode.to_end(actor).await,
            Self::Finished(record) => Ok(*record),
        }
    }
}

impl<'a> EpisodeState<'a> {
    /// Starts the environment and shows each seat its functions and its first observations.
    pub(crate) async fn begin(
        rollout: &'a Rollout,
        plan: EpisodePlan,
        overrides: ReplayOverrides,
    ) -> Result<EpisodeStart<'a>, RolloutError> {
        rollout.live.room(START_WAIT).await;
        let begun = Instant::now();
        let setup = EpisodeSetup {
            environment: &rollout.plugins.environment,
            tools: &rollout.plugins.tools,
            task: plan.task.clone(),
            seeds: EpisodeSeeds::of(plan.seed),
            overrides: Arc::clone(&overrides.calls),
            max_bytes: rollout.limits.episode_bytes,
        };
        let episode = match Episode::start(setup, &hooks(rollout, &mut [])).await {
            Ok(episode) => episode,
            Err(failed) => return Ok(EpisodeStart::Finished(Box::new(never_started(rollout, &plan, failed, begun)))),
        };
        let (policy, held) = (PolicyData::new(plan, overrides, begun), rollout.live.share());
        let mut play = Self { rollout, episode, policy, held };
        let opened = match play.open() {
            Ok(()) => play.find_answer().await?,
            Err(failure) => Err(failure),
        };
        match opened {
            Ok(()) => Ok(EpisodeStart::Running(Box::new(play))),
            Err(failure) => {
                play.episode.data.failures.push(failure);
                Ok(EpisodeStart::Finished(Box::new(play.finish(Ending::EnvironmentFailed).await?)))
            }
        }
    }

    /// Reads the right answer, if the run's probe scores it.
    async fn find_answer(&mut self) -> Result<Result<(), Failure>, RolloutError> {
        let Some(TurnProbe::Answer(probe)) = &self.rollout.probe else { return Ok(Ok(())) };
        let hooks = hooks(self.rollout, &mut self.policy.contexts);
        let read = EnvironmentEpisode::privileged;
        let fields = match self.episode.read(&hooks, OptionalInterface::Privileged, CallSite::Probe, read).await {
            Some(Ok(fields)) => fields,
            Some(Err(failure)) => return Ok(Err(failure)),
            // `Rollout::with_probe` refuses such an environment.
            None => return Ok(Ok(())),
        };
        self.policy.answer = self.rollout.answer(probe, &fields)?;
        if self.policy.answer.is_none() {
            let message = self.rollout.no_field(probe, &fields).to_string();
            let error = CallError::new(FailureKind::Malformed, message);
            return Ok(Err(self.episode.failure(CallSite::Probe, error)));
        }
        Ok(Ok(()))
    }

    /// Gives each seat its functions and its first observations.
    fn open(&mut self) -> Result<(), Failure> {
        let hosts = host_functions(&self.rollout.context);
        self.episode.offer(self.seats(), &hosts)?;
        for seat in 0..self.seats() {
            let functions = self.episode.data.functions(seat).to_vec();
            let (system, strategy) = (self.rollout.system_of(seat), Arc::clone(&self.rollout.context));
            let context = SeatContext::new(seat, self.conversation(seat), functions, system, strategy);
            self.policy.contexts.push(context);
        }
        let hooks = &mut hooks(self.rollout, &mut self.policy.contexts);
        self.episode.observe_opening(hooks);
        if let Some(hint) = self.policy.plan.guidance.clone() {
            self.episode.observe(hooks, self.episode.data.seat, hint);
        }
        Ok(())
    }

    /// Plays to the end and writes the record.
    pub(crate) async fn to_end(mut self: Box<Self>, actor: Actor<'_>) -> Result<EpisodeRecord, RolloutError> {
        if let Some(play) = self.policy.overrides.agent.clone() {
            return Ok(AgentEpisode::from(self).replay(play).await);
        }
        if let (Some(agent), SeatPlayer::Policy(policy)) = (&self.rollout.agent, actor.player(0))
            && !self.policy.overrides.is_replay()
        {
            return AgentEpisode::from(self).play(&**agent, policy).await;
        }
        let ending = loop {
            let generation = self.generate_reply(actor).await?;
            if let Some(ending) = self.act(generation).await? {
                break ending;
            }
        };
        self.release(actor);
        self.finish(ending).await
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

    /// The limit that leaves no room for another turn, if any. A replay takes the time limit from the record.
    fn limit_reached(&self) -> Option<Ending> {
        let context = &self.policy.contexts[self.episode.data.seat as usize];
        let mut used = EpisodeUsage {
            turns: context.turns,
            context_tokens: context.lasting_tokens(),
            calls: self.episode.data.calls,
            time: self.policy.begun.elapsed(),
        };
        if let Some(recorded) = self.policy.overrides.time_limit_after() {
            used.time = if self.taken() >= recorded { self.rollout.limits.time } else { Duration::ZERO };
        }
        let turns = self.rollout.turns_of(self.episode.data.seat, self.turn_limit());
        let limits = Limits { turns, ..self.rollout.limits };
        used.reached(&limits)
    }
}
