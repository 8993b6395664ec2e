//! The turns of an episode as text and calls: what rewards read and people see.

use serde::{Deserialize, Serialize};

use crate::{Call, Content};

/// One turn. The order is that in which the episode's contexts grew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "turn")]
pub enum Turn {
    /// What a seat said: its text without the calls in it.
    Message {
        /// Who said it.
        seat: u32,
        /// What was said.
        content: Content,
    },
    /// A call that a seat made.
    Call {
        /// Who called.
        seat: u32,
        /// The call.
        call: Call,
        /// What it cost, as the tool declares it.
        cost: f64,
    },
    /// What a tool or the environment answered to a call.
    Answer {
        /// Who is answered.
        seat: u32,
        /// The id of the call.
        id: String,
        /// The answer.
        content: Content,
        /// The call did not work; the content says why.
        failed: bool,
    },
    /// What the environment showed to a seat.
    Observation {
        /// Who sees it.
        seat: u32,
        /// What is seen.
        content: Content,
    },
}
