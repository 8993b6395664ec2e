//! The replies of a seat's policy with their tokens and the tokens before them.

use gymkhana_record::EpisodeRecord;

/// A reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RecordedReply<'r> {
    /// Number among the seat's replies, from 0.
    pub turn: u32,
    /// Index of the segment.
    pub segment: usize,
    /// All tokens before the reply.
    pub prompt: &'r [u32],
    /// Number of tokens at the start of the prompt up to the end of the segment's earlier reply.
    pub earlier: usize,
    /// The tokens after those earlier ones, up to the reply's end.
    pub added: &'r [u32],
    /// The sampled tokens.
    pub tokens: &'r [u32],
    /// Their log-probabilities (nats).
    pub log_probs: &'r [f32],
    /// The weight version that sampled the first token.
    pub version: u32,
}

/// The replies of a seat, in their order.
pub(crate) fn replies(record: &EpisodeRecord, seat: u32) -> Vec<RecordedReply<'_>> {
    let mut replies = vec![];
    for (index, segment) in record.segments.iter().enumerate().filter(|(_, segment)| segment.seat() == seat) {
        let mut earlier = 0;
        for place in segment.replies() {
            replies.push(RecordedReply {
                turn: segment.turns()[place.start],
                segment: index,
                prompt: &segment.tokens()[..place.start],
                earlier,
                added: &segment.tokens()[earlier..place.end],
                tokens: &segment.tokens()[place.clone()],
                log_probs: &segment.log_probs()[place.clone()],
                version: segment.versions()[place.start],
            });
            earlier = place.end;
        }
    }
    replies.sort_by_key(|reply| reply.turn);
    replies
}
