//! Scores for finished trajectories.

mod exported;
mod trajectory;

pub use exported::{Exported, score};

pub use crate::bindings::reward::exports::gymkhana::plugin::reward::{
    CallAnswer, Component, ComponentInfo, Ending, Evidence, SeatCall, SeatMessage, SeatRewards, SeatScore as Score,
    Trajectory, Turn,
};
use crate::{Error, OptionInfo, Options, Range};

/// A reward.
pub trait Reward: Ranged + 'static {
    /// What it is, for people and for the host.
    fn info() -> Info;

    /// Scores a group: attempts at one task. One list a trajectory, in order, with one score for each seat that
    /// made a turn; [`each_seat`] does so for rewards that do not compare. `training_step` counts from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the trajectories lack what the reward needs, such as a privileged answer.
    fn score(group: &[Trajectory], options: &Options, training_step: u64) -> Result<Vec<Vec<Score>>, Error>;
}

/// The range that a reward keeps. [`crate::plugin!`] implements it from `range` in the crate's `Cargo.toml`.
pub trait Ranged {
    /// Totals and turn rewards stay inside this range.
    const RANGE: Range;
}

/// What a reward is.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    summary: String,
    components: Vec<ComponentInfo>,
    options: Vec<OptionInfo>,
}

impl Info {
    /// One line for people.
    #[must_use]
    pub fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), components: Vec::new(), options: Vec::new() }
    }

    /// Declares one more component of every score, in order; the description says what it measures, with its
    /// unit.
    #[must_use]
    pub fn component(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.components.push(ComponentInfo { name: name.into(), description: description.into() });
        self
    }

    /// Declares one more option.
    #[must_use]
    pub fn option(mut self, option: OptionInfo) -> Self {
        self.options.push(option);
        self
    }
}

/// Scores every seat of every trajectory by itself.
///
/// # Errors
///
/// The first error of `score`.
pub fn each_seat(
    group: &[Trajectory],
    mut score: impl FnMut(&Trajectory, u32) -> Result<Score, Error>,
) -> Result<Vec<Vec<Score>>, Error> {
    let mut one =
        |trajectory: &Trajectory| trajectory.seats().into_iter().map(|seat| score(trajectory, seat)).collect();
    group.iter().map(&mut one).collect()
}

impl Score {
    /// A total for a seat.
    #[must_use]
    pub fn new(seat: u32, total: f64) -> Self {
        Self { seat, total, components: Vec::new(), turns: Vec::new(), evidence: Vec::new() }
    }

    /// The value of the next declared component.
    #[must_use]
    pub fn component(mut self, name: impl Into<String>, value: f64) -> Self {
        self.components.push(Component { name: name.into(), value });
        self
    }

    /// Where a reason for the score stands: a byte range in the text of a turn.
    #[must_use]
    pub fn evidence(mut self, turn: usize, span: std::ops::Range<usize>, note: impl Into<String>) -> Self {
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let evidence =
            Evidence { turn: small(turn), start: small(span.start), end: small(span.end), note: note.into() };
        self.evidence.push(evidence);
        self
    }
}
