//! States that an episode has visited, as digests of the environment's state keys.

use std::collections::HashMap;

use gymkhana_registry::Digest;

/// The digest of the last state key that was read. A key may have megabytes, and the next turn brings another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StateDigest(Option<(u32, Digest)>);

impl StateDigest {
    /// The digest of the state after this many turns of all seats.
    pub(crate) fn new(taken: u32, digest: Digest) -> Self {
        Self(Some((taken, digest)))
    }

    /// The digest of the state after this many turns of all seats, if it was read.
    pub(crate) fn known(self, taken: u32) -> Option<Digest> {
        self.0.filter(|(after, _)| *after == taken).map(|(_, digest)| digest)
    }
}

/// The number of visits of each state.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateCounts {
    /// Visits by the digest of the state key.
    states: HashMap<Digest, u32>,
}

impl StateCounts {
    /// Counts a visit of a state; returns its number of visits.
    pub(crate) fn visit(&mut self, state: Digest) -> u32 {
        let visits = self.states.entry(state).or_default();
        *visits += 1;
        *visits
    }
}

/// The first 8 bytes of a digest in hex: enough to tell the states of a group of episodes apart.
pub(crate) fn short_digest(digest: Digest) -> String {
    let mut text = digest.to_string();
    text.truncate(16);
    text
}
