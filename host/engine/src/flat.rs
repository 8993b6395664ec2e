//! The targets of several sequences as one table, for engines that evaluate them together.

use crate::loss::Units;
use crate::{Evaluated, Loss, Sequence, Target, TokenNumbers, TokenRows, TokenStats};

/// Targets of sequences, one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Flat {
    /// The targets.
    pub targets: Vec<Target>,
    /// Their numbers.
    pub stats: TokenStats,
    /// Number of targets of each sequence.
    lengths: Vec<usize>,
}

impl Flat {
    /// The targets of these sequences.
    #[must_use]
    pub fn of(sequences: &[Sequence]) -> Self {
        let mut flat = Self::default();
        for sequence in sequences {
            flat.lengths.push(sequence.targets.len());
            flat.targets.extend(&sequence.targets);
            (0..sequence.targets.len()).for_each(|row| flat.stats.push_row(&sequence.stats, row));
        }
        flat
    }

    /// A loss of the targets.
    ///
    /// # Panics
    /// If there is not one number for each target.
    #[must_use]
    pub fn evaluate(&self, loss: Loss<'_>, numbers: &TokenNumbers) -> Evaluated {
        let units = loss.units().map(|units| self.units(units));
        loss.evaluate(numbers, &TokenRows::new(&self.stats, units.as_deref()))
    }

    fn units(&self, units: Units) -> Vec<usize> {
        let sequences = self.lengths.iter().enumerate().flat_map(|(index, length)| std::iter::repeat_n(index, *length));
        units.number(sequences.zip(&self.targets).map(|(sequence, target)| (sequence, target.turn)))
    }

    /// One number of each target, by sequences.
    #[must_use]
    pub fn split(&self, numbers: &[f64]) -> Vec<Vec<f64>> {
        let mut rest = numbers;
        let of = |length: &usize| {
            let (own, later) = rest.split_at(*length);
            rest = later;
            own.to_vec()
        };
        self.lengths.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_their_sequences() {
        let of = |turns: &[u32]| {
            let targets = turns.iter().enumerate().map(|(index, turn)| Target { at: index + 1, turn: *turn }).collect();
            Sequence::new(&[0; 8], targets, TokenStats::neutral(turns.len())).expect("targets")
        };
        let flat = Flat::of(&[of(&[0, 1]), of(&[1])]);
        assert_eq!((flat.units(Units::Turn), flat.units(Units::Sequence)), (vec![0, 1, 2], vec![0, 0, 1]));
        assert_eq!(flat.split(&[1.0, 2.0, 3.0]), [vec![1.0, 2.0], vec![3.0]]);
    }
}
