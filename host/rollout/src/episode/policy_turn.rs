//! One turn of a policy: its reply is parsed, recorded and handed to the driver.

use gymkhana_chat::{ReplyParts, SpokenCall, SpokenParts};
use gymkhana_driver::{Reply, call_id};
use gymkhana_record::{Ending, PolicyTurn, WrittenCall};

use crate::RolloutError;
use crate::episode::generate::SampledReply;
use crate::episode::state::{EpisodeState, hooks};
use crate::episode::visited::short_digest;

/// Adds to the reason of a malformed call the number of tokens, `cut`, after which a limit cut its reply.
fn with_cut_reason(call: WrittenCall, cut: Option<usize>) -> WrittenCall {
    match (call, cut) {
        (WrittenCall::Malformed { text, reason }, Some(tokens)) => {
            WrittenCall::Malformed { text, reason: format!("{reason}; the reply was cut after {tokens} tokens") }
        }
        (call, _) => call,
    }
}

/// A reply in its parts, for the chat template; none if a call could not be read. `calls` is the number of earlier calls of
/// the episode, by which the driver names calls.
fn spoken_parts(reply: &ReplyParts, calls: u32) -> Option<SpokenParts> {
    let call = |(number, call): (u32, &WrittenCall)| match call {
        WrittenCall::Sound { name, arguments } => {
            let (name, arguments) = (name.clone(), arguments.clone());
            Some(SpokenCall { id: call_id(number), name, arguments })
        }
        WrittenCall::Malformed { .. } => None,
    };
    let calls = (calls..).zip(&reply.calls).map(call).collect::<Option<_>>()?;
    Some(SpokenParts { thoughts: reply.thoughts.clone(), message: reply.message.clone(), calls })
}

impl EpisodeState<'_> {
    /// Takes the turn of the seat to move. Returns the ending if the episode ends with it.
    pub(crate) async fn take_turn(&mut self, said: &SampledReply) -> Result<Option<Ending>, RolloutError> {
        let SampledReply { sampled, stopped, probe_score } = said;
        let taken = self.taken();
        let data = &self.episode.data;
        let (seat, transcript, steps) = (data.seat, data.turns.len() as u32, data.steps);
        let chat = &self.rollout.chat;
        let text = chat.decode_reply(&sampled.tokens)?;
        let context = &mut self.policy.contexts[seat as usize];
        let (turn, is_note) = (context.turns, context.asks_for_note());
        let begun = context.begun();
        let (_, thought_bytes, rest) = chat.split_thoughts(&text, begun);
        let thought_tokens = chat.tokens_of_bytes(&sampled.tokens, thought_bytes)? as u32;
        let note = is_note.then(|| rest.to_owned());
        let reply = chat.parse_reply(&text, data.functions(seat), begun);
        match &note {
            Some(note) => context.speak(note, None, sampled, *stopped)?,
            None => context.speak(&text, spoken_parts(&reply, data.calls), sampled, *stopped)?,
        }
        let state = self.policy.state.known(taken).filter(|_| !is_note).map(short_digest);
        let probe_score = *probe_score;
        self.policy.policy_turns.push(PolicyTurn {
            seat,
            turn,
            transcript,
            steps,
            state,
            probe_score,
            thought_tokens,
            note,
        });
        if is_note {
            return Ok(None);
        }
        let cut = self.rollout.is_cut(&sampled.tokens).then_some(sampled.tokens.len());
        let calls = reply.calls.into_iter().map(|call| with_cut_reason(call, cut)).collect();
        let reply = Reply { thoughts: reply.thoughts, message: reply.message, calls };
        let hooks = &mut hooks(self.rollout, &mut self.policy.contexts);
        Ok(self.episode.take_turn(hooks, reply, self.rollout.limits.calls).await)
    }
}
