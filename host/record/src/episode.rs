//! The whole record of one episode: what is stored, trained on, shown and replayed.

use serde::{Deserialize, Serialize};

use crate::{
    Boundary, CallCost, Content, Ending, EpisodeId, Exchange, Failure, Fork, Function, NamedValue, PolicyTurn, Score,
    Seed, Segment, TaskRef, Turn,
};

/// The number of this record's shape. It grows with every change that an older reader would misread.
pub const EPISODE_SCHEMA: u32 = 6;

/// The functions that one seat may call, of the environment and of the tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeatFunctions {
    /// The seat.
    pub seat: u32,
    /// What it may call.
    pub functions: Vec<Function>,
}

/// How an episode began, as the plugins told it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Opening {
    /// What each seat may call, in the order of seats.
    pub functions: Vec<SeatFunctions>,
    /// What the environment prepared for tools: tool name and bytes. Policies never see it.
    pub setup: Vec<(String, Vec<u8>)>,
    /// The first observations: seat and content.
    pub observations: Vec<(u32, Content)>,
}

/// One seat's rewards from the environment, one number for each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeatRewards {
    /// The seat.
    pub seat: u32,
    /// A number for each step, 0 where the environment said nothing.
    pub rewards: Vec<f64>,
}

/// One reward plugin's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginScore {
    /// The reward's name.
    pub plugin: String,
    /// A score for each seat that made a turn.
    pub scores: Vec<Score>,
}

/// Where the time went, in milliseconds of the wall clock. Never compared by a replay.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// From the start of the episode to its score.
    pub total_ms: f64,
    /// Waiting for the policy.
    pub policy_ms: f64,
    /// Inside environments.
    pub environment_ms: f64,
    /// Inside tools.
    pub tool_ms: f64,
    /// Inside rewards, for the whole group.
    pub reward_ms: f64,
}

/// The record of one episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpisodeRecord {
    /// [`EPISODE_SCHEMA`] when it was written.
    pub schema: u32,
    /// Which attempt of the run this is.
    pub id: EpisodeId,
    /// What the episode is about.
    pub task: TaskRef,
    /// The episode's place in the tree of seeds.
    pub seed: Seed,
    /// Where it left other episodes' paths, the first parting first; empty if its whole path is its own.
    pub forks: Vec<Fork>,
    /// The most turns that a seat was allowed.
    pub turn_limit: u32,
    /// The hint that it was shown from an attempt that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance: Option<Content>,
    /// The training step that rewards were told.
    pub training_step: u64,
    /// How it began.
    pub opening: Opening,
    /// What was said, called, answered and shown.
    pub turns: Vec<Turn>,
    /// The turns of the policies, in the order in which they were taken.
    pub policy_turns: Vec<PolicyTurn>,
    /// What the policies saw and sampled.
    pub segments: Vec<Segment>,
    /// Why it ended.
    pub ending: Ending,
    /// The environment's rewards.
    pub environment_rewards: Vec<SeatRewards>,
    /// The extras of the environment's last step.
    pub extras: Vec<NamedValue>,
    /// The environment's privileged view at the end.
    pub privileged: Vec<NamedValue>,
    /// Each tool's final view, as `tool.field`.
    pub views: Vec<NamedValue>,
    /// The environment's hint for another attempt, if it gives any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Content>,
    /// What each reward plugin said.
    pub scores: Vec<PluginScore>,
    /// Each seat's reward as the run assembled it: what is trained on.
    pub rewards: Vec<f64>,
    /// For each seat a reward of each of its turns: what of the rewards belongs to single turns, weighted and gated as
    /// the whole is. It is a part of the whole, told once more with its place.
    pub turn_rewards: Vec<Vec<f64>>,
    /// For each seat what each of its turns gained, as the run's probe found: no part of the rewards. Empty without a
    /// probe.
    pub turn_gains: Vec<Vec<f64>>,
    /// Whether the run's success rule holds.
    pub success: bool,
    /// Whether the group's sampling plan chose it to be trained on.
    pub selected: bool,
    /// All that failed, in order.
    pub failures: Vec<Failure>,
    /// What plugins asked the world outside, in their order. What a reward asked for its whole group stands with the
    /// first episode that it scored.
    pub exchanges: Vec<Exchange>,
    /// What the calls of plugins used, in their order; what a reward used for its whole group stands here as its
    /// questions do.
    pub costs: Vec<CallCost>,
    /// Where the time went.
    pub timing: Timing,
}

impl EpisodeRecord {
    /// How many tokens the policies sampled.
    #[must_use]
    pub fn sampled_tokens(&self) -> usize {
        self.segments.iter().map(Segment::sampled_len).sum()
    }

    /// Removes everything that reward plugins produced: scores, rewards, success, failures, exchanges, costs and time.
    /// The episode is then as it was when it ended, before its group was scored.
    pub fn clear_scores(&mut self) {
        self.scores.clear();
        self.rewards.clear();
        self.turn_rewards.clear();
        self.turn_gains.clear();
        self.success = false;
        self.failures.retain(|failure| !matches!(failure.at, Boundary::Reward(_)));
        self.exchanges.retain(|exchange| !matches!(exchange.at, Boundary::Reward(_)));
        self.costs.retain(|call| !matches!(call.at, Boundary::Reward(_)));
        self.timing.reward_ms = 0.0;
    }

    /// How many calls the seats made.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn, Turn::Call { .. })).count()
    }
}
