//! An episode in progress: what each turn adds to it, and the segments of its replies so far.

mod packed;
mod reply_tree;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{AgentCall, Exchange, Failure, NamedValue, PolicyTurn, Sampled, Turn};

pub use reply_tree::{TreeReply, segments_of, tokens_of};

/// What one turn adds to an episode. Parts that a turn does not have are empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Added<'a> {
    /// Entries of the transcript.
    pub turns: Cow<'a, [Turn]>,
    /// Rewards of each seat, one number for each step that the turn took.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewards: Vec<Cow<'a, [f64]>>,
    /// The extras of the environment's last step; none if the turn cannot change them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extras: Option<Cow<'a, [NamedValue]>>,
    /// The failures.
    #[serde(skip_serializing_if = "is_empty")]
    pub failures: Cow<'a, [Failure]>,
    /// The outbound calls of plugins.
    #[serde(skip_serializing_if = "is_empty")]
    pub exchanges: Cow<'a, [Exchange]>,
    /// The reply that an agent program asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<AddedReply<'a>>,
    /// The call that an agent program made by MCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<AddedCall>,
    /// Number of an earlier reply that the program has received only now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u32>,
}

/// A reply that an agent program asked for, with its tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddedReply<'a> {
    /// The turn of the policy; its position counts from the program's first transcript entry.
    pub turn: Cow<'a, PolicyTurn>,
    /// Number of the reply whose tokens precede `given`; none for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// Tokens of the prompt after the parent's tokens.
    #[serde(with = "packed::tokens")]
    pub given: Cow<'a, [u32]>,
    /// The sampled tokens.
    #[serde(with = "packed::sampled")]
    pub sampled: Cow<'a, Sampled>,
    /// Whether the program waits for the reply.
    pub delivered: bool,
}

/// A call that an agent program made by MCP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddedCall {
    /// The call, as the record of the program's run lists it.
    pub call: AgentCall,
    /// The cost of the call, in its author's unit.
    pub cost: f64,
}

impl Added<'_> {
    /// The same without borrowed parts.
    #[must_use]
    pub fn into_owned(self) -> Added<'static> {
        let Self { turns, rewards, extras, failures, exchanges, reply, call, delivered } = self;
        Added {
            turns: Cow::Owned(turns.into_owned()),
            rewards: rewards.into_iter().map(|own| Cow::Owned(own.into_owned())).collect(),
            extras: extras.map(|extras| Cow::Owned(extras.into_owned())),
            failures: Cow::Owned(failures.into_owned()),
            exchanges: Cow::Owned(exchanges.into_owned()),
            reply: reply.map(AddedReply::into_owned),
            call,
            delivered,
        }
    }
}

impl AddedReply<'_> {
    fn into_owned(self) -> AddedReply<'static> {
        let Self { turn, parent, given, sampled, delivered } = self;
        AddedReply {
            turn: Cow::Owned(turn.into_owned()),
            parent,
            given: Cow::Owned(given.into_owned()),
            sampled: Cow::Owned(sampled.into_owned()),
            delivered,
        }
    }
}

impl TreeReply for AddedReply<'_> {
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

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}
