//! Rollouts: episodes with their contexts, tools, limits, groups, scoring, replays and forks.
//!
//! An episode is a state machine that advances independently of the others in a batch. The policy is a trait, so that
//! this crate does not depend on libtorch.

mod agent_player;
mod context;
mod episode;
mod group_plan;
mod metrics;
mod plugins;
mod replay;
mod reward;
mod scoring;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gymkhana_chat::{Begun, ChatError, ChatFormat, StopTexts};
use gymkhana_policy::StopCondition;
use gymkhana_record::EpisodeRecord;
use gymkhana_rules::SeatRules;
use tokio::sync::{Mutex, MutexGuard};

use crate::episode::live_bytes::LiveBytes;
use crate::reward::EpisodeEnd;

pub use agent_player::{AgentPlayed, AgentPlayer, AgentTask, StartAgent};
pub use episode::probe::ProbeError;
pub use episode::state::{Actor, EpisodePlan, SeatPlayer};
pub use episode::trial::NoPrompt;
pub use group_plan::GroupPlan;
pub use gymkhana_driver::{BoundPlugin, TaskError, UnknownTool};
pub use gymkhana_rules::{
    AgentSettings, AnswerProbe, Branch, ContextStrategy, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop,
    FeedbackProbe, Guided, Limits, Oversample, Prefixes, Probe, ProvokedReward, SamplingPlan, Selection, Summary,
    TurnProbe, Window,
};
pub use metrics::{HistogramBuckets, RestartReason, RolloutMetrics, Timer, WaitKind};
pub use plugins::{BoundReward, PluginSet, PluginSetError, RefusedOption};
pub use replay::ReplayDifference;
pub use replay::agent_play::AgentPlay;
pub use replay::fork::{FailedForks, ForkCheck, ForkError};
pub use reward::{
    EpisodeName, Gate, MetricRuleError, RewardSum, RewardTerm, ScheduleError, SuccessRule, Weight, WeightSchedule,
    WeightShape,
};
pub use scoring::hidden_fields::HiddenFields;

/// A fault of the host that ends the run.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// Converting between a conversation and tokens failed.
    #[error("the model's chat format does not serve this conversation")]
    Chat(#[from] ChatError),
    /// A policy's reply has columns of different length.
    #[error("the policy's reply is malformed")]
    Segment(#[from] gymkhana_record::SegmentError),
    /// No place is free for the episode, with the reason for its harness.
    #[error("{0}")]
    NoPlace(String),
}

/// The plugins, limits and rewards that all episodes of a run share.
pub struct Rollout {
    /// Name of the environment in records, in a run with several environments.
    pub(crate) environment: Option<String>,
    pub(crate) plugins: PluginSet,
    pub(crate) chat: ChatFormat,
    pub(crate) limits: Limits,
    pub(crate) context: Arc<ContextStrategy>,
    pub(crate) probe: Option<TurnProbe>,
    pub(crate) reward_sum: RewardSum,
    pub(crate) system: Option<String>,
    /// Rules of the first seats; the others play by the run's.
    pub(crate) seat_rules: Vec<SeatRules>,
    pub(crate) stop: Arc<[u32]>,
    pub(crate) stop_texts: Option<Arc<dyn StopCondition>>,
    pub(crate) retries: u32,
    /// One lock per deterministic place; empty where the policy needs no fixed order.
    pub(crate) deterministic_places: Arc<[Mutex<()>]>,
    pub(crate) failed_forks: std::sync::Mutex<FailedForks>,
    pub(crate) metrics: Arc<RolloutMetrics>,
    /// Bytes of all live episodes.
    pub(crate) live: Arc<LiveBytes>,
    /// The id of the next conversation: no two conversations of a rollout share a cache.
    pub(crate) conversations: Arc<AtomicU64>,
    /// The program that plays the policy's episodes; absent if the host does.
    pub(crate) agent: Option<Arc<dyn AgentPlayer>>,
}

impl Rollout {
    /// A rollout of these plugins. `system` is the first message of every conversation; `retries` is the number of
    /// further attempts after a fault of the host or the model.
    #[must_use]
    pub fn new(
        plugins: PluginSet,
        chat: ChatFormat,
        limits: Limits,
        reward_sum: RewardSum,
        system: Option<String>,
        retries: u32,
    ) -> Self {
        let stop = chat.stop().into();
        Self {
            environment: None,
            plugins,
            chat,
            live: LiveBytes::new(limits.live_bytes),
            limits,
            context: Arc::default(),
            probe: None,
            reward_sum,
            system,
            seat_rules: vec![],
            stop,
            stop_texts: None,
            retries,
            deterministic_places: Arc::new([]),
            failed_forks: std::sync::Mutex::default(),
            metrics: Arc::default(),
            conversations: Arc::default(),
            agent: None,
        }
    }

    /// Names the environment in all records.
    #[must_use]
    pub fn named(mut self, environment: Option<String>) -> Self {
        self.environment = environment;
        self
    }

    /// Shares with the rollout of another environment of the run what exists once in a run: metrics, the memory of live
    /// episodes, deterministic places and the numbers of conversations.
    #[must_use]
    pub fn beside(mut self, other: &Self) -> Self {
        self.metrics = Arc::clone(&other.metrics);
        self.live = Arc::clone(&other.live);
        self.deterministic_places = Arc::clone(&other.deterministic_places);
        self.conversations = Arc::clone(&other.conversations);
        self
    }

    /// Sets the context strategy; by default contexts only grow.
    ///
    /// # Errors
    /// If a tool offers a function of the name that the strategy offers.
    pub fn with_context(mut self, strategy: ContextStrategy) -> Result<Self, PluginSetError> {
        for function in context::host_functions(&strategy) {
            if let Some(tool) = self.plugins.tools.offering(&function.name) {
                let tool = tool.name().to_owned();
                return Err(PluginSetError::ContextFunction { function: function.name, tool });
            }
        }
        self.chat.set_earlier_thoughts(context::earlier_thoughts(&strategy));
        self.context = Arc::new(strategy);
        Ok(self)
    }

    /// Adds texts that end a reply. The text is part of the reply.
    #[must_use]
    pub fn with_stop_texts(mut self, texts: &[String]) -> Self {
        self.stop_texts = StopTexts::new(texts, &self.chat).map(|texts| Arc::new(texts) as Arc<dyn StopCondition>);
        self
    }

    /// Lets an agent program play the episodes of the policy. Oracles play as without it.
    #[must_use]
    pub fn with_agent(mut self, agent: Arc<dyn AgentPlayer>) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Plays episodes whose places are equal modulo `deterministic_places` one after the other. A policy that assigns
    /// slots by place needs this: two episodes of several seats that share slots could otherwise deadlock.
    #[must_use]
    pub fn with_deterministic_places(mut self, deterministic_places: usize) -> Self {
        self.deterministic_places = std::iter::repeat_with(Mutex::default).take(deterministic_places).collect();
        self
    }

    /// Waits until no other holder has one of these places, modulo the number of deterministic places. A program that
    /// lets another process play episodes in them holds them meanwhile, see [`Rollout::with_deterministic_places`].
    pub async fn hold_places(&self, first: u32, count: u32) -> Vec<MutexGuard<'_, ()>> {
        let most = self.deterministic_places.len();
        let mut held = Vec::new();
        if most > 0 {
            let places: BTreeSet<usize> = (first..first + count).map(|place| place as usize % most).collect();
            // All holders lock in the same order.
            for place in places {
                held.push(self.deterministic_places[place].lock().await);
            }
        }
        held
    }

    /// The metrics of all episodes of this rollout.
    #[must_use]
    pub fn metrics(&self) -> &Arc<RolloutMetrics> {
        &self.metrics
    }

    /// Name of the environment in records, in a run with several environments.
    #[must_use]
    pub fn environment(&self) -> Option<&str> {
        self.environment.as_deref()
    }

    /// The plugins.
    #[must_use]
    pub fn plugins(&self) -> &PluginSet {
        &self.plugins
    }

    /// Checks that the metrics named by the success rule and gates can exist, and that each gate can open.
    ///
    /// # Errors
    /// If a reward or a component does not exist, or gates depend on each other. The facts of an environment are known
    /// only after a step.
    pub fn check_rules(&self) -> Result<(), MetricRuleError> {
        self.plugins.check_rules(&self.reward_sum)
    }

    /// Checks that an episode that the environment ended has the facts that the success rule and gates name.
    ///
    /// # Errors
    /// If a fact is missing, so that the rule could never hold.
    pub fn check_facts(&self, record: &EpisodeRecord) -> Result<(), MetricRuleError> {
        match EpisodeEnd::of(record) {
            Some(end) => self.reward_sum.check_facts(&self.plugins.terms(), &end),
            None => Ok(()),
        }
    }

    /// Whether the success rule or a gate names a fact of the environment.
    #[must_use]
    pub fn names_facts(&self) -> bool {
        self.reward_sum.names_facts(&self.plugins.terms())
    }

    /// The condition that ends a reply besides its stop tokens. `begun` tells whether the prompt has opened a thought.
    pub(crate) fn stop_condition(&self, begun: Begun) -> Option<Arc<dyn StopCondition>> {
        let texts = self.stop_texts.clone();
        match self.limits.reasoning_tokens {
            Some(limit) => self.chat.thought_limit(limit, begun, texts),
            None => texts,
        }
    }

    /// Whether a reply ended at a limit of tokens: it ends with no stop token and holds no stop text.
    #[must_use]
    pub fn is_cut(&self, reply: &[u32]) -> bool {
        let stopped = reply.last().is_some_and(|last| self.stop.contains(last));
        !stopped && !self.stop_texts.as_ref().is_some_and(|texts| texts.is_met(reply))
    }

    /// The chat format.
    #[must_use]
    pub fn chat(&self) -> &ChatFormat {
        &self.chat
    }
}

/// Names in backquotes, separated by commas, or `none`.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}
