//! A sampled reply as the program receives it, and as a turn of the graph.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_policy::{Generated, Stop};
use gymkhana_record::{Sampled, WrittenCall};

use super::AgentSession;
use super::prompt::Prompt;
use crate::dialect::{
    ApiError, ErrorClass, Finish, InputCall, InputMessage, PolicyReply, ReplyCall, ReplyRequest, TokenCounts,
    TokenLogProb,
};
use crate::graph::GraphTurn;
use gymkhana_chat::{Begun, ChatError, Role};

impl AgentSession<'_> {
    /// Takes a generation: the program's reply, and its turn unless the request is none.
    pub(super) fn take(
        &mut self,
        request: &ReplyRequest,
        prompt: Prompt,
        is_turn: bool,
        generated: Generated,
    ) -> Result<(Arc<PolicyReply>, Option<usize>), ApiError> {
        let Generated { mut sampled, mut stop } = generated;
        let undecodable = |error: ChatError| ApiError::new(ErrorClass::Policy, format!("the policy failed: {error}"));
        let begun = prompt.rendered.begun();
        if let Some(limit) = self.settings.limits.reasoning_tokens {
            let kept = self.chat.within_thoughts(&sampled.tokens, limit, begun).map_err(undecodable)?;
            if kept == limit {
                sampled.truncate(kept);
                stop = Stop::Length;
            }
        }
        let usage = TokenCounts { prompt: prompt.tokens.len(), cached: prompt.before, sampled: sampled.tokens.len() };
        let (reply, thought_bytes) = self.read(request, &sampled, stop, usage, begun).map_err(undecodable)?;
        let message = InputMessage {
            reasoning: reply.reasoning.clone(),
            calls: reply.calls.iter().map(as_input).collect(),
            ..InputMessage::of_text(Role::Assistant, reply.text.clone())
        };
        if request.stored {
            let said = request.messages.iter().filter(|message| message.role != Role::System).cloned();
            let history = said.chain([message.clone()]).collect();
            self.stored.insert(format!("resp_{}", reply.id), history);
        }
        if !is_turn {
            self.counts.side += 1;
            return Ok((Arc::new(reply), None));
        }
        let edited = prompt.known_messages == 0;
        let known = prompt.known_messages;
        self.transcript.add_messages(&request.messages[known..], &prompt.keys[known..], edited);
        let thought_tokens = self.chat.tokens_of_bytes(&sampled.tokens, thought_bytes).map_err(undecodable)?;
        self.transcript.speak(self.graph.len() as u32, &reply, thought_tokens as u32);
        let Prompt { history, parent, given, rendered, conversation, .. } = prompt;
        let stopped = stop == Stop::Token;
        let reasoning = reply.reasoning.clone();
        let turn = GraphTurn { parent, given, sampled, stopped, reasoning, rendered, conversation, delivered: false };
        let turn = self.graph.add(history, &message, turn);
        Ok((Arc::new(reply), Some(turn)))
    }

    /// Reads the tokens of a reply, and counts the bytes of its thoughts. Everything that cannot be read as a call stays in
    /// the text. `begun` tells whether the prompt has opened a thought.
    fn read(
        &self,
        request: &ReplyRequest,
        sampled: &Sampled,
        stop: Stop,
        usage: TokenCounts,
        begun: Begun,
    ) -> Result<(PolicyReply, usize), ChatError> {
        let id = format!("{:x}-{}", self.settings.seed.0, self.turns_finished());
        let decoded = self.chat.decode_reply(&sampled.tokens)?;
        let ended_by = self.settings.stops(&request.stop).filter(|_| stop == Stop::Text).find_map(|text| {
            let at = decoded.find(text.as_str())?;
            Some((at, text))
        });
        let shown = ended_by.map_or(decoded.as_str(), |(at, _)| &decoded[..at]);
        let (reasoning, thought_bytes, rest) = self.chat.split_thoughts(shown, begun);
        let (mut text, mut calls) = (rest.to_owned(), vec![]);
        if request.reads_calls && !request.functions.is_empty() {
            let parsed = self.chat.tool_format().parse(rest, &request.functions);
            text = parsed.message;
            for (number, call) in parsed.calls.into_iter().enumerate() {
                match call {
                    WrittenCall::Sound { name, arguments } => {
                        calls.push(ReplyCall { id: format!("call_{id}-{number}"), name, arguments });
                    }
                    WrittenCall::Malformed { text: written, .. } => {
                        text = [text.as_str(), written.as_str()].join(if text.is_empty() { "" } else { "\n" });
                    }
                }
            }
        }
        let finish = match (stop, ended_by) {
            _ if !calls.is_empty() => Finish::Calls,
            (Stop::Length, _) => Finish::Length,
            (Stop::Text, Some((_, text))) if request.stop.contains(text) => Finish::StopText(text.clone()),
            (Stop::Token | Stop::Text, _) => Finish::Stop,
        };
        let log_probs = request.log_probs.then(|| self.log_probs(sampled)).transpose()?;
        let reply = PolicyReply {
            id,
            model: request.model.clone(),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            reasoning: reasoning.map(str::to_owned),
            text,
            calls,
            finish,
            usage,
            log_probs,
            stream_usage: request.stream_usage,
        };
        Ok((reply, thought_bytes))
    }

    fn log_probs(&self, sampled: &Sampled) -> Result<Vec<TokenLogProb>, ChatError> {
        let tokens = sampled.tokens.iter().zip(&sampled.log_probs);
        tokens
            .map(|(token, log_prob)| Ok(TokenLogProb { text: self.chat.decode(&[*token])?, log_prob: *log_prob }))
            .collect()
    }

    /// Number of replies, by which they are named.
    fn turns_finished(&self) -> usize {
        self.graph.len() + self.counts.side as usize
    }
}

fn as_input(call: &ReplyCall) -> InputCall {
    InputCall { id: Some(call.id.clone()), name: call.name.clone(), arguments: call.arguments.clone() }
}
