//! An episode in progress: what each turn adds to it, and the segments of its replies so far.

mod added;
mod packed;
mod reply_tree;

pub use added::{Added, AddedCall, AddedReply};
pub use reply_tree::{TreeReply, segments_of, tokens_of};
