//! View of a finished episode that a reward receives.

use std::collections::BTreeSet;

use gymkhana_record::{Ending, EpisodeRecord, NamedValue, SeatRewards, TaskRef, Turn};

/// View of a finished episode that a reward receives.
#[derive(Debug, Clone, Copy)]
pub struct Trajectory<'a> {
    /// Task.
    pub task: &'a TaskRef,
    /// Messages, calls, answers and observations, in order.
    pub turns: &'a [Turn],
    /// Reason for the end.
    pub ending: Ending,
    /// Rewards of the environment.
    pub environment_rewards: &'a [SeatRewards],
    /// Extras of the environment's last step.
    pub extras: &'a [NamedValue],
    /// Privileged view of the environment at the end.
    pub privileged: &'a [NamedValue],
    /// Final view of each tool, as `tool.field`.
    pub views: &'a [NamedValue],
}

impl<'a> Trajectory<'a> {
    /// Creates the view of a record.
    #[must_use]
    pub fn of(record: &'a EpisodeRecord) -> Self {
        Self {
            task: &record.task,
            turns: &record.turns,
            ending: record.ending,
            environment_rewards: &record.environment_rewards,
            extras: &record.extras,
            privileged: &record.privileged,
            views: &record.views,
        }
    }

    /// Seats that made a turn: each must receive a score.
    pub(super) fn seats(&self) -> BTreeSet<u32> {
        let seat = |turn: &Turn| match turn {
            Turn::Message { seat, .. } | Turn::Call { seat, .. } | Turn::MalformedCall { seat, .. } => Some(*seat),
            Turn::Thought { .. } | Turn::Answer { .. } | Turn::Observation { .. } => None,
        };
        self.turns.iter().filter_map(seat).collect()
    }

    pub(super) fn messages_of(&self, by: u32) -> usize {
        self.turns.iter().filter(|turn| matches!(turn, Turn::Message { seat, .. } if *seat == by)).count()
    }
}
