//! Constructors of scores.

use crate::reward::exports::gymkhana::plugin::reward::{Component, Evidence, SeatScore};

impl SeatScore {
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
