//! The tokens of a request's prompt: an extension of an earlier reply's tokens, or a root.

use std::collections::HashMap;
use std::sync::Arc;

use gymkhana_chat::{AnsweredCall, ChatError, Extension, Message, Rendered, Role, SpokenCall, SpokenParts};
use gymkhana_policy::Conversation;

use super::{AgentSession, too_long};
use crate::dialect::{ApiError, ErrorClass, InputCall, InputMessage, ReplyRequest};
use crate::graph::{Continued, GraphTurn, HistoryKey};

/// A prompt.
pub(super) struct Prompt {
    /// Keys of the request's messages.
    pub keys: Vec<HistoryKey>,
    /// Key of the request's history.
    pub history: HistoryKey,
    /// The reply that the tokens continue.
    pub parent: Option<usize>,
    /// Number of the request's messages up to the reply that it continues.
    pub known_messages: usize,
    /// Number of tokens before `given`.
    pub before: usize,
    /// Tokens after those of the parent.
    pub given: Vec<u32>,
    /// All tokens.
    pub tokens: Arc<[u32]>,
    /// The rendered conversation.
    pub rendered: Rendered,
    /// The policy's name for the tokens.
    pub conversation: Conversation,
}

impl AgentSession<'_> {
    /// Puts the messages of an earlier reply before those of a request that names it.
    pub(super) fn complete(&self, mut request: ReplyRequest) -> Result<ReplyRequest, ApiError> {
        let Some(previous) = request.previous.take() else { return Ok(request) };
        let Some(earlier) = self.stored.get(&previous) else {
            let message = format!("this session has no reply `{previous}`\nhint: send the messages as `input`");
            return Err(ApiError::new(ErrorClass::NotFound, message));
        };
        let (instructions, new): (Vec<_>, Vec<_>) =
            request.messages.into_iter().partition(|message| message.role == Role::System);
        request.messages = instructions.into_iter().chain(earlier.iter().cloned()).chain(new).collect();
        Ok(request)
    }

    /// Checks the bytes of a request against those that the tokens of the context can stand for, before anything is made of
    /// them: keys, renderings and tokens take many times their bytes. Returns the tokens of the context.
    pub(super) fn check_length(&self, request: &ReplyRequest) -> Result<usize, ApiError> {
        let context = self.settings.limits.context_tokens.min(self.policy.context());
        let length = request.bytes();
        match self.chat.most_bytes(context).filter(|most| length > *most) {
            None => Ok(context),
            Some(_) => Err(too_long(&format!("{length} bytes do not fit the context of {context} tokens"))),
        }
    }

    /// The prompt of a request, whose messages have these keys.
    pub(super) fn prompt(&self, request: &ReplyRequest, keys: Vec<HistoryKey>) -> Result<Prompt, ApiError> {
        if request.messages.last().is_none_or(|message| message.role == Role::Assistant) {
            let message = "the last message must not be the assistant's: the policy begins its replies itself";
            return Err(ApiError::new(ErrorClass::Invalid, message));
        }
        let (history, continued) = self.graph.locate(&request.functions, &keys);
        let calls = request.messages.iter().flat_map(|message| &message.calls);
        let called = calls.filter_map(|call| Some((call.id.as_deref()?, call.name.as_str()))).collect();
        let messages: Vec<Message> =
            request.messages.iter().zip(&keys).map(|(message, key)| self.message(message, *key, &called)).collect();
        let (before, sampled_stop) = match continued {
            Some(Continued { turn, .. }) => {
                let turn = self.graph.turn(turn);
                (turn.rendered.clone(), turn.stopped)
            }
            None => (Rendered::default(), false),
        };
        let extended = self.chat.extend_with(&before, &messages, &request.functions, sampled_stop, &request.switches);
        let (extension, rendered) = extended.map_err(|error| refused(&error))?;
        let known_messages = continued.map_or(0, |continued| continued.messages);
        let (parent, prefix, given) = match (extension, continued) {
            (Extension::Append(given), Some(Continued { turn, .. })) => (Some(turn), self.graph.tokens(turn), given),
            (Extension::Append(given) | Extension::Restart(given), _) => (None, vec![], given),
        };
        let before = prefix.len();
        let tokens: Arc<[u32]> = [prefix.as_slice(), given.as_slice()].concat().into();
        let conversation = parent.map(|parent| self.graph.turn(parent).conversation);
        // A branch has a conversation of its own, so that policies keep the cache of the first one.
        let taken = |one: Conversation| {
            let continued = |turn: &GraphTurn| turn.parent == parent && turn.conversation == one;
            self.busy.contains(&one) || self.graph.turns().iter().any(continued)
        };
        let conversation =
            conversation.filter(|one| !taken(*one)).unwrap_or_else(|| self.settings.conversations.next());
        Ok(Prompt { keys, history, parent, known_messages, before, given, tokens, rendered, conversation })
    }

    /// A message as the chat format takes it. A message of the assistant that the policy sampled keeps its tokens; of
    /// another one the template writes text, reasoning and calls. `called` holds the names of functions by the ids of their calls.
    fn message(&self, message: &InputMessage, key: HistoryKey, called: &HashMap<&str, &str>) -> Message {
        let InputMessage { role, text, reasoning, calls, call_id } = message;
        if *role != Role::Assistant {
            let answered = call_id.as_ref().and_then(|id| {
                let name = called.get(id.as_str())?;
                Some(AnsweredCall { id: id.clone(), name: (*name).to_owned() })
            });
            return Message { answers: answered, ..Message::of_text(*role, text.clone()) };
        }
        let call = |call: &InputCall| SpokenCall {
            id: call.id.clone().unwrap_or_default(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        let sampled = self.graph.sampled_as(key);
        let thoughts = sampled.map_or(reasoning, |turn| &turn.reasoning).clone();
        let is_text = thoughts.is_none() && calls.is_empty();
        let parts = SpokenParts { thoughts, message: text.clone(), calls: calls.iter().map(call).collect() };
        match sampled {
            Some(turn) => Message::reply(text.clone(), turn.spoken().to_vec()).with_parts(parts),
            None if is_text => Message::of_text(*role, text.clone()),
            None => Message::of_text(*role, text.clone()).with_parts(parts),
        }
    }
}

/// A conversation that the chat format refuses.
fn refused(error: &ChatError) -> ApiError {
    let mut message = format!("the conversation cannot be rendered: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        message.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    ApiError::new(ErrorClass::Invalid, message)
}
