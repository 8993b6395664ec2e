//! Rules of episodes that run files set: plain data without plugins.
//!
//! Each type is a part of a run file, or what a section of it comes to. `gymkhana-config` parses and checks run files
//! with these types; `gymkhana-rollout` plays episodes by them.

mod agent;
mod context;
mod early_stop;
mod limits;
mod plan;
mod probe;
mod provoked;
mod seat;

pub use agent::AgentSettings;
pub use context::{ContextError, ContextStrategy, EarlierReasoning, Summary, Window};
pub use early_stop::EarlyStop;
pub use limits::{DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, Limits};
pub use plan::{Branch, Guided, Oversample, PlanError, Prefixes, Probe, SamplingPlan, Selection};
pub use probe::{AnswerProbe, FeedbackProbe, TurnProbe};
pub use provoked::ProvokedReward;
pub use seat::SeatRules;
