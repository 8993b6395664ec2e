//! Token sequences with the tokens that are trained on.

use crate::token_stats::TokenStats;

/// Position of a token that is predicted and trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Index in the sequence, at least 1: a token comes before it.
    pub at: usize,
    /// Policy turn in which it was sampled.
    pub turn: u32,
}

/// A token sequence with its targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// Tokens up to and including the last target.
    pub tokens: Vec<u32>,
    /// Targets in the order of their indices.
    pub targets: Vec<Target>,
    /// Numbers of the targets, one row each.
    pub stats: TokenStats,
}

impl Sequence {
    /// A sequence cut after its last target; `None` without targets. `stats` has one row per target.
    #[must_use]
    pub fn new(tokens: &[u32], targets: Vec<Target>, stats: TokenStats) -> Option<Self> {
        debug_assert_eq!(targets.len(), stats.len(), "one row per target");
        let last = targets.last()?.at;
        Some(Self { tokens: tokens[..=last].to_vec(), targets, stats })
    }

    /// Tokens that a forward pass computes: all but the last, which is only predicted.
    #[must_use]
    pub fn inputs(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_end_with_their_last_target() {
        let targets = vec![Target { at: 1, turn: 0 }, Target { at: 3, turn: 0 }];
        let sequence = Sequence::new(&[5, 6, 7, 8, 9], targets, TokenStats::neutral(2)).expect("targets");
        assert_eq!((&sequence.tokens[..], sequence.inputs()), (&[5, 6, 7, 8][..], &[5, 6, 7][..]));
        assert_eq!(Sequence::new(&[1, 2], Vec::new(), TokenStats::default()), None);
    }
}
