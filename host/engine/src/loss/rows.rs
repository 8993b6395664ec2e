//! Rows of known numbers that a loss reads, and the units of tokens that share a ratio.

use std::collections::HashMap;
use std::ops::Range;

use gymkhana_algorithm::Ratio;

use crate::token_stats::{Column, TokenStats};

/// Tokens that share a ratio: those of one sequence, or of one turn in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// The tokens of a turn.
    Turn,
    /// All tokens of a sequence.
    Sequence,
}

impl Units {
    /// Units of a flag; `None` if each token has its own ratio, or none.
    #[must_use]
    pub fn of(ratio: Option<Ratio>) -> Option<Self> {
        match ratio {
            Some(Ratio::Turn) => Some(Self::Turn),
            Some(Ratio::Sequence) => Some(Self::Sequence),
            Some(Ratio::Token) | None => None,
        }
    }

    /// Number of each token's unit, from 0, given its sequence and turn.
    pub fn number(self, tokens: impl Iterator<Item = (usize, u32)>) -> Vec<usize> {
        let mut numbers = HashMap::new();
        tokens
            .map(|(sequence, turn)| {
                let part = match self {
                    Self::Turn => turn,
                    Self::Sequence => 0,
                };
                let next = numbers.len();
                *numbers.entry((sequence, part)).or_insert(next)
            })
            .collect()
    }
}

/// Consecutive rows of a table, and the units of its tokens.
#[derive(Debug, Clone)]
pub struct TokenRows<'a> {
    stats: &'a TokenStats,
    range: Range<usize>,
    units: Option<&'a [usize]>,
}

impl<'a> TokenRows<'a> {
    /// All rows of a table. `units` has the number of each row's unit.
    #[must_use]
    pub fn new(stats: &'a TokenStats, units: Option<&'a [usize]>) -> Self {
        Self { stats, range: 0..stats.len(), units }
    }

    /// Some of the rows, by their indices in these.
    ///
    /// # Panics
    /// If the range is out of range.
    #[must_use]
    pub fn narrow(&self, range: Range<usize>) -> Self {
        assert!(range.end <= self.len(), "rows {range:?} of {}", self.len());
        Self { range: self.range.start + range.start..self.range.start + range.end, ..self.clone() }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// A number of a row.
    pub(super) fn get(&self, column: Column, row: usize) -> f64 {
        self.stats.get(column, self.range.start + row)
    }

    /// Whether any number of the whole table's column was set.
    pub(super) fn has(&self, column: Column) -> bool {
        self.stats.has(column)
    }

    /// 0 for a copy of another episode's token, 1 for others.
    pub(super) fn counted(&self, row: usize) -> f64 {
        f64::from(u8::from(!self.stats.is_copy(self.range.start + row)))
    }

    /// Units of the rows.
    pub(super) fn units(&self) -> Option<&'a [usize]> {
        self.units.map(|units| &units[self.range.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_turns_of_sequences_or_sequences() {
        let tokens = || [(4, 0), (4, 0), (4, 1), (9, 1)].into_iter();
        assert_eq!(Units::Turn.number(tokens()), [0, 0, 1, 2]);
        assert_eq!(Units::Sequence.number(tokens()), [0, 0, 0, 1]);
    }

    #[test]
    fn narrowed_rows_keep_their_numbers_and_units() {
        let mut stats = TokenStats::neutral(4);
        stats.set(Column::Advantage, 3, 2.0);
        let units = [0, 0, 1, 1];
        let rows = TokenRows::new(&stats, Some(&units)).narrow(1..4).narrow(1..3);
        assert_eq!((rows.len(), rows.get(Column::Advantage, 1)), (2, 2.0));
        assert_eq!(rows.units(), Some(&[1, 1][..]));
    }
}
