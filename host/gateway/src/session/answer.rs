//! A sampled reply as the program receives it, and as a turn of the graph.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gymkhana_policy::{Generated, Stop};
use gymkhana_record::{Sampled, WrittenCall};

use super::Session;
use super::prompt::Prompt;
use crate::dialect::{
    ApiError, ErrorClass, Finish, InputCall, InputMessage, ModelReply, ModelRequest, ReplyCall, TokenLogProb, Usage,
};
use crate::graph::GraphTurn;
use gymkhana_chat::{ChatError, Role};

/// Marks of reasoning at the start of a reply. Templates that write the first mark leave only the second to the reply.
const REASONING: (&str, &str) = ("<think>", "</think>");

/// A text without its reasoning, and the reasoning.
fn split_reasoning(text: &str) -> (Option<&str>, &str) {
    let begun = text.trim_start().strip_prefix(REASONING.0);
    match (begun, text.split_once(REASONING.1)) {
        (Some(begun), Some((_, after))) => {
            let reasoning = begun.split_once(REASONING.1).map_or(begun, |(reasoning, _)| reasoning);
            (Some(reasoning.trim()), after.trim_start())
        }
        (Some(unfinished), None) => (Some(unfinished.trim()), ""),
        (None, Some((reasoning, after))) => (Some(reasoning.trim()), after.trim_start()),
        (None, None) => (None, text),
    }
}

impl Session<'_> {
    /// Takes a generation: the program's reply, and its turn unless the request is none.
    pub(super) fn take(
        &mut self,
        request: &ModelRequest,
        prompt: Prompt,
        is_turn: bool,
        generated: Generated,
    ) -> Result<(Arc<ModelReply>, Option<usize>), ApiError> {
        let Generated { sampled, stop } = generated;
        let undecodable = |error: ChatError| ApiError::new(ErrorClass::Policy, format!("the policy failed: {error}"));
        let usage = Usage { prompt: prompt.tokens.len(), cached: prompt.before, sampled: sampled.tokens.len() };
        let reply = self.read(request, &sampled, stop, usage).map_err(undecodable)?;
        let message = InputMessage {
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
        self.transcript.hear(&request.messages[known..], &prompt.keys[known..], edited);
        self.transcript.speak(self.graph.len() as u32, &reply);
        let Prompt { history, parent, given, rendered, conversation, .. } = prompt;
        let stopped = stop == Stop::Token;
        let turn = GraphTurn { parent, given, sampled, stopped, rendered, conversation, delivered: false };
        let turn = self.graph.add(history, &message, turn);
        Ok((Arc::new(reply), Some(turn)))
    }

    /// Reads the tokens of a reply. Everything that cannot be read as a call stays in the text.
    fn read(
        &self,
        request: &ModelRequest,
        sampled: &Sampled,
        stop: Stop,
        usage: Usage,
    ) -> Result<ModelReply, ChatError> {
        let id = format!("{:x}-{}", self.settings.seed.0, self.turns_finished());
        let decoded = self.chat.decode_reply(&sampled.tokens)?;
        let ended_by = self.settings.stops(&request.stop).filter(|_| stop == Stop::Text).find_map(|text| {
            let at = decoded.find(text.as_str())?;
            Some((at, text))
        });
        let shown = ended_by.map_or(decoded.as_str(), |(at, _)| &decoded[..at]);
        let (reasoning, rest) = split_reasoning(shown);
        let (mut text, mut calls) = (rest.to_owned(), vec![]);
        if request.reads_calls && !request.functions.is_empty() {
            let parsed = self.chat.parse_reply(rest, &request.functions);
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
        Ok(ModelReply {
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
        })
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
    InputCall { name: call.name.clone(), arguments: call.arguments.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_split_off_wherever_its_first_mark_is() {
        for (text, reasoning, rest) in [
            ("<think>\na\n</think>\n\nb", Some("a"), "b"),
            ("a\n</think>\n\nb", Some("a"), "b"),
            ("<think>cut off", Some("cut off"), ""),
            (" b", None, " b"),
        ] {
            assert_eq!(split_reasoning(text), (reasoning, rest), "{text}");
        }
    }
}
