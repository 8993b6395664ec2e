//! Forks: episodes that share their first turns form a tree.

use serde::{Deserialize, Serialize};

use crate::{EpisodeId, EpisodeRecord, Seed};

/// A fork of an episode from another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The episode with the shared turns.
    pub parent: EpisodeId,
    /// For each seat, the number of shared turns.
    pub turns: Vec<u32>,
    /// The seed of the shared turns.
    pub seed: Seed,
}

impl Fork {
    /// Number of shared turns of all seats.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.turns.iter().sum()
    }
}

impl EpisodeRecord {
    /// The first seed, and each later seed with the number of turns of all seats after which it begins.
    #[must_use]
    pub fn seeds(&self) -> (Seed, Vec<(u32, Seed)>) {
        let starts = std::iter::once(0).chain(self.forks.iter().map(Fork::taken));
        let seeds = self.forks.iter().map(|fork| fork.seed).chain(std::iter::once(self.seed));
        let mut held = starts.zip(seeds);
        let first = held.next().map_or(self.seed, |(_, seed)| seed);
        (first, held.collect())
    }

    /// Number of a seat's turns that belong to the episode from which this one was forked.
    #[must_use]
    pub fn shared_turns(&self, seat: u32) -> u32 {
        self.forks.last().and_then(|fork| fork.turns.get(seat as usize)).copied().unwrap_or(0)
    }
}
