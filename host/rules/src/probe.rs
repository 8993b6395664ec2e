//! Turn probe: a text that the policy scores in every turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Turn probe: the policy scores a text in each turn, and each turn except the last gets a gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TurnProbe {
    /// The gain is the increase of the correct answer's probability, the geometric mean over its tokens, from before
    /// the turn to before the next turn (IGPO).
    Answer(AnswerProbe),
    /// The gain is the mean log-probability of the next reply minus that with the observations since the last reply
    /// hidden (InfoPO).
    Feedback(FeedbackProbe),
}

/// Source of the correct answer, and the text before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerProbe {
    /// Field of the environment's privileged view with the correct answer, at the beginning of the episode.
    pub field: String,
    /// Text before the answer, which is not scored.
    pub lead: String,
    /// Factor of the gains as rewards of turns.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub weight: f64,
}

/// Text that hides observations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FeedbackProbe {
    /// Text that replaces each observation.
    pub mask: String,
    /// Factor of the gains as rewards of turns.
    #[schemars(range(min = -1e6, max = 1e6))]
    pub weight: f64,
}

impl Default for AnswerProbe {
    fn default() -> Self {
        Self { field: "answer".to_owned(), lead: String::new(), weight: 1.0 }
    }
}

impl Default for FeedbackProbe {
    fn default() -> Self {
        Self { mask: "(hidden)".to_owned(), weight: 1.0 }
    }
}

impl TurnProbe {
    /// Weight of gains as rewards of turns.
    #[must_use]
    pub fn weight(&self) -> f64 {
        match self {
            Self::Answer(probe) => probe.weight,
            Self::Feedback(probe) => probe.weight,
        }
    }

    /// Mask for the feedback of the last turn, if the probe uses one.
    #[must_use]
    pub fn mask(&self) -> Option<&str> {
        match self {
            Self::Answer(_) => None,
            Self::Feedback(probe) => Some(&probe.mask),
        }
    }
}
