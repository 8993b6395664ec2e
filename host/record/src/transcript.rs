//! The transcript of an episode: messages, calls, answers and observations, for rewards and people.

use serde::{Deserialize, Serialize};

use crate::{Call, Content};

/// An entry of the transcript, in the order in which the contexts grew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "turn")]
pub enum Turn {
    /// Thoughts of a seat before its message or its calls. Environments, other seats, and rewards that do not ask for
    /// them do not see them.
    Thought {
        /// The thinker.
        seat: u32,
        /// The text without its marks.
        text: String,
    },
    /// A seat's message: its text without calls.
    Message {
        /// The speaker.
        seat: u32,
        /// The text.
        content: Content,
    },
    /// A call that a seat made.
    Call {
        /// The caller.
        seat: u32,
        /// The call.
        call: Call,
        /// The cost that the tool declares.
        cost: f64,
    },
    /// Text in the position of a call that could not be parsed. An answer with the reason follows.
    MalformedCall {
        /// The caller.
        seat: u32,
        /// The id that the host gives the call, unique in the episode.
        id: String,
        /// The text that the policy wrote.
        text: String,
    },
    /// The answer of a tool or the environment to a call.
    Answer {
        /// The caller.
        seat: u32,
        /// The id of the call.
        id: String,
        /// The answer.
        content: Content,
        /// Whether the call failed; the content gives the reason.
        failed: bool,
    },
    /// An observation of a seat.
    Observation {
        /// The seat that sees it.
        seat: u32,
        /// The content.
        content: Content,
    },
}

impl Turn {
    /// The seat that made a call, well-formed or not.
    #[must_use]
    pub fn caller(&self) -> Option<u32> {
        match self {
            Self::Call { seat, .. } | Self::MalformedCall { seat, .. } => Some(*seat),
            Self::Thought { .. } | Self::Message { .. } | Self::Answer { .. } | Self::Observation { .. } => None,
        }
    }
}

/// Sets the cost of the call of this id, once the tool that declares it has answered.
pub fn set_call_cost(turns: &mut [Turn], id: &str, cost: f64) {
    for turn in turns {
        if let Turn::Call { call, cost: known, .. } = turn
            && call.id == id
        {
            *known = cost;
        }
    }
}
