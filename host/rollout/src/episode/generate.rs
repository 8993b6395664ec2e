//! A seat's reply as tokens: sampled by the policy, or the oracle's advice in the policy's format.

use std::sync::Arc;

use futures::future::try_join;
use gymkhana_record::{Boundary, CallSite, Ending, Failure, FailureKind, ProbeScore, Sampled};
use gymkhana_sandbox::{Advice, CallError};
use tracing::{Instrument, info_span};

use crate::RolloutError;
use crate::episode::probe::{self, TurnProbe};
use crate::episode::state::{Actor, EpisodeState, SeatPlayer, shared};
use crate::metrics::WaitKind;
use gymkhana_chat::{NewCall, ReplyPiece};
use gymkhana_policy::certain;
use gymkhana_policy::{GenerateRequest, Policy, PolicyError, Stop};

/// What came of a turn.
pub(crate) enum Generation {
    /// These tokens.
    SampledReply(SampledReply),
    /// Nothing: the episode is over.
    Ended(Ending),
}

/// What a seat said.
pub(crate) struct SampledReply {
    /// The tokens, with what is known of each.
    pub(crate) sampled: Sampled,
    /// The last one is a stop token.
    pub(crate) stopped: bool,
    /// What the run's probe found.
    pub(crate) probe_score: Option<ProbeScore>,
}

/// Lets the seat speak.
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
    let context = &mut play.data.contexts[seat as usize];
    let mask = rollout.probe.as_ref().and_then(TurnProbe::mask);
    let Some(segment) = context.prompt(&rollout.chat, context_limit, mask)? else {
        return Ok(Generation::Ended(Ending::ContextLimit));
    };
    let tokens = shared(segment.tokens());
    if let Some(failure) = play.data.overrides.advice_failure(&rollout.environment_boundary(), taken) {
        play.data.failures.push(failure);
        return Ok(Generation::Ended(Ending::EnvironmentFailed));
    }
    let policy = match player {
        SeatPlayer::Policy(policy) => policy,
        SeatPlayer::Oracle if context.asks_for_note() => {
            let error = CallError::new(FailureKind::Refused, "an oracle writes no summaries".to_owned());
            play.data.failures.push(rollout.environment_failure(CallSite::Advise, error));
            return Ok(Generation::Ended(Ending::EnvironmentFailed));
        }
        SeatPlayer::Oracle => return advise(play, seat).await,
    };
    let room = context_limit - tokens.len();
    let request = GenerateRequest {
        conversation: context.conversation,
        tokens,
        max_tokens: rollout.limits.reply_tokens.min(room),
        stop: rollout.stop.clone(),
        stop_texts: rollout.stop_texts.clone(),
        sampling: play.data.plan.sampling,
        seed: play.data.plan.seed.child("policy").child(seat).child(context.turns),
        token_sink: None,
    };
    let span = info_span!("generate", seat, turn = context.turns, context_tokens = request.tokens.len());
    Ok(match generate(policy, request, play).instrument(span).await {
        Ok(said) => Generation::SampledReply(said),
        Err(PolicyError::ContextFull { .. }) => Generation::Ended(Ending::ContextLimit),
        Err(error) => {
            let call_site = CallSite::Generate(play.data.contexts[seat as usize].turns);
            let message = error.to_string();
            play.data.failures.push(Failure { at: Boundary::Model, kind: FailureKind::Fault, call_site, message });
            Generation::Ended(Ending::Dropped)
        }
    })
}

/// Has the reply sampled and, where the run has a probe, scored what it asks: the answer while the reply is sampled, the
/// reply behind the feedback when it is known. A replay takes over what was found. A note is no step towards an answer.
async fn generate(
    policy: &dyn Policy,
    request: GenerateRequest,
    play: &mut EpisodeState<'_>,
) -> Result<SampledReply, PolicyError> {
    // Parts of the play: the whole, with its live plugins, could not be looked at from two threads.
    let _timer = play.rollout.metrics.time(WaitKind::Generate);
    let (context, answer, overrides) =
        (&play.data.contexts[play.data.seat as usize], &play.data.answer, &play.data.overrides);
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
        probe_score = overrides.probe_score(play.data.seat, context.turns);
    }
    Ok(SampledReply { sampled: generated.sampled, stopped: generated.stop == Stop::Token, probe_score })
}

/// Asks the environment's oracle and writes its advice as the policy would.
async fn advise(play: &mut EpisodeState<'_>, seat: u32) -> Result<Generation, RolloutError> {
    let names = play.rollout.plugins.function_names();
    let timer = play.rollout.metrics.time(WaitKind::Environment);
    let advice = play.environment.advise(&names, &play.data.results[seat as usize]).await;
    drop(timer);
    play.pay(CallSite::Advise);
    let advice = match advice {
        Ok(advice) => advice,
        Err(error) => {
            play.data.failures.push(play.rollout.environment_failure(CallSite::Advise, error));
            return Ok(Generation::Ended(Ending::EnvironmentFailed));
        }
    };
    let chat = &play.rollout.chat;
    let tokens = match &advice {
        Advice::Message(text) => chat.encode_reply(&[ReplyPiece::Plain(text)])?,
        Advice::Calls(calls) => {
            let calls: Vec<NewCall<'_>> =
                calls.iter().map(|call| NewCall { name: &call.name, arguments: &call.arguments }).collect();
            chat.encode_calls(&calls)?
        }
    };
    Ok(Generation::SampledReply(SampledReply { sampled: certain(tokens), stopped: true, probe_score: None }))
}
