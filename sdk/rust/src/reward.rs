//! Scores for finished trajectories.

mod exported;

pub use exported::{Exported, score};

#[doc(inline)]
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
