//! Accessors of a trajectory for rewards.

use crate::reward::exports::gymkhana::plugin::reward::{Ending, SeatCall, Trajectory, Turn};
use crate::{NamedValue, Task, Value, text_of};

impl Trajectory {
    /// Empty trajectory, for tests.
    #[must_use]
    pub fn new(split: &str, index: u64, ending: Ending) -> Self {
        Self {
            task: Task { split: split.to_owned(), index },
            turns: Vec::new(),
            ending,
            environment_rewards: Vec::new(),
            extras: Vec::new(),
            privileged: Vec::new(),
            views: Vec::new(),
        }
    }

    /// Seats that made a turn, in ascending order.
    #[must_use]
    pub fn seats(&self) -> Vec<u32> {
        let mut seats: Vec<u32> = self.turns.iter().filter_map(Turn::actor).collect();
        seats.sort_unstable();
        seats.dedup();
        seats
    }

    /// Last action of a seat, if that is a message: the index of its turn and its text.
    #[must_use]
    pub fn last_message(&self, seat: u32) -> Option<(usize, String)> {
        let (index, turn) = self.turns.iter().enumerate().rev().find(|(_, turn)| turn.actor() == Some(seat))?;
        match turn {
            Turn::Message(message) => Some((index, text_of(&message.content))),
            _ => None,
        }
    }

    /// Thoughts of a seat before the message at this index: the index of their turn and their text. Only a reward whose
    /// manifest has `thoughts = true` receives them, as a [`Turn::Other`].
    #[must_use]
    pub fn thoughts_before(&self, message: usize) -> Option<(usize, String)> {
        let index = message.checked_sub(1)?;
        match (self.turns.get(index)?, self.turns.get(message)?.actor()) {
            (Turn::Other(thoughts), Some(seat)) if thoughts.seat == seat => Some((index, text_of(&thoughts.content))),
            _ => None,
        }
    }

    /// Calls of a seat, in order.
    pub fn calls(&self, seat: u32) -> impl Iterator<Item = &SeatCall> {
        self.turns.iter().filter_map(move |turn| match turn {
            Turn::Call(call) if call.seat == seat => Some(call),
            _ => None,
        })
    }

    /// Fact of the environment's privileged view.
    #[must_use]
    pub fn privileged(&self, name: &str) -> Option<&Value> {
        find(&self.privileged, name)
    }

    /// Extra of the environment's last step.
    #[must_use]
    pub fn extra(&self, name: &str) -> Option<&Value> {
        find(&self.extras, name)
    }

    /// Fact of a tool's final view, named `tool.field`.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<&Value> {
        find(&self.views, name)
    }
}

impl Turn {
    /// Seat that made this turn; `None` for answers and observations.
    #[must_use]
    pub fn actor(&self) -> Option<u32> {
        match self {
            Self::Message(message) => Some(message.seat),
            Self::Call(call) => Some(call.seat),
            Self::Answer(_) | Self::Observation(_) | Self::Other(_) => None,
        }
    }
}

fn find<'a>(values: &'a [NamedValue], name: &str) -> Option<&'a Value> {
    values.iter().find(|value| value.name == name).map(|value| &value.value)
}
