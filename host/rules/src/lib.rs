//! Rules of episodes that run files set: plain data without plugins.
//!
//! Each type is a part of a run file, or what a section of it comes to. `gymkhana-config` parses and checks run files
//! with these types; `gymkhana-rollout` plays episodes by them.

mod agent;
mod context;
mod limits;
mod plan;
mod probe;
mod provoked;

pub use agent::AgentSettings;
pub use context::{ContextError, ContextStrategy, EarlierReasoning, Summary, Window};
pub use limits::{DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop, Limits};
pub use plan::{Branch, Guided, Oversample, PlanError, Prefixes, Probe, SamplingPlan, Selection};
pub use probe::{AnswerProbe, FeedbackProbe, TurnProbe};
pub use provoked::ProvokedReward;

/// Rules of one seat. What is unset is as in the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeatRules {
    /// First message of the seat's conversation, instead of the run's.
    pub system: Option<String>,
    /// Turns of the seat. The smaller of this limit and the run's ends the episode.
    pub turns: Option<u32>,
    /// Tokens of one reply, at most the run's.
    pub reply_tokens: Option<usize>,
    /// Temperature of sampling. Greedy measurements stay greedy.
    pub temperature: Option<f32>,
}
