//! The message graph of an episode: each reply with the tokens before it, and the segments that they form.
//!
//! A request continues an earlier reply if its messages begin with that reply's request and the reply itself, compared
//! by meaning, and if the chat template appends to the earlier tokens. Every other request is a root with tokens of its
//! own.

mod key;

use std::collections::HashMap;

use gymkhana_chat::Rendered;
use gymkhana_policy::Conversation;
use gymkhana_record::{Function, Sampled, Segment, SegmentError, TreeReply, segments_of, tokens_of};

use crate::dialect::InputMessage;
pub use key::HistoryKey;
pub(crate) use key::canonical;

/// A reply of the policy with the tokens before it.
#[derive(Debug, Clone)]
pub struct GraphTurn {
    /// The reply whose tokens precede `given`; none for a root.
    pub parent: Option<usize>,
    /// Tokens of the prompt after the parent's tokens.
    pub given: Vec<u32>,
    /// The reply.
    pub sampled: Sampled,
    /// Whether the reply ends with a stop token.
    pub stopped: bool,
    /// The reply's reasoning without its marks.
    pub reasoning: Option<String>,
    /// The rendered conversation of the request.
    pub rendered: Rendered,
    /// The policy's name for the tokens.
    pub conversation: Conversation,
    /// Whether the program received the reply.
    pub delivered: bool,
}

impl GraphTurn {
    /// The sampled tokens without the stop token.
    pub(crate) fn spoken(&self) -> &[u32] {
        &self.sampled.tokens[..self.sampled.tokens.len().saturating_sub(usize::from(self.stopped))]
    }
}

impl TreeReply for GraphTurn {
    fn parent(&self) -> Option<usize> {
        self.parent
    }

    fn given(&self) -> &[u32] {
        &self.given
    }

    fn sampled(&self) -> &Sampled {
        &self.sampled
    }

    fn delivered(&self) -> bool {
        self.delivered
    }
}

/// The replies of an episode, in the order in which they were sampled.
#[derive(Debug, Default)]
pub struct MessageGraph {
    turns: Vec<GraphTurn>,
    /// The last reply with this history, the reply included.
    by_history: HashMap<HistoryKey, usize>,
    /// The last reply of this meaning.
    by_reply: HashMap<HistoryKey, usize>,
}

/// The reply that a request continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continued {
    /// The reply.
    pub turn: usize,
    /// Number of the request's messages up to the reply, the reply included.
    pub messages: usize,
}

impl MessageGraph {
    /// Number of replies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Whether there is no reply.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// A reply.
    #[must_use]
    pub fn turn(&self, turn: usize) -> &GraphTurn {
        &self.turns[turn]
    }

    /// All replies.
    #[must_use]
    pub fn turns(&self) -> &[GraphTurn] {
        &self.turns
    }

    /// The key of a request's history, and the reply with the longest history that the request continues. `messages` are
    /// the keys of the request's messages.
    #[must_use]
    pub fn locate(&self, functions: &[Function], messages: &[HistoryKey]) -> (HistoryKey, Option<Continued>) {
        let mut history = HistoryKey::of_functions(functions);
        let mut continued = None;
        for (index, message) in messages.iter().enumerate() {
            history = history.then(*message);
            if let Some(turn) = self.by_history.get(&history) {
                continued = Some(Continued { turn: *turn, messages: index + 1 });
            }
        }
        (history, continued)
    }

    /// The reply that the message of the assistant with this key is, if the policy sampled it.
    #[must_use]
    pub fn sampled_as(&self, message: HistoryKey) -> Option<&GraphTurn> {
        self.by_reply.get(&message).map(|turn| &self.turns[*turn])
    }

    /// All tokens up to a reply and with it.
    #[must_use]
    pub fn tokens(&self, turn: usize) -> Vec<u32> {
        tokens_of(&self.turns, turn)
    }

    /// Adds a reply: `history` is the key of its request, `reply` the message as the program receives it.
    pub fn add(&mut self, history: HistoryKey, reply: &InputMessage, turn: GraphTurn) -> usize {
        let (number, meaning) = (self.turns.len(), HistoryKey::of_message(reply));
        self.by_history.insert(history.then(meaning), number);
        self.by_reply.insert(meaning, number);
        self.turns.push(turn);
        number
    }

    /// Records that the program received a reply.
    pub fn deliver(&mut self, turn: usize) {
        self.turns[turn].delivered = true;
    }

    /// The segments of the episode. A reply that the program neither received nor continued is left out: it had no effect.
    ///
    /// # Errors
    /// If the policy's reply has columns of different length.
    pub fn segments(&self, seat: u32) -> Result<Vec<Segment>, SegmentError> {
        segments_of(&self.turns, seat)
    }
}

#[cfg(test)]
mod tests;
