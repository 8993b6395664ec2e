//! A token sequence that a policy saw and extended: training uses exactly the sampled tokens.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Tokens that a policy sampled in one turn. All columns have one length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sampled {
    /// The tokens, the stop token included when one was sampled.
    pub tokens: Vec<u32>,
    /// Log-probability of each token under the untruncated policy (nats), at the sampling temperature, or at
    /// temperature 1 for greedy decoding.
    pub log_probs: Vec<f32>,
    /// Entropy of each token's distribution (nats).
    pub entropies: Vec<f32>,
    /// The weight version that sampled each token.
    pub versions: Vec<u32>,
}

impl Sampled {
    /// Keeps the first tokens.
    pub fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
        self.log_probs.truncate(tokens);
        self.entropies.truncate(tokens);
        self.versions.truncate(tokens);
    }
}

/// Columns of different length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed segment: column `{column}` has {found} entries for {expected} tokens")]
pub struct SegmentError {
    column: &'static str,
    found: usize,
    expected: usize,
}

/// The columns of a segment before their lengths are checked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SegmentColumns {
    /// The seat whose context this is.
    pub seat: u32,
    /// Prompt tokens and sampled tokens.
    pub tokens: Vec<u32>,
    /// The loss mask: true where the policy sampled the token.
    pub sampled: Vec<bool>,
    /// The behaviour policy's log-probability (nats); 0 where not sampled.
    pub log_probs: Vec<f32>,
    /// The behaviour policy's entropy (nats); 0 where not sampled.
    pub entropies: Vec<f32>,
    /// The weight version that sampled the token; 0 where not sampled.
    pub versions: Vec<u32>,
    /// The policy turn during or before which the token came, from 0.
    pub turns: Vec<u32>,
}

/// A token sequence of one seat, with the numbers of each token. All columns have the length of `tokens`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "SegmentColumns", into = "SegmentColumns")]
pub struct Segment(SegmentColumns);

impl Segment {
    /// An empty segment of one seat's context.
    #[must_use]
    pub fn new(seat: u32) -> Self {
        Self(SegmentColumns { seat, ..SegmentColumns::default() })
    }

    /// A segment with these columns.
    ///
    /// # Errors
    /// If a column has another length than `tokens`.
    pub fn from_columns(columns: SegmentColumns) -> Result<Self, SegmentError> {
        let SegmentColumns { seat: _, tokens, sampled, log_probs, entropies, versions, turns } = &columns;
        let expected = tokens.len();
        for (column, found) in [
            ("sampled", sampled.len()),
            ("log_probs", log_probs.len()),
            ("entropies", entropies.len()),
            ("versions", versions.len()),
            ("turns", turns.len()),
        ] {
            if found != expected {
                return Err(SegmentError { column, found, expected });
            }
        }
        Ok(Self(columns))
    }

    /// The columns, for changing; [`Segment::from_columns`] checks them again.
    #[must_use]
    pub fn into_columns(self) -> SegmentColumns {
        self.0
    }

    /// Appends tokens from outside the policy.
    pub fn append_given(&mut self, tokens: &[u32], turn: u32) {
        let columns = &mut self.0;
        let length = columns.tokens.len() + tokens.len();
        columns.tokens.extend_from_slice(tokens);
        columns.sampled.resize(length, false);
        columns.log_probs.resize(length, 0.0);
        columns.entropies.resize(length, 0.0);
        columns.versions.resize(length, 0);
        columns.turns.resize(length, turn);
    }

    /// Appends the policy's reply.
    ///
    /// # Errors
    /// If the columns of `sampled` differ in length; the segment is then unchanged.
    pub fn append_sampled(&mut self, sampled: &Sampled, turn: u32) -> Result<(), SegmentError> {
        let expected = sampled.tokens.len();
        for (column, found) in [
            ("log_probs", sampled.log_probs.len()),
            ("entropies", sampled.entropies.len()),
            ("versions", sampled.versions.len()),
        ] {
            if found != expected {
                return Err(SegmentError { column, found, expected });
            }
        }
        let columns = &mut self.0;
        let length = columns.tokens.len() + expected;
        columns.tokens.extend_from_slice(&sampled.tokens);
        columns.sampled.resize(length, true);
        columns.log_probs.extend_from_slice(&sampled.log_probs);
        columns.entropies.extend_from_slice(&sampled.entropies);
        columns.versions.extend_from_slice(&sampled.versions);
        columns.turns.resize(length, turn);
        Ok(())
    }

    /// Marks tokens as sampled, or as given.
    pub fn mark(&mut self, places: Range<usize>, sampled: bool) {
        if let Some(marks) = self.0.sampled.get_mut(places) {
            marks.fill(sampled);
        }
    }

    /// Marks the tokens before a turn as given.
    pub fn mark_given_before(&mut self, turn: u32) {
        let SegmentColumns { sampled, turns, .. } = &mut self.0;
        let before = sampled.iter_mut().zip(turns).filter(|(_, own)| **own < turn);
        before.for_each(|(sampled, _)| *sampled = false);
    }

    /// Sets the weight version of the sampled tokens.
    pub fn set_version(&mut self, version: u32) {
        let SegmentColumns { sampled, versions, .. } = &mut self.0;
        let of_sampled = versions.iter_mut().zip(sampled).filter(|(_, sampled)| **sampled);
        of_sampled.for_each(|(own, _)| *own = version);
    }

    /// Places of the replies, in their order: runs of tokens that the policy sampled in one turn.
    pub fn replies(&self) -> impl Iterator<Item = Range<usize>> {
        let kind = |place: usize| (self.0.sampled[place], self.0.turns[place]);
        let mut start = 0;
        let runs = std::iter::from_fn(move || {
            let first = start;
            (first < self.len()).then(|| {
                start = (first..self.len()).find(|place| kind(*place) != kind(first)).unwrap_or(self.len());
                first..start
            })
        });
        runs.filter(|run| self.0.sampled[run.start])
    }

    /// The seat whose context this is.
    #[must_use]
    pub fn seat(&self) -> u32 {
        self.0.seat
    }

    /// Prompt tokens and sampled tokens.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.0.tokens
    }

    /// The loss mask: true where the policy sampled the token.
    #[must_use]
    pub fn sampled(&self) -> &[bool] {
        &self.0.sampled
    }

    /// The behaviour policy's log-probability of each token (nats); 0 where not sampled.
    #[must_use]
    pub fn log_probs(&self) -> &[f32] {
        &self.0.log_probs
    }

    /// The behaviour policy's entropy at each token (nats); 0 where not sampled.
    #[must_use]
    pub fn entropies(&self) -> &[f32] {
        &self.0.entropies
    }

    /// The weight version that sampled each token; 0 where not sampled.
    #[must_use]
    pub fn versions(&self) -> &[u32] {
        &self.0.versions
    }

    /// The policy turn during or before which each token came, from 0.
    #[must_use]
    pub fn turns(&self) -> &[u32] {
        &self.0.turns
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.tokens.len()
    }

    /// Whether the segment has no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.tokens.is_empty()
    }

    /// Number of tokens that the policy sampled.
    #[must_use]
    pub fn sampled_len(&self) -> usize {
        self.0.sampled.iter().filter(|sampled| **sampled).count()
    }
}

impl TryFrom<SegmentColumns> for Segment {
    type Error = SegmentError;

    fn try_from(columns: SegmentColumns) -> Result<Self, SegmentError> {
        Self::from_columns(columns)
    }
}

impl From<Segment> for SegmentColumns {
    fn from(segment: Segment) -> Self {
        segment.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_keep_one_length() {
        let mut segment = Segment::new(1);
        segment.append_given(&[1, 2, 3], 0);
        let reply = Sampled {
            tokens: vec![4, 5],
            log_probs: vec![-0.5, -0.25],
            entropies: vec![0.7, 0.1],
            versions: vec![3, 3],
        };
        segment.append_sampled(&reply, 0).expect("equal columns");
        segment.append_given(&[6], 1);
        assert_eq!(segment.seat(), 1);
        assert_eq!(segment.sampled(), [false, false, false, true, true, false]);
        assert_eq!(segment.versions(), [0, 0, 0, 3, 3, 0]);
        assert_eq!(segment.turns(), [0, 0, 0, 0, 0, 1]);
        assert_eq!(segment.sampled_len(), 2);
        for length in [segment.log_probs().len(), segment.entropies().len()] {
            assert_eq!(length, segment.len());
        }
        assert_eq!(Segment::from_columns(segment.clone().into_columns()).as_ref(), Ok(&segment));
    }

    #[test]
    fn columns_of_different_length_are_rejected() {
        let reply = Sampled { tokens: vec![1], ..Sampled::default() };
        let mut segment = Segment::new(0);
        assert!(segment.append_sampled(&reply, 0).is_err());
        assert!(segment.is_empty());
        let whole = SegmentColumns {
            tokens: vec![1],
            sampled: vec![true],
            log_probs: vec![0.0],
            entropies: vec![0.0],
            versions: vec![0],
            ..SegmentColumns::default()
        };
        let error = Segment::from_columns(whole.clone()).expect_err("`turns` is empty");
        assert_eq!(error.to_string(), "malformed segment: column `turns` has 0 entries for 1 tokens");
        assert!(Segment::from_columns(SegmentColumns { turns: vec![0], ..whole }).is_ok());
        let json =
            "{\"seat\":0,\"tokens\":[1],\"sampled\":[],\"log_probs\":[],\"entropies\":[],\"versions\":[],\"turns\":[]}";
        assert!(serde_json::from_str::<Segment>(json).is_err());
    }

    /// One change of a segment: given tokens, or a reply whose entropies may be cut short.
    #[derive(Debug, Clone)]
    enum Change {
        Given(Vec<u32>),
        Reply { tokens: Vec<u32>, ragged: bool },
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let tokens = || prop::collection::vec(any::<u32>(), 0..6);
        let reply = (tokens(), any::<bool>()).prop_map(|(tokens, ragged)| Change::Reply { tokens, ragged });
        prop::collection::vec(prop_oneof![tokens().prop_map(Change::Given), reply], 0..12)
    }

    proptest! {
        #[test]
        fn any_changes_keep_the_invariant(changes in changes(), seat in 0_u32..4) {
            let mut segment = Segment::new(seat);
            let mut expected: Vec<(u32, bool, u32)> = vec![];
            for (turn, change) in (0..).zip(changes) {
                match change {
                    Change::Given(tokens) => {
                        segment.append_given(&tokens, turn);
                        expected.extend(tokens.iter().map(|token| (*token, false, turn)));
                    }
                    Change::Reply { tokens, ragged } => {
                        let numbers = vec![-1.0; tokens.len()];
                        let entropies = vec![0.5; tokens.len().saturating_sub(usize::from(ragged))];
                        let versions = vec![1; tokens.len()];
                        let reply = Sampled { tokens, log_probs: numbers, entropies, versions };
                        let before = segment.clone();
                        let is_ragged = reply.entropies.len() != reply.tokens.len();
                        prop_assert_eq!(segment.append_sampled(&reply, turn).is_err(), is_ragged);
                        if is_ragged {
                            prop_assert_eq!(&segment, &before);
                        } else {
                            expected.extend(reply.tokens.iter().map(|token| (*token, true, turn)));
                        }
                    }
                }
            }
            prop_assert_eq!(segment.len(), expected.len());
            prop_assert_eq!(segment.seat(), seat);
            prop_assert_eq!(segment.sampled_len(), expected.iter().filter(|(_, sampled, _)| *sampled).count());
            for (at, (token, sampled, turn)) in expected.into_iter().enumerate() {
                prop_assert_eq!((segment.tokens()[at], segment.sampled()[at], segment.turns()[at]), (token, sampled, turn));
                prop_assert_eq!(segment.log_probs()[at] != 0.0, sampled);
                prop_assert_eq!(segment.versions()[at] != 0, sampled);
            }
            let columns = segment.clone().into_columns();
            prop_assert_eq!(Segment::from_columns(columns), Ok(segment));
        }
    }
}
