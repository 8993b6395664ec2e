//! Scores for finished trajectories.

mod exported;
mod trajectory;

pub use exported::{Exported, score};

pub use crate::bindings::reward::exports::gymkhana::plugin::reward::{
    CallAnswer, Component, ComponentInfo, Ending, Evidence, SeatCall, SeatMessage, SeatRewards, SeatScore as Score,
    Trajectory, Turn,
};
use crate::{Error, PluginOptions, Range};

/// Reward for finished trajectories.
pub trait Reward: Ranged + 'static {
    /// Options that a run file may set; `()` for none.
    type Options: PluginOptions;

    /// Description of the reward.
    fn info() -> Info;

    /// Scores a group of attempts at one task. Returns one list per trajectory, in order, with one score for each seat
    /// that acted. [`each_seat`] does so for rewards that score seats independently. `training_step` counts from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the trajectories lack required data, such as a privileged answer.
    fn score(group: &[Trajectory], options: &Self::Options, training_step: u64) -> Result<Vec<Vec<Score>>, Error>;
}

/// Range of a reward. [`crate::plugin!`] implements it from `range` in the crate's `Cargo.toml`.
pub trait Ranged {
    /// Inclusive bounds of totals and turn rewards.
    const RANGE: Range;
}

/// Description of a reward.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    summary: String,
    components: Vec<ComponentInfo>,
}

impl Info {
    /// Description with a one-line summary.
    #[must_use]
    pub fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), components: Vec::new() }
    }

    /// Adds a component, which every score has in declaration order. The description states what it measures, with its
    /// unit.
    #[must_use]
    pub fn component(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.components.push(ComponentInfo { name: name.into(), description: description.into() });
        self
    }
}

/// Scores each seat of each trajectory independently.
///
/// # Errors
///
/// First error of `score`.
pub fn each_seat(
    group: &[Trajectory],
    mut score: impl FnMut(&Trajectory, u32) -> Result<Score, Error>,
) -> Result<Vec<Vec<Score>>, Error> {
    let mut one =
        |trajectory: &Trajectory| trajectory.seats().into_iter().map(|seat| score(trajectory, seat)).collect();
    group.iter().map(&mut one).collect()
}

impl Score {
    /// Score with a total for a seat.
    #[must_use]
    pub fn new(seat: u32, total: f64) -> Self {
        Self { seat, total, components: Vec::new(), turns: Vec::new(), evidence: Vec::new() }
    }

    /// Adds the value of the next declared component.
    #[must_use]
    pub fn component(mut self, name: impl Into<String>, value: f64) -> Self {
        self.components.push(Component { name: name.into(), value });
        self
    }

    /// Adds a reason for the score: a byte range in the text of a turn, and a note.
    #[must_use]
    pub fn evidence(mut self, turn: usize, span: std::ops::Range<usize>, note: impl Into<String>) -> Self {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let evidence =
            Evidence { turn: small(turn), start: small(span.start), end: small(span.end), note: note.into() };
        self.evidence.push(evidence);
        self
    }
}
