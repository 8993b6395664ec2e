//! A seat's reply as tokens: sampled by the policy, or the oracle's advice in the chat format.

use std::sync::Arc;

use futures::future::try_join;
use gymkhana_chat::{ChatError, NewCall, NewReply};
use gymkhana_policy::{GenerateRequest, Policy, PolicyError, Stop, certain};
use gymkhana_record::{Boundary, CallSite, Ending, Failure, FailureKind, ProbeScore, Sampled};
use gymkhana_rules::TurnProbe;
use gymkhana_sandbox::{Advice, CallError};
use tracing::{Instrument, info_span};

use crate::RolloutError;
use crate::episode::probe;
use crate::episode::state::{Actor, EpisodeState, SeatPlayer, hooks, shared};
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

/// Generates the reply of a seat.
pub(crate) async fn generation(
    play: &mut EpisodeState<'_>,
    seat: u32,
    actor: Actor<'_>,
) -> Result<Generation, RolloutError> {
    let rollout = play.rollout;
    let player = actor.player(seat);
    let context_limit = match player {
        SeatPlayer::Policy(policy) => rollout.limits.context_tokens.min(policy.context()),
        SeatPlayer::Oracle => rollout.limits.context_tokens,
    };
    let taken = play.taken();
    let context = &mut play.policy.contexts[seat as usize];
    let mask = rollout.probe.as_ref().and_then(TurnProbe::mask);
    let Some(segment) = context.prompt(&rollout.chat, context_limit, mask)? else {
        return Ok(Generation::Ended(Ending::ContextLimit));
    };
    let tokens = shared(segment.tokens());
    if let Some(reason) = context.take_restart() {
        rollout.metrics.restarted(reason);
    }
    rollout.metrics.record_disabled_marks(context.take_disabled_marks());
    if let Some(failure) = play.policy.overrides.advice_failure(&play.episode.boundary(), taken) {
        play.episode.data.failures.push(failure);
        return Ok(Generation::Ended(Ending::EnvironmentFailed));
    }
    if play.policy.overrides.context_limit_after(taken) {
        return Ok(Generation::Ended(Ending::ContextLimit));
    }
    let room = context_limit - tokens.len();
    let policy = match player {
        SeatPlayer::Policy(policy) => policy,
        SeatPlayer::Oracle if context.asks_for_note() => {
            let error = CallError::new(FailureKind::Refused, "an oracle writes no summaries".to_owned());
            let failure = play.episode.failure(CallSite::Advise, error);
            play.episode.data.failures.push(failure);
            return Ok(Generation::Ended(Ending::EnvironmentFailed));
        }
        SeatPlayer::Oracle => return advise(play, room).await,
    };
    let request = GenerateRequest {
        conversation: context.conversation,
        tokens,
        max_tokens: rollout.reply_tokens_of(seat).min(room),
        stop: rollout.stop.clone(),
        stop_texts: rollout.stop_condition(context.begun()),
        sampling: rollout.sampling_of(seat, play.policy.plan.sampling),
        seed: play.policy.plan.seed.child("policy").child(seat).child(context.turns),
        token_sink: None,
    };
    let span = info_span!("generate", seat, turn = context.turns, context_tokens = request.tokens.len());
    Ok(match generate(policy, request, play).instrument(span).await {
        Ok(mut said) => {
            cut_thoughts(play, &mut said)?;
            Generation::SampledReply(said)
        }
        Err(PolicyError::ContextFull { .. }) => Generation::Ended(Ending::ContextLimit),
        Err(error) => {
            let call_site = CallSite::Generate(play.policy.contexts[seat as usize].turns);
            let message = error.to_string();
            play.episode.data.failures.push(Failure {
                at: Boundary::Model,
                kind: FailureKind::Fault,
                call_site,
                message,
            });
            Generation::Ended(Ending::Dropped)
        }
    })
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

/// Samples a reply and computes the probe's score, if the run has a probe: the answer is scored while the reply is
/// sampled, the reply behind feedback afterwards. A replay takes the score from the record. Notes are not scored.
async fn generate(
    policy: &dyn Policy,
    request: GenerateRequest,
    play: &mut EpisodeState<'_>,
) -> Result<SampledReply, PolicyError> {
    // The closure below borrows parts of the state: the whole contains live plugins and is not `Sync`.
    let _timer = play.rollout.metrics.time(WaitKind::Generate);
    let (context, answer, overrides) =
        (&play.policy.contexts[play.episode.data.seat as usize], &play.policy.answer, &play.policy.overrides);
    let tokens = Arc::clone(&request.tokens);
    let asks = play.rollout.probe.is_some() && !overrides.is_replay() && !context.asks_for_note();
    let answer = async {
        match answer {
            Some(answer) if asks => probe::read_answer(policy, &tokens, answer).await,
            _ => Ok(None),
        }
    };
    let (generated, mut probe_score) = try_join(policy.generate(request), answer).await?;
    if let Some(masked) = context.masked().filter(|_| asks) {
        probe_score = probe::read_feedback(policy, &tokens, masked, &generated.sampled).await?;
    }
    if overrides.is_replay() {
        probe_score = overrides.probe_score(play.episode.data.seat, context.turns);
    }
    Ok(SampledReply { sampled: generated.sampled, stopped: generated.stop == Stop::Token, probe_score })
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
