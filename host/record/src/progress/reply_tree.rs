//! The replies of a conversation that branches, and the segments that they form.
//!
//! A reply that several requests continue has one continuation in its segment; the others begin segments in which the
//! common tokens are given. So each sampled token is trained on once, in the context in which it was sampled.

use std::collections::HashMap;

use crate::{Sampled, Segment, SegmentError};

/// A reply of the policy with the tokens before it.
pub trait TreeReply {
    /// Number of the earlier reply whose tokens precede [`given`](Self::given); none for a root.
    fn parent(&self) -> Option<usize>;

    /// Tokens of the prompt after the parent's tokens.
    fn given(&self) -> &[u32];

    /// The sampled tokens.
    fn sampled(&self) -> &Sampled;

    /// Whether the agent program received the reply.
    fn delivered(&self) -> bool;
}

/// All tokens up to the reply of this number and with it.
#[must_use]
pub fn tokens_of<R: TreeReply>(replies: &[R], reply: usize) -> Vec<u32> {
    let mut path = vec![];
    let mut next = Some(reply);
    while let Some(at) = next {
        path.push(at);
        next = replies[at].parent();
    }
    let mut tokens = vec![];
    for at in path.into_iter().rev() {
        tokens.extend_from_slice(replies[at].given());
        tokens.extend_from_slice(&replies[at].sampled().tokens);
    }
    tokens
}

/// The segments of replies in the order in which they were sampled. A reply that the program neither received nor
/// continued is left out: it had no effect.
///
/// # Errors
/// If a reply has columns of different length.
pub fn segments_of<R: TreeReply>(replies: &[R], seat: u32) -> Result<Vec<Segment>, SegmentError> {
    let mut kept: Vec<bool> = replies.iter().map(TreeReply::delivered).collect();
    for (number, reply) in replies.iter().enumerate().rev() {
        if let Some(parent) = reply.parent().filter(|_| kept[number]) {
            kept[parent] = true;
        }
    }
    let mut segments: Vec<Segment> = vec![];
    // The segment that ends with a reply.
    let mut ends: HashMap<usize, usize> = HashMap::new();
    for (number, reply) in replies.iter().enumerate().filter(|(number, _)| kept[*number]) {
        let turn = number as u32;
        let open = reply.parent().and_then(|parent| ends.remove(&parent));
        let place = open.unwrap_or_else(|| {
            let mut segment = Segment::new(seat);
            if let Some(parent) = reply.parent() {
                segment.append_given(&tokens_of(replies, parent), turn);
            }
            segments.push(segment);
            segments.len() - 1
        });
        segments[place].append_given(reply.given(), turn);
        segments[place].append_sampled(reply.sampled(), turn)?;
        ends.insert(number, place);
    }
    Ok(segments)
}
