//! Scores of reward plugins.

use serde::{Deserialize, Serialize};

/// A named part of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// The name, as the reward describes it.
    pub name: String,
    /// The value; finite.
    pub value: f64,
}

/// A passage of the trajectory that a score is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Index into the trajectory's turns.
    pub turn: u32,
    /// First byte in the text of that turn.
    pub start: u32,
    /// End of the passage: the byte after the last one.
    pub end: u32,
    /// A note about the passage.
    pub note: String,
}

/// Score of a seat by a reward. All numbers are finite and inside the reward's declared range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The seat.
    pub seat: u32,
    /// The total.
    pub total: f64,
    /// The named parts.
    pub components: Vec<Component>,
    /// Reward of each message of the seat, or empty when only the total counts.
    pub turns: Vec<f64>,
    /// The passages that the score is based on.
    pub evidence: Vec<Evidence>,
}
