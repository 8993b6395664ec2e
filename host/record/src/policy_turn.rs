//! The turns of the policies: where each stands in the transcript and among the environment's steps.

use serde::{Deserialize, Serialize};

/// How probable a policy found given text: natural logarithms of probabilities, means over the text's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeScore {
    /// The right answer's before the turn, or the turn's own reply's.
    pub log_prob: f64,
    /// The reply's where what was heard since the reply before it is hidden; none of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<f64>,
}

/// One reply of a seat's policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyTurn {
    /// Whose it is.
    pub seat: u32,
    /// Its number among the seat's replies, from 0: the `turns` of a segment's tokens.
    pub turn: u32,
    /// How many turns of the transcript came before what it said.
    pub transcript: u32,
    /// How many steps the environment had made before it.
    pub steps: u32,
    /// The score of the run's turn probe for this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_score: Option<ProbeScore>,
    /// What the policy wrote for itself when its context was to begin anew. Such a reply is no action: it stands in no
    /// transcript, and rewards do not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
