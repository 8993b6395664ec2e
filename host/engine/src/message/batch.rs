//! Sequences of a pass as flat tensors.

use super::frame::{MessageTensors, Numbers};
use crate::Sequence;

/// Sequences with their targets, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainingBatch {
    /// Tokens of all sequences.
    pub tokens: Vec<i64>,
    /// Number of tokens of each sequence.
    pub lengths: Vec<i64>,
    /// Index of each target in its own sequence, at least 1.
    pub targets: Vec<i64>,
    /// Number of targets of each sequence.
    pub counts: Vec<i64>,
}

impl TrainingBatch {
    /// The message of these sequences.
    #[must_use]
    pub fn of(sequences: &[Sequence]) -> Self {
        let mut batch = Self::default();
        for sequence in sequences {
            batch.tokens.extend(sequence.tokens.iter().map(|token| i64::from(*token)));
            batch.lengths.push(sequence.tokens.len() as i64);
            batch.targets.extend(sequence.targets.iter().map(|target| target.at as i64));
            batch.counts.push(sequence.targets.len() as i64);
        }
        batch
    }

    /// As tensors of a message.
    #[must_use]
    pub fn into_tensors(self) -> MessageTensors {
        let named =
            [("tokens", self.tokens), ("lengths", self.lengths), ("targets", self.targets), ("counts", self.counts)];
        named.into_iter().map(|(name, numbers)| (name.to_owned(), Numbers::Integers(numbers))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, TokenStats};

    #[test]
    fn sequences_become_flat_with_targets_counted_from_their_own_beginning() {
        let of = |tokens: &[u32], places: &[usize]| {
            let targets = places.iter().map(|at| Target { at: *at, turn: 0 }).collect();
            Sequence::new(tokens, targets, TokenStats::neutral(places.len())).expect("targets")
        };
        let batch = TrainingBatch::of(&[of(&[7, 8, 9, 4], &[1, 2]), of(&[5, 6], &[1])]);
        assert_eq!(batch.tokens, [7, 8, 9, 5, 6], "cut after the last target");
        assert_eq!((batch.lengths, batch.targets, batch.counts), (vec![3, 2], vec![1, 2, 1], vec![2, 1]));
    }
}
