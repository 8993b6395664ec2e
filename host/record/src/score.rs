//! What a reward says of a trajectory.

use serde::{Deserialize, Serialize};

/// One named part of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Its name, as the reward describes it.
    pub name: String,
    /// Its value; finite.
    pub value: f64,
}

/// Where in the trajectory a reason for the score stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Index into the trajectory's turns.
    pub turn: u32,
    /// First byte in the text of that turn.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// What is to be seen there.
    pub note: String,
}

/// One seat's score by one reward. All numbers are finite and inside the reward's declared range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The seat.
    pub seat: u32,
    /// The sum that counts.
    pub total: f64,
    /// The named parts.
    pub components: Vec<Component>,
    /// One reward for each message of the seat, or empty when only the total counts.
    pub turns: Vec<f64>,
    /// Why.
    pub evidence: Vec<Evidence>,
}
