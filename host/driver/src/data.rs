//! The part of an episode that the host holds: its transcript, rewards, failures and position.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use gymkhana_record::{
    Added, CallCost, Content, Ending, EpisodeRecord, Exchange, Failure, Function, LogEntry, NamedValue, Opening,
    SeatRewards, TaskRef, Timing, Turn,
};
use gymkhana_sandbox::ResetResult;
use serde::{Deserialize, Serialize};

use crate::limits::ByteBudget;
use crate::limits::log::EpisodeLog;
use crate::overrides::CallOverrides;

/// The host's part of an episode. A fork gets a clone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EpisodeData {
    /// Task of the episode.
    pub task: TaskRef,
    /// Recorded results that replace calls. A saved episode is not a replay.
    #[serde(skip)]
    pub overrides: Arc<CallOverrides>,
    /// Start of the episode. After [`Episode::offer`](crate::Episode::offer) it lists every function of every seat.
    pub opening: Opening,
    /// Transcript.
    pub turns: Vec<Turn>,
    /// Rewards of each seat, one per step.
    pub rewards: Vec<SeatRewards>,
    /// Extras of the last step.
    pub extras: Vec<NamedValue>,
    /// Failures in the order of their calls.
    pub failures: Vec<Failure>,
    /// Cost of each call.
    pub costs: Vec<CallCost>,
    /// Outbound calls of the plugins.
    pub exchanges: Vec<Exchange>,
    /// Log of the plugins.
    pub logs: EpisodeLog,
    /// Room for what plugins return and log.
    pub budget: ByteBudget,
    /// Wall-clock time of the calls, in milliseconds.
    pub timing: Timing,
    /// Seat to move.
    pub seat: u32,
    /// Number of steps of the environment.
    pub steps: u32,
    /// Number of calls of all seats.
    pub calls: u32,
    /// Answers to the calls of each seat's last turn, for the oracle.
    pub results: Vec<Vec<String>>,
    /// Ending by the environment; `None` while the episode continues.
    pub ending: Option<Ending>,
}

/// Sizes of an episode's transcript, rewards, failures and outbound calls.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Turns of the transcript.
    pub turns: usize,
    /// Steps of the environment, each with a reward of every seat.
    pub steps: usize,
    /// Failures.
    pub failures: usize,
    exchanges: usize,
}

impl EpisodeData {
    /// Data of an episode that has just started.
    pub(crate) fn new(
        task: TaskRef,
        overrides: Arc<CallOverrides>,
        started: ResetResult,
        budget: ByteBudget,
        logs: EpisodeLog,
    ) -> Self {
        let ResetResult { opening, seat } = started;
        Self {
            task,
            overrides,
            opening,
            turns: vec![],
            rewards: vec![],
            extras: vec![],
            failures: vec![],
            costs: vec![],
            exchanges: vec![],
            logs,
            budget,
            timing: Timing::default(),
            seat,
            steps: 0,
            calls: 0,
            results: vec![],
            ending: None,
        }
    }

    /// How much it holds now.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent {
            turns: self.turns.len(),
            steps: self.steps as usize,
            failures: self.failures.len(),
            exchanges: self.exchanges.len(),
        }
    }

    /// What was added since.
    #[must_use]
    pub fn since(&self, before: Extent) -> Added<'_> {
        Added {
            turns: Cow::Borrowed(self.turns.get(before.turns..).unwrap_or_default()),
            rewards: self
                .rewards
                .iter()
                .map(|own| Cow::Borrowed(own.rewards.get(before.steps..).unwrap_or_default()))
                .collect(),
            extras: Some(Cow::Borrowed(&self.extras)),
            failures: Cow::Borrowed(self.failures.get(before.failures..).unwrap_or_default()),
            exchanges: Cow::Borrowed(self.exchanges.get(before.exchanges..).unwrap_or_default()),
            ..Added::default()
        }
    }

    /// Completes a record. An episode with a fault of the host is dropped, whatever its ending. `begun` is its start.
    #[must_use]
    pub fn into_record(self, ending: Ending, begun: Instant, record: EpisodeRecord) -> EpisodeRecord {
        let is_hosts = self.failures.iter().any(|failure| failure.kind.is_hosts());
        EpisodeRecord {
            ending: if is_hosts { Ending::Dropped } else { ending },
            opening: self.opening,
            turns: self.turns,
            environment_rewards: self.rewards,
            extras: self.extras,
            failures: self.failures,
            costs: self.costs,
            exchanges: self.exchanges,
            logs: self.logs.into_entries(),
            timing: Timing { total_ms: begun.elapsed().as_secs_f64() * 1e3, ..self.timing },
            ..record
        }
    }

    /// Adds lines of a plugin's log.
    pub(crate) fn log(&mut self, entries: Vec<LogEntry>) {
        self.logs.extend_within(entries, &mut self.budget);
    }

    /// Functions that a seat may call.
    #[must_use]
    pub fn functions(&self, seat: u32) -> &[Function] {
        let offered = self.opening.functions.iter().find(|offered| offered.seat == seat);
        offered.map_or(&[], |offered| offered.functions.as_slice())
    }

    /// Whether a seat may call a function.
    #[must_use]
    pub fn offers(&self, seat: u32, function: &str) -> bool {
        self.functions(seat).iter().any(|offered| offered.name == function)
    }

    /// Observations after the last message or call, in their order: seat and content. A non-empty answer counts as an
    /// observation.
    #[must_use]
    pub fn last_observations(&self) -> Vec<(u32, &Content)> {
        let shown = self.turns.iter().rev().map_while(|turn| match turn {
            Turn::Observation { seat, content } | Turn::Answer { seat, content, .. } => Some((*seat, content)),
            Turn::Thought { .. } | Turn::Message { .. } | Turn::Call { .. } | Turn::MalformedCall { .. } => None,
        });
        let mut shown: Vec<_> = shown.filter(|(_, content)| !content.is_empty()).collect();
        shown.reverse();
        shown
    }
}
