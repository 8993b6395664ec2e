//! A seat's reply as tokens: sampled by the policy, or the oracle's advice in the chat format.

use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join;
use gymkhana_chat::{ChatError, NewCall, NewReply};
use gymkhana_policy::{GenerateRequest, Policy, PolicyError, Stop, certain};
use gymkhana_record::{Boundary, CallSite, Ending, Failure, FailureKind, ProbeScore, Sampled};
use gymkhana_rules::TurnProbe;
use gymkhana_sandbox::{Advice, CallError};
use tracing::{Instrument, info_span};

use crate::RolloutError;
use crate::episode::live_bytes::TURN_WAIT;
use crate::episode::probe;
use crate::episode::state::{Actor, EpisodeState, SeatPlayer, hooks, milliseconds, shared};
use crate::metrics::WaitKind;

/// The outcome of a generation.
pub(crate) enum Generation {
    /// A reply.
    SampledReply(SampledReply),
    /// The end of the episode.
    Ended(Ending),
}

/// The reply of a seat.
pub(crate) struct SampledReply {
    /// The tokens with their log-probabilities and entropies.
    pub(crate) sampled: Sampled,
    /// Whether the last token is a stop token.
    pub(crate) stopped: bool,
    /// Score of the run's probe.
    pub(crate) probe_score: Option<ProbeScore>,
}

/// What the seat to move needs for its reply.
enum Prompt<'p> {
    /// A request to a policy.
    Policy(&'p dyn Policy, GenerateRequest),
    /// Advice of the oracle within this number of tokens.
    Oracle(usize),
    /// The end of the episode.
    Ended(Ending),
}

impl EpisodeState<'_> {
    /// Generates a reply of the seat to move. Until [`act`](Self::act) takes it, the episode can be forked before it.
    pub(crate) async fn generate_reply(&mut self, actor: Actor<'_>) -> Result<Generation, RolloutError> {
        if let Some(ending) = self.begin_turn().await {
            return Ok(Generation::Ended(ending));
        }
        let (since, seat) = (Instant::now(), self.episode.data.seat);
        let generation = match self.prompt(seat, actor) {
            Err(error) => Err(error),
            Ok(Prompt::Ended(ending)) => Ok(Generation::Ended(ending)),
            Ok(Prompt::Oracle(room)) => advise(self, room).await,
            Ok(Prompt::Policy(policy, request)) => {
                // The block below borrows parts of the state: the whole contains live plugins and is not `Sync`.
                let (rollout, data) = (self.rollout, &self.policy);
                let context = &data.contexts[seat as usize];
                let tokens = Arc::clone(&request.tokens);
                let span = info_span!("generate", seat, turn = context.turns, context_tokens = tokens.len());
                // A replay takes the probe's score from the record, and notes are not scored.
                let asks = rollout.probe.is_some() && !data.overrides.is_replay() && !context.asks_for_note();
                let sampled = async {
                    let _timer = rollout.metrics.time(WaitKind::Generate);
                    // The right answer is scored while the reply is sampled, the reply behind feedback afterwards.
                    let answer = async {
                        match &data.answer {
                            Some(answer) if asks => probe::read_answer(policy, &tokens, answer).await,
                            _ => Ok(None),
                        }
                    };
                    let (generated, mut probe_score) = try_join(policy.generate(request), answer).await?;
                    if let Some(masked) = context.masked().filter(|_| asks) {
                        probe_score = probe::read_feedback(policy, &tokens, masked, &generated.sampled).await?;
                    }
                    if data.overrides.is_replay() {
                        probe_score = data.overrides.probe_score(seat, context.turns);
                    }
                    let stopped = generated.stop == Stop::Token;
                    Ok(SampledReply { sampled: generated.sampled, stopped, probe_score })
                };
                let sampled = sampled.instrument(span).await;
                self.sampled(seat, sampled)
            }
        };
        self.episode.data.timing.policy_ms += milliseconds(since);
        generation
    }

    /// Waits for memory, changes the seed where an earlier episode was forked, and reads the state's key. Returns the
    /// ending if the environment fails.
    async fn begin_turn(&mut self) -> Option<Ending> {
        self.held.grow_to(self.episode.data.budget.used());
        // A wait is not the episode's time.
        self.policy.begun += self.rollout.live.room(TURN_WAIT).await;
        let taken = self.taken();
        while let Some((_, seed)) = self.policy.reseeds.pop_front_if(|(after, _)| *after <= taken) {
            self.reseed(seed);
        }
        let failure = self.state_digest().await.err()?;
        self.episode.data.failures.push(failure);
        Some(Ending::EnvironmentFailed)
    }

    /// The prompt of a seat.
    fn prompt<'p>(&mut self, seat: u32, actor: Actor<'p>) -> Result<Prompt<'p>, RolloutError> {
        let rollout = self.rollout;
        let player = actor.player(seat);
        let context_limit = match player {
            SeatPlayer::Policy(policy) => rollout.limits.context_tokens.min(policy.context()),
            SeatPlayer::Oracle => rollout.limits.context_tokens,
        };
        let taken = self.taken();
        let context = &mut self.policy.contexts[seat as usize];
        let mask = rollout.probe.as_ref().and_then(TurnProbe::mask);
        let Some(segment) = context.prompt(&rollout.chat, context_limit, mask)? else {
            return Ok(Prompt::Ended(Ending::ContextLimit));
        };
        let tokens = shared(segment.tokens());
        if let Some(reason) = context.take_restart() {
            rollout.metrics.restarted(reason);
        }
        rollout.metrics.record_disabled_marks(context.take_disabled_marks());
        if let Some(failure) = self.policy.overrides.advice_failure(&self.episode.boundary(), taken) {
            self.episode.data.failures.push(failure);
            return Ok(Prompt::Ended(Ending::EnvironmentFailed));
        }
        if self.policy.overrides.context_limit_after(taken) {
            return Ok(Prompt::Ended(Ending::ContextLimit));
        }
        let room = context_limit - tokens.len();
        let policy = match player {
            SeatPlayer::Policy(policy) => policy,
            SeatPlayer::Oracle if context.asks_for_note() => {
                let error = CallError::new(FailureKind::Refused, "an oracle writes no summaries".to_owned());
                let failure = self.episode.failure(CallSite::Advise, error);
                self.episode.data.failures.push(failure);
                return Ok(Prompt::Ended(Ending::EnvironmentFailed));
            }
            SeatPlayer::Oracle => return Ok(Prompt::Oracle(room)),
        };
        let request = GenerateRequest {
            conversation: context.conversation,
            tokens,
            max_tokens: rollout.reply_tokens_of(seat).min(room),
            stop: rollout.stop.clone(),
            stop_texts: rollout.stop_condition(context.begun()),
            sampling: rollout.sampling_of(seat, self.policy.plan.sampling),
            seed: self.policy.plan.seed.child("policy").child(seat).child(context.turns),
            token_sink: None,
        };
        Ok(Prompt::Policy(policy, request))
    }

    /// A policy's reply, cut to the run's limit on thoughts, or the ending that its error is.
    fn sampled(&mut self, seat: u32, reply: Result<SampledReply, PolicyError>) -> Result<Generation, RolloutError> {
        match reply {
            Ok(mut said) => {
                cut_thoughts(self, &mut said)?;
                Ok(Generation::SampledReply(said))
            }
            Err(PolicyError::ContextFull { .. }) => Ok(Generation::Ended(Ending::ContextLimit)),
            Err(error) => {
                let call_site = CallSite::Generate(self.policy.contexts[seat as usize].turns);
                let message = error.to_string();
                let (at, kind) = (Boundary::Model, FailureKind::Fault);
                self.episode.data.failures.push(Failure { at, kind, call_site, message });
                Ok(Generation::Ended(Ending::Dropped))
            }
        }
    }
}

/// Cuts a reply that thinks longer than the run allows.
fn cut_thoughts(play: &EpisodeState<'_>, reply: &mut SampledReply) -> Result<(), ChatError> {
    let rollout = play.rollout;
    let Some(limit) = rollout.limits.reasoning_tokens else { return Ok(()) };
    let begun = play.policy.contexts[play.episode.data.seat as usize].begun();
    let kept = rollout.chat.within_thoughts(&reply.sampled.tokens, limit, begun)?;
    if kept < reply.sampled.tokens.len() {
        reply.sampled.truncate(kept);
        reply.stopped = false;
    }
    Ok(())
}

/// Asks the environment's oracle and writes its advice in the chat format. Advice that, with its closing token, exceeds
/// `room` tokens ends the episode: training could not take it.
async fn advise(play: &mut EpisodeState<'_>, room: usize) -> Result<Generation, RolloutError> {
    let advice = match play.episode.advise(&hooks(play.rollout, &mut play.policy.contexts)).await {
        Ok(advice) => advice,
        Err(failure) => {
            play.episode.data.failures.push(failure);
            return Ok(Generation::Ended(Ending::EnvironmentFailed));
        }
    };
    let chat = &play.rollout.chat;
    let begun = play.policy.contexts[play.episode.data.seat as usize].begun();
    let tokens = match &advice {
        Advice::Message(text) => chat.write_reply(&NewReply::of_text(text), begun)?,
        Advice::Calls(calls) => {
            let calls: Vec<NewCall<'_>> =
                calls.iter().map(|call| NewCall { name: &call.name, arguments: &call.arguments }).collect();
            chat.write_reply(&NewReply { calls: &calls, ..NewReply::default() }, begun)?
        }
    };
    if tokens.len() > room {
        return Ok(Generation::Ended(Ending::ContextLimit));
    }
    Ok(Generation::SampledReply(SampledReply { sampled: certain(tokens), stopped: true, probe_score: None }))
}
