//! The turns of the policies, with their positions in the transcript and among the environment's steps.

use serde::{Deserialize, Serialize};

/// The turn probe's score of one turn: mean log-probabilities of a text under the policy (nats per token).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeScore {
    /// Mean of the right answer before the turn, or of the turn's reply.
    pub log_prob: f64,
    /// Mean of the reply with the feedback since the previous reply hidden; none when the probe scores an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A reply of a seat's policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyTurn {
    /// The seat.
    pub seat: u32,
    /// The number among the seat's replies, from 0, as in `turns` of a segment.
    pub turn: u32,
    /// Number of transcript turns before the reply.
    pub transcript: u32,
    /// Number of environment steps before the reply.
    pub steps: u32,
    /// The first 8 bytes, in hex, of the SHA-256 of the environment's state key before the reply. None for an environment
    /// without state keys, and for a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The score of the run's turn probe for this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_score: Option<ProbeScore>,
    /// Number of the reply's first tokens that are thoughts, their marks included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thought_tokens: u32,
    /// The summary that the policy wrote before its context was replaced. Such a reply is not an action: the transcript
    /// does not contain it, and rewards do not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
