//! Episodes in flight: chat format, tool calls, limits, groups and rewards.
//!
//! An episode is a small state machine that advances at its own pace; there is no barrier inside a batch. The
//! policy is a trait, so that this crate knows nothing of libtorch.

mod context;
mod early_stop;
mod finish;
mod fork;
mod generate;
mod group;
mod group_plan;
mod limits;
mod metrics;
mod overrides;
mod plugins;
mod probe;
mod recorder;
mod replay;
mod rescore;
mod reward;
mod reward_call;
mod reward_tools;
mod state;
mod tools;
mod turn;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gymkhana_chat::{ChatError, ChatFormat, StopTexts};
use gymkhana_policy::StopCondition;
use gymkhana_record::EpisodeRecord;
use tokio::sync::Mutex;

pub use context::{ContextError, ContextStrategy, Summary, Window};
pub use early_stop::EarlyStop;
pub use fork::{FailedForks, ForkError};
pub use group_plan::{Branch, GroupPlan, Guided, Oversample, PlanError, Prefixes, Probe, SamplingPlan, Selection};
pub use limits::Limits;
pub use metrics::{Buckets, RolloutMetrics, Timer, WaitKind};
pub use overrides::ReplayOverrides;
pub use plugins::{Bound, BoundReward, PluginSet, PluginSetError};
pub use probe::{AnswerProbe, FeedbackProbe, ProbeError, TurnProbe};
pub use replay::Difference;
pub use reward::{Gate, RewardSum, RewardTerm, RuleError, Schedule, ScheduleError, Shape, SuccessRule, Weight};
pub use state::{Actor, EpisodePlan, SeatPlayer};

/// A fault of the host that no episode can carry in its record.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// A conversation could not be put into tokens, or tokens into text.
    #[error("the model's chat format does not serve this conversation")]
    Chat(#[from] ChatError),
    /// A policy's reply has columns of different length.
    #[error("the policy's reply is malformed")]
    Segment(#[from] gymkhana_record::SegmentError),
}

/// What all episodes of a run share.
pub struct Rollout {
    pub(crate) plugins: PluginSet,
    pub(crate) chat: ChatFormat,
    pub(crate) limits: Limits,
    pub(crate) context: Arc<ContextStrategy>,
    pub(crate) probe: Option<TurnProbe>,
    pub(crate) assembly: RewardSum,
    pub(crate) system: Option<String>,
    pub(crate) stop: Arc<[u32]>,
    pub(crate) stop_texts: Option<Arc<dyn StopCondition>>,
    pub(crate) retries: u32,
    /// Held by the episode that plays; none where the policy needs no such order.
    pub(crate) deterministic_places: Vec<Mutex<()>>,
    pub(crate) failed_forks: std::sync::Mutex<FailedForks>,
    pub(crate) metrics: Arc<RolloutMetrics>,
    /// The id of the next conversation: no two conversations of a rollout share a cache.
    pub(crate) conversations: AtomicU64,
}

impl Rollout {
    /// Puts a run's parts together. `system` is the instruction that stands before every conversation; `retries`
    /// is how often an episode is tried again after a fault that is no plugin's.
    #[must_use]
    pub fn new(
        plugins: PluginSet,
        chat: ChatFormat,
        limits: Limits,
        assembly: RewardSum,
        system: Option<String>,
        retries: u32,
    ) -> Self {
        let stop = chat.stop().into();
        Self {
            plugins,
            chat,
            limits,
            context: Arc::default(),
            probe: None,
            assembly,
            system,
            stop,
            stop_texts: None,
            retries,
            deterministic_places: vec![],
            failed_forks: std::sync::Mutex::default(),
            metrics: Arc::default(),
            conversations: AtomicU64::new(0),
        }
    }

    /// Plays with this context strategy instead of contexts that only grow.
    ///
    /// # Errors
    /// If a tool offers a function of the name that the strategy offers.
    pub fn with_context(mut self, strategy: ContextStrategy) -> Result<Self, PluginSetError> {
        let tool = |name: &str| self.plugins.directory.get(name).map(|tool| &self.plugins.tools[*tool]);
        for function in strategy.functions() {
            if let Some(tool) = tool(&function.name) {
                let tool = tool.bound.plugin.name().to_owned();
                return Err(PluginSetError::ContextFunction { function: function.name, tool });
            }
        }
        self.context = Arc::new(strategy);
        Ok(self)
    }

    /// Has replies end with these texts too, wherever the policy says one. The text is part of the reply.
    #[must_use]
    pub fn with_stop_texts(mut self, texts: &[String]) -> Self {
        self.stop_texts = StopTexts::new(texts, &self.chat).map(|texts| Arc::new(texts) as Arc<dyn StopCondition>);
        self
    }

    /// Plays the episodes whose places are equal modulo `deterministic_places` one after the other. That is for a policy that gives
    /// each conversation the slot of its place: two episodes of several seats that share slots could wait for each
    /// other for ever, each holding one.
    #[must_use]
    pub fn with_deterministic_places(mut self, deterministic_places: usize) -> Self {
        self.deterministic_places = std::iter::repeat_with(Mutex::default).take(deterministic_places).collect();
        self
    }

    /// Where all that is played here reports how long it takes.
    #[must_use]
    pub fn metrics(&self) -> &Arc<RolloutMetrics> {
        &self.metrics
    }

    /// The plugins.
    #[must_use]
    pub fn plugins(&self) -> &PluginSet {
        &self.plugins
    }

    /// Checks that what success and gates name can be there, and that each gate can open.
    ///
    /// # Errors
    /// If a reward or a component does not exist, or gates wait for each other. An environment's facts are known only
    /// when it acts.
    pub fn check_rules(&self) -> Result<(), RuleError> {
        self.assembly.check(&self.plugins)
    }

    /// Checks that an episode which the environment ended has the facts that success and gates name.
    ///
    /// # Errors
    /// If it has not: then the rule could never hold.
    pub fn check_facts(&self, record: &EpisodeRecord) -> Result<(), RuleError> {
        self.assembly.check_record(&self.plugins, record)
    }

    /// The chat format.
    #[must_use]
    pub fn chat(&self) -> &ChatFormat {
        &self.chat
    }
}
