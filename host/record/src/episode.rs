//! The record of one episode, for storage, training, display and replay.

use serde::{Deserialize, Serialize};

use crate::{
    AgentRun, Boundary, CallCost, Content, Ending, EpisodeId, Exchange, Failure, Function, LogEntry, NamedValue,
    PolicyTurn, Score, Seed, Segment, TaskRef, Turn,
};

/// The schema number of the record. It increases with every change that an older reader would misread.
pub const EPISODE_SCHEMA: u32 = 8;

/// A fork of an episode from another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The episode with the shared turns.
    pub parent: EpisodeId,
    /// For each seat, the number of shared turns.
    pub turns: Vec<u32>,
    /// The seed of the shared turns.
    pub seed: Seed,
}

impl Fork {
    /// Number of shared turns of all seats.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.turns.iter().sum()
    }
}

/// The functions that one seat may call: the environment's, the tools' and the host's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeatFunctions {
    /// The seat.
    pub seat: u32,
    /// The functions of the seat.
    pub functions: Vec<Function>,
}

/// The start of an episode, as the plugins reported it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Opening {
    /// The functions of each seat, in the order of seats.
    pub functions: Vec<SeatFunctions>,
    /// The environment's setup for tools: tool name and bytes. Policies never see it.
    #[serde(with = "crate::bytes::named")]
    pub setup: Vec<(String, Vec<u8>)>,
    /// The first observations: seat and content.
    pub observations: Vec<(u32, Content)>,
}

/// Rewards of a seat from the environment, one number for each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeatRewards {
    /// The seat.
    pub seat: u32,
    /// Reward of each step; 0 where the environment gave none.
    pub rewards: Vec<f64>,
}

/// Scores of a reward plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginScore {
    /// The reward's name.
    pub plugin: String,
    /// A score for each seat that made a turn.
    pub scores: Vec<Score>,
}

/// Wall-clock time (milliseconds). A replay does not compare it.
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
    /// [`EPISODE_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// The attempt that this record describes.
    pub id: EpisodeId,
    /// The environment's name in the run file, in a run with several environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The task.
    pub task: TaskRef,
    /// The episode's seed in the tree of seeds.
    pub seed: Seed,
    /// The forks that led to this episode, the first one first; empty if it shares no turns with another.
    pub forks: Vec<Fork>,
    /// The turn limit of each seat.
    pub turn_limit: u32,
    /// The hint from a failed attempt that the episode was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance: Option<Content>,
    /// The training step that reward plugins were given.
    pub training_step: u64,
    /// The start of the episode.
    pub opening: Opening,
    /// Messages, calls, answers and observations.
    pub turns: Vec<Turn>,
    /// The turns of the policies, in order.
    pub policy_turns: Vec<PolicyTurn>,
    /// The tokens of prompts and replies.
    pub segments: Vec<Segment>,
    /// The reason why the episode ended.
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
    /// The scores of each reward plugin.
    pub scores: Vec<PluginScore>,
    /// The total reward of each seat, which training uses.
    pub rewards: Vec<f64>,
    /// The turn-level part of `rewards`: one number per seat and turn, with the same weights and gates.
    pub turn_rewards: Vec<Vec<f64>>,
    /// The gain of each seat's turns by the run's turn probe, which `rewards` does not include. Empty without a probe.
    pub turn_gains: Vec<Vec<f64>>,
    /// Whether the run's success rule holds.
    pub success: bool,
    /// Whether training selected the episode: the group's sampling plan did, and neither was the group in excess nor did
    /// dynamic sampling replace it because of equal rewards.
    pub selected: bool,
    /// All failures, in order.
    pub failures: Vec<Failure>,
    /// The outbound calls of plugins, in order. The first scored episode of a group holds those that a reward made for
    /// the whole group.
    pub exchanges: Vec<Exchange>,
    /// The costs of plugin calls, in order. The first scored episode of a group holds those of its rewards.
    pub costs: Vec<CallCost>,
    /// Lines that plugins logged or printed, by call, bounded per plugin. A replay does not compare them. The first scored
    /// episode of a group holds those of its rewards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogEntry>,
    /// Full names of the plugins that ran without a sandbox, such as `local/guess`: environment, tools, rewards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsandboxed: Vec<String>,
    /// The run of the agent program, if one played the episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRun>,
    /// Wall-clock times.
    pub timing: Timing,
}

impl EpisodeRecord {
    /// A record without turns, segments, scores and costs.
    #[must_use]
    pub fn new(id: EpisodeId, task: TaskRef, seed: Seed, ending: Ending) -> Self {
        Self {
            schema: EPISODE_SCHEMA,
            id,
            environment: None,
            task,
            seed,
            forks: vec![],
            turn_limit: 0,
            guidance: None,
            hint: None,
            selected: true,
            training_step: id.step,
            opening: Opening::default(),
            turns: vec![],
            policy_turns: vec![],
            segments: vec![],
            ending,
            environment_rewards: vec![],
            extras: vec![],
            privileged: vec![],
            views: vec![],
            scores: vec![],
            rewards: vec![],
            turn_rewards: vec![],
            turn_gains: vec![],
            success: false,
            failures: vec![],
            exchanges: vec![],
            costs: vec![],
            logs: vec![],
            unsandboxed: vec![],
            agent: None,
            timing: Timing::default(),
        }
    }

    /// The task with its environment: `train/3`, or `lake:train/3` in a run with several environments.
    #[must_use]
    pub fn task_name(&self) -> String {
        match &self.environment {
            Some(environment) => format!("{environment}:{}", self.task),
            None => self.task.to_string(),
        }
    }

    /// The first seed, and each later seed with the number of turns of all seats after which it begins.
    #[must_use]
    pub fn seeds(&self) -> (Seed, Vec<(u32, Seed)>) {
        let starts = std::iter::once(0).chain(self.forks.iter().map(Fork::taken));
        let seeds = self.forks.iter().map(|fork| fork.seed).chain(std::iter::once(self.seed));
        let mut held = starts.zip(seeds);
        let first = held.next().map_or(self.seed, |(_, seed)| seed);
        (first, held.collect())
    }

    /// Number of a seat's turns that belong to the episode from which this one was forked.
    #[must_use]
    pub fn shared_turns(&self, seat: u32) -> u32 {
        self.forks.last().and_then(|fork| fork.turns.get(seat as usize)).copied().unwrap_or(0)
    }

    /// Whether the episode was dropped because something outside of the plugins failed: the host, a model, a remote tool.
    /// Played again, it may succeed.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.ending == Ending::Dropped && self.failures.iter().any(|failure| failure.kind.is_hosts())
    }

    /// Number of tokens that the policies sampled.
    #[must_use]
    pub fn sampled_tokens(&self) -> usize {
        self.segments.iter().map(Segment::sampled_len).sum()
    }

    /// Removes everything that reward plugins produced: scores, rewards, success, failures, exchanges, costs, log lines and
    /// time.
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
        self.logs.retain(|entry| !matches!(entry.at, Boundary::Reward(_)));
        self.timing.reward_ms = 0.0;
    }

    /// Number of calls that the seats made, including malformed ones.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.turns.iter().filter(|turn| turn.caller().is_some()).count()
    }

    /// Number of calls that could not be parsed.
    #[must_use]
    pub fn malformed_calls(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn, Turn::MalformedCall { .. })).count()
    }
}
