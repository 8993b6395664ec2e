//! One token sequence that a policy saw and extended: what is trained on is exactly what was sampled.

use serde::{Deserialize, Serialize};

/// Tokens that a policy sampled in one turn, as long as each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampled {
    /// The tokens, the stop token included when one was sampled.
    pub tokens: Vec<u32>,
    /// Natural logarithm of each token's probability under the untruncated policy, at the temperature at which it was
    /// sampled, or at 1 where it was not.
    pub log_probs: Vec<f32>,
    /// Entropy of each token's distribution, in nats.
    pub entropies: Vec<f32>,
    /// The weight version that made each token.
    pub versions: Vec<u32>,
}

/// Columns of one length disagree, or a turn goes back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a segment's column `{column}` has {found} entries and its tokens {expected}")]
pub struct SegmentError {
    column: &'static str,
    found: usize,
    expected: usize,
}

/// One token sequence with what is known of each token. All columns are as long as `tokens`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Segment {
    /// What the policy saw and said.
    pub tokens: Vec<u32>,
    /// Whether the policy sampled this token: the loss mask.
    pub sampled: Vec<bool>,
    /// The behaviour policy's log-probability; 0 where not sampled.
    pub log_probs: Vec<f32>,
    /// The behaviour policy's entropy in nats; 0 where not sampled.
    pub entropies: Vec<f32>,
    /// The weight version that sampled the token; 0 where not sampled.
    pub versions: Vec<u32>,
    /// The seat whose context this is.
    pub seats: Vec<u32>,
    /// The policy turn during or before which the token came, from 0.
    pub turns: Vec<u32>,
}

impl Segment {
    /// Appends text from outside the policy.
    pub fn append_given(&mut self, tokens: &[u32], seat: u32, turn: u32) {
        let length = self.tokens.len() + tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.sampled.resize(length, false);
        self.log_probs.resize(length, 0.0);
        self.entropies.resize(length, 0.0);
        self.versions.resize(length, 0);
        self.seats.resize(length, seat);
        self.turns.resize(length, turn);
    }

    /// Appends what the policy sampled.
    ///
    /// # Errors
    /// If the columns of `sampled` are not of one length: a policy broke its promise.
    pub fn append_sampled(&mut self, sampled: &Sampled, seat: u32, turn: u32) -> Result<(), SegmentError> {
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
        let length = self.tokens.len() + expected;
        self.tokens.extend_from_slice(&sampled.tokens);
        self.sampled.resize(length, true);
        self.log_probs.extend_from_slice(&sampled.log_probs);
        self.entropies.extend_from_slice(&sampled.entropies);
        self.versions.extend_from_slice(&sampled.versions);
        self.seats.resize(length, seat);
        self.turns.resize(length, turn);
        Ok(())
    }

    /// Segments, one behind the other.
    #[must_use]
    pub fn joined(segments: &[Self]) -> Self {
        let mut whole = Self::default();
        for segment in segments {
            whole.tokens.extend_from_slice(&segment.tokens);
            whole.sampled.extend_from_slice(&segment.sampled);
            whole.log_probs.extend_from_slice(&segment.log_probs);
            whole.entropies.extend_from_slice(&segment.entropies);
            whole.versions.extend_from_slice(&segment.versions);
            whole.seats.extend_from_slice(&segment.seats);
            whole.turns.extend_from_slice(&segment.turns);
        }
        whole
    }

    /// The first `length` tokens; none if there are fewer.
    #[must_use]
    pub fn front(&self, length: usize) -> Option<Self> {
        Some(Self {
            tokens: self.tokens.get(..length)?.to_vec(),
            sampled: self.sampled.get(..length)?.to_vec(),
            log_probs: self.log_probs.get(..length)?.to_vec(),
            entropies: self.entropies.get(..length)?.to_vec(),
            versions: self.versions.get(..length)?.to_vec(),
            seats: self.seats.get(..length)?.to_vec(),
            turns: self.turns.get(..length)?.to_vec(),
        })
    }

    /// What stands behind the first `length` tokens.
    #[must_use]
    pub fn without_front(mut self, length: usize) -> Self {
        let length = length.min(self.len());
        self.tokens.drain(..length);
        self.sampled.drain(..length);
        self.log_probs.drain(..length);
        self.entropies.drain(..length);
        self.versions.drain(..length);
        self.seats.drain(..length);
        self.turns.drain(..length);
        self
    }

    /// Whose context it is; none while it is empty.
    #[must_use]
    pub fn seat(&self) -> Option<u32> {
        self.seats.first().copied()
    }

    /// How many tokens there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// How many tokens the policy sampled.
    #[must_use]
    pub fn sampled_len(&self) -> usize {
        self.sampled.iter().filter(|sampled| **sampled).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_of_one_length() {
        let mut segment = Segment::default();
        segment.append_given(&[1, 2, 3], 0, 0);
        let reply = Sampled {
            tokens: vec![4, 5],
            log_probs: vec![-0.5, -0.25],
            entropies: vec![0.7, 0.1],
            versions: vec![3, 3],
        };
        segment.append_sampled(&reply, 0, 0).expect("equal columns");
        segment.append_given(&[6], 0, 1);
        assert_eq!(segment.sampled, [false, false, false, true, true, false]);
        assert_eq!(segment.versions, [0, 0, 0, 3, 3, 0]);
        assert_eq!(segment.turns, [0, 0, 0, 0, 0, 1]);
        assert_eq!(segment.sampled_len(), 2);
        for length in [segment.log_probs.len(), segment.entropies.len(), segment.seats.len()] {
            assert_eq!(length, segment.len());
        }
    }

    #[test]
    fn ragged_columns_are_refused() {
        let ragged = Sampled { tokens: vec![1], ..Sampled::default() };
        assert!(Segment::default().append_sampled(&ragged, 0, 0).is_err());
    }
}
