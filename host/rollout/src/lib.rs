//! Episodes in flight: chat format, tool calls, limits, groups and rewards.
//!
//! An episode is a small state machine that advances at its own pace; there is no barrier inside a batch. The
//! policy is a trait, so that this crate knows nothing of libtorch.

mod assembly;
mod chat;
mod context;
mod finish;
mod fork;
mod group;
mod hopeless;
mod injected;
mod limits;
mod panel;
mod plans;
mod play;
mod plugins;
mod policy;
mod replay;
mod reward_tools;
mod scripted;
mod speak;
mod template;
mod tool_call;
mod tools;
mod turn;
mod witness;

use std::sync::Arc;

use tokio::sync::Mutex;

pub use assembly::{Assembly, SuccessRule, SuccessRuleError};
pub use chat::{ChatError, ChatFiles, ChatFormat, Extension, Message, Rendered, ReplyPiece, Role};
pub use fork::{FailedForks, ForkError};
pub use hopeless::Hopeless;
pub use injected::Injected;
pub use limits::Limits;
pub use plans::{Branch, GroupPlan, Guided, Keep, Oversample, PlanError, Prefixes, Probe, SamplingPlan};
pub use play::{EpisodePlan, Speaker, Voice};
pub use plugins::{Bound, BoundReward, PluginSet, SetError};
pub use policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, Sampling, ScoreRequest, Stop,
};
pub use replay::Difference;
pub use scripted::{ReplayedPolicy, ScriptedPolicy};
pub use tool_call::{Reply, WrittenCall, parse_reply};

/// A fault of the host that no episode can carry in its record.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// A conversation could not be put into tokens, or tokens into text.
    #[error("the model's chat format does not serve this conversation")]
    Chat(#[from] ChatError),
    /// A policy's reply has columns of different length.
    #[error("the policy's reply is malformed")]
    Segment(#[from] gymkhana_episode::SegmentError),
}

/// What all episodes of a run share.
pub struct Rollout {
    pub(crate) plugins: PluginSet,
    pub(crate) chat: ChatFormat,
    pub(crate) limits: Limits,
    pub(crate) assembly: Assembly,
    pub(crate) system: Option<String>,
    pub(crate) stop: Arc<[u32]>,
    pub(crate) retries: u32,
    /// Held by the episode that plays; none where the policy needs no such order.
    pub(crate) lanes: Vec<Mutex<()>>,
    pub(crate) failed_forks: std::sync::Mutex<FailedForks>,
}

impl Rollout {
    /// Puts a run's parts together. `system` is the instruction that stands before every conversation; `retries`
    /// is how often an episode is tried again after a fault that is no plugin's.
    #[must_use]
    pub fn new(
        plugins: PluginSet,
        chat: ChatFormat,
        limits: Limits,
        assembly: Assembly,
        system: Option<String>,
        retries: u32,
    ) -> Self {
        let stop = chat.stop().into();
        Self {
            plugins,
            chat,
            limits,
            assembly,
            system,
            stop,
            retries,
            lanes: vec![],
            failed_forks: std::sync::Mutex::default(),
        }
    }

    /// Plays the episodes whose places are equal modulo `lanes` one after the other. That is for a policy that gives
    /// each conversation the slot of its place: two episodes of several seats that share slots could wait for each
    /// other for ever, each holding one.
    #[must_use]
    pub fn in_lanes(mut self, lanes: usize) -> Self {
        self.lanes = std::iter::repeat_with(Mutex::default).take(lanes).collect();
        self
    }

    /// The plugins.
    #[must_use]
    pub fn plugins(&self) -> &PluginSet {
        &self.plugins
    }

    /// When an episode counts as solved.
    #[must_use]
    pub fn success(&self) -> &SuccessRule {
        &self.assembly.success
    }

    /// The chat format.
    #[must_use]
    pub fn chat(&self) -> &ChatFormat {
        &self.chat
    }
}
