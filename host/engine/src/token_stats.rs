//! Per-token numbers of sampled tokens, as columns that every step from layout to loss shares.
//!
//! A new per-token number is one variant of [`Column`] with its neutral value; storage, checkpoints, minibatches and
//! the loss's tensors carry it without further changes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A per-token number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Log-probability under the weights that sampled the token (behaviour policy), in nats.
    Behaviour,
    /// Log-probability under the weights at the start of the training step (proximal policy), in nats; equal to
    /// [`Column::Behaviour`] without off-policy correction.
    Proximal,
    /// Log-probability under the reference policy, in nats.
    Reference,
    /// Log-probability under the teacher, in nats.
    Teacher,
    /// Entropy of the distribution that the token was sampled from, in nats.
    Entropy,
    /// Weight version that sampled the token.
    Version,
    /// The critic's value before the token.
    Value,
    /// Return that the critic should predict before the token.
    ValueTarget,
    /// 1 where the critic learns a value, 0 elsewhere.
    ValueMask,
    /// Advantage of the token.
    Advantage,
    /// Factor of the surrogate, such as a truncated importance weight.
    Correction,
    /// Slope, over the entropy, of the cost of leaving the entropy band.
    BandSlope,
    /// Offset of the cost of leaving the entropy band.
    BandOffset,
    /// 1 where the token enters the loss, 0 where it is masked.
    LossMask,
    /// Share of the token in the minibatch's loss.
    LossWeight,
    /// Factor of the divergence from the reference policy, in addition to the share of the loss.
    KlWeight,
    /// 1 for a token that another episode of the batch has, too (`shared_turns = "per-episode"`), 0 elsewhere. Metrics
    /// leave copies out.
    Copy,
}

impl Column {
    /// Value of tokens for which nothing else was set.
    #[must_use]
    pub fn neutral(self) -> f64 {
        match self {
            Self::Correction | Self::LossMask | Self::LossWeight | Self::KlWeight => 1.0,
            Self::Behaviour
            | Self::Proximal
            | Self::Reference
            | Self::Teacher
            | Self::Entropy
            | Self::Version
            | Self::Value
            | Self::ValueTarget
            | Self::ValueMask
            | Self::Advantage
            | Self::BandSlope
            | Self::BandOffset
            | Self::Copy => 0.0,
        }
    }
}

/// Columns of equal length, one number per token. A column that was never set is neutral and takes no memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TokenStats {
    length: usize,
    columns: BTreeMap<Column, Vec<f64>>,
}

impl TokenStats {
    /// `length` tokens with neutral columns.
    #[must_use]
    pub fn neutral(length: usize) -> Self {
        Self { length, columns: BTreeMap::new() }
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a token; columns that are not named are neutral.
    pub fn push(&mut self, numbers: &[(Column, f64)]) {
        self.length += 1;
        for (column, values) in &mut self.columns {
            values.resize(self.length, column.neutral());
        }
        for (column, number) in numbers {
            self.set(*column, self.length - 1, *number);
        }
    }

    /// Appends a copy of another table's token.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn push_row(&mut self, other: &Self, index: usize) {
        let row: Vec<(Column, f64)> = other.columns.iter().map(|(column, values)| (*column, values[index])).collect();
        self.push(&row);
    }

    /// One token's number.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[must_use]
    pub fn get(&self, column: Column, index: usize) -> f64 {
        self.columns.get(&column).map_or(column.neutral(), |values| values[index])
    }

    /// Sets one token's number.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn set(&mut self, column: Column, index: usize, number: f64) {
        self.column_mut(column)[index] = number;
    }

    /// Sets the numbers of a range of tokens.
    ///
    /// # Panics
    /// If the range is out of range.
    pub fn fill(&mut self, column: Column, range: Range<usize>, number: f64) {
        self.column_mut(column)[range].fill(number);
    }

    /// Whether a column was set for any token.
    #[must_use]
    pub fn has(&self, column: Column) -> bool {
        self.columns.contains_key(&column)
    }

    /// A column as numbers, one per token.
    #[must_use]
    pub fn column(&self, column: Column) -> Cow<'_, [f64]> {
        match self.columns.get(&column) {
            Some(values) => Cow::Borrowed(values),
            None => Cow::Owned(vec![column.neutral(); self.length]),
        }
    }

    /// A column to write to, one number per token.
    pub fn column_mut(&mut self, column: Column) -> &mut [f64] {
        self.columns.entry(column).or_insert_with(|| vec![column.neutral(); self.length])
    }

    /// Columns in which at least one token is not neutral.
    pub fn informative(&self) -> impl Iterator<Item = Column> {
        let differs = |(column, values): &(&Column, &Vec<f64>)| values.iter().any(|value| *value != column.neutral());
        self.columns.iter().filter(differs).map(|(column, _)| *column)
    }

    /// Whether a token enters the loss.
    #[must_use]
    pub fn is_in_loss(&self, index: usize) -> bool {
        self.get(Column::LossMask, index) != 0.0
    }

    /// Whether a token is a copy of another episode's.
    #[must_use]
    pub fn is_copy(&self, index: usize) -> bool {
        self.get(Column::Copy, index) != 0.0
    }

    /// Number of tokens that are not copies.
    #[must_use]
    pub fn originals(&self) -> usize {
        (0..self.length).filter(|index| !self.is_copy(*index)).count()
    }

    /// Indices of the tokens that enter the loss, in order.
    pub fn in_loss(&self) -> impl Iterator<Item = usize> {
        (0..self.length).filter(|index| self.is_in_loss(*index))
    }

    /// A column's numbers of the tokens that enter the loss, in order.
    pub fn column_in_loss(&self, column: Column) -> impl Iterator<Item = f64> {
        self.in_loss().map(move |index| self.get(column, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_were_never_set_are_neutral() {
        let mut stats = TokenStats::neutral(2);
        assert_eq!((stats.get(Column::Correction, 1), stats.get(Column::Advantage, 1)), (1.0, 0.0));
        assert_eq!(stats.informative().count(), 0);
        stats.set(Column::Correction, 0, 0.5);
        stats.push(&[(Column::Advantage, 2.0)]);
        assert_eq!(*stats.column(Column::Correction), [0.5, 1.0, 1.0]);
        assert_eq!(*stats.column(Column::Advantage), [0.0, 0.0, 2.0]);
        assert_eq!(stats.informative().collect::<Vec<_>>(), [Column::Advantage, Column::Correction]);
        let mut copy = TokenStats::default();
        copy.push_row(&stats, 2);
        assert_eq!((copy.len(), copy.get(Column::Advantage, 0), copy.get(Column::Correction, 0)), (1, 2.0, 1.0));
    }

    #[test]
    fn masked_tokens_are_not_in_the_loss() {
        let mut stats = TokenStats::neutral(3);
        stats.fill(Column::LossMask, 0..2, 0.0);
        assert_eq!(stats.in_loss().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn checkpoints_name_the_columns() {
        let mut stats = TokenStats::neutral(1);
        stats.set(Column::ValueTarget, 0, 0.25);
        let text = serde_json::to_string(&stats).expect("JSON");
        assert_eq!(text, r#"{"length":1,"columns":{"value-target":[0.25]}}"#);
        assert_eq!(serde_json::from_str::<TokenStats>(&text).expect("a table"), stats);
    }
}
