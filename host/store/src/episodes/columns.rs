//! Columns of all segments of one episode, joined in order, as in a Parquet row.

use gymkhana_record::{Segment, SegmentColumns, SegmentError};

/// Joined columns of an episode's segments, in order. All columns have the same length.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct JoinedColumns {
    pub tokens: Vec<u32>,
    pub sampled: Vec<bool>,
    pub log_probs: Vec<f32>,
    pub entropies: Vec<f32>,
    pub versions: Vec<u32>,
    pub seats: Vec<u32>,
    pub turns: Vec<u32>,
}

impl JoinedColumns {
    /// Joins the columns of all segments.
    pub fn of(segments: &[Segment]) -> Self {
        Self::after(segments, 0)
    }

    /// Joins the columns of all segments without their first `skipped` tokens.
    pub fn after(segments: &[Segment], skipped: usize) -> Self {
        let total: usize = segments.iter().map(Segment::len).sum();
        let mut joined = Self::with_capacity(total.saturating_sub(skipped));
        let mut skipped = skipped;
        for segment in segments {
            let from = skipped.min(segment.len());
            skipped -= from;
            joined.tokens.extend_from_slice(&segment.tokens()[from..]);
            joined.sampled.extend_from_slice(&segment.sampled()[from..]);
            joined.log_probs.extend_from_slice(&segment.log_probs()[from..]);
            joined.entropies.extend_from_slice(&segment.entropies()[from..]);
            joined.versions.extend_from_slice(&segment.versions()[from..]);
            joined.seats.resize(joined.tokens.len(), segment.seat());
            joined.turns.extend_from_slice(&segment.turns()[from..]);
        }
        joined
    }

    fn with_capacity(tokens: usize) -> Self {
        Self {
            tokens: Vec::with_capacity(tokens),
            sampled: Vec::with_capacity(tokens),
            log_probs: Vec::with_capacity(tokens),
            entropies: Vec::with_capacity(tokens),
            versions: Vec::with_capacity(tokens),
            seats: Vec::with_capacity(tokens),
            turns: Vec::with_capacity(tokens),
        }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether every column has the length of `tokens`.
    pub fn is_even(&self) -> bool {
        let Self { tokens, sampled, log_probs, entropies, versions, seats, turns } = self;
        let lengths = [sampled.len(), log_probs.len(), entropies.len(), versions.len(), seats.len(), turns.len()];
        lengths.iter().all(|length| *length == tokens.len())
    }

    /// Keeps the first `length` tokens.
    pub fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.sampled.truncate(length);
        self.log_probs.truncate(length);
        self.entropies.truncate(length);
        self.versions.truncate(length);
        self.seats.truncate(length);
        self.turns.truncate(length);
    }

    /// Appends other columns.
    pub fn append(&mut self, mut other: Self) {
        self.tokens.append(&mut other.tokens);
        self.sampled.append(&mut other.sampled);
        self.log_probs.append(&mut other.log_probs);
        self.entropies.append(&mut other.entropies);
        self.versions.append(&mut other.versions);
        self.seats.append(&mut other.seats);
        self.turns.append(&mut other.turns);
    }

    /// Segment of the tokens `start..end`. `None` if the range exceeds the tokens or spans several seats.
    pub fn segment(&self, start: usize, end: usize) -> Option<Result<Segment, SegmentError>> {
        let range = start..end;
        Some(Segment::from_columns(SegmentColumns {
            seat: only_seat(self.seats.get(range.clone())?)?,
            tokens: self.tokens.get(range.clone())?.to_vec(),
            sampled: self.sampled.get(range.clone())?.to_vec(),
            log_probs: self.log_probs.get(range.clone())?.to_vec(),
            entropies: self.entropies.get(range.clone())?.to_vec(),
            versions: self.versions.get(range.clone())?.to_vec(),
            turns: self.turns.get(range)?.to_vec(),
        }))
    }

    /// Number of leading tokens that are equal to those of `other` in every column, bit by bit.
    pub fn common_tokens(&self, other: &Self) -> usize {
        let equal = |at: &usize| {
            let at = *at;
            self.tokens[at] == other.tokens[at]
                && self.sampled[at] == other.sampled[at]
                && self.log_probs[at].to_bits() == other.log_probs[at].to_bits()
                && self.entropies[at].to_bits() == other.entropies[at].to_bits()
                && self.versions[at] == other.versions[at]
                && self.seats[at] == other.seats[at]
                && self.turns[at] == other.turns[at]
        };
        (0..self.len().min(other.len())).take_while(equal).count()
    }
}

/// Seat of all tokens of a segment, 0 for an empty segment. `None` if the tokens name several seats.
pub(crate) fn only_seat(seats: &[u32]) -> Option<u32> {
    let seat = seats.first().copied().unwrap_or(0);
    seats.iter().all(|other| *other == seat).then_some(seat)
}
