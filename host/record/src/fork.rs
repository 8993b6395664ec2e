//! Where an episode left another one's path: episodes that share a beginning form a tree.

use serde::{Deserialize, Serialize};

use crate::{EpisodeId, EpisodeRecord, Seed};

/// One parting of paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The episode whose beginning this one shares.
    pub parent: EpisodeId,
    /// For each seat, how many of its turns were taken before the paths part.
    pub turns: Vec<u32>,
    /// The seed that held until then.
    pub seed: Seed,
}

impl Fork {
    /// How many turns all seats took before the paths part.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.turns.iter().sum()
    }
}

impl EpisodeRecord {
    /// The seed with which the episode began, and those that followed: after how many turns of all seats, and which.
    #[must_use]
    pub fn seeds(&self) -> (Seed, Vec<(u32, Seed)>) {
        let starts = std::iter::once(0).chain(self.forks.iter().map(Fork::taken));
        let seeds = self.forks.iter().map(|fork| fork.seed).chain(std::iter::once(self.seed));
        let mut held = starts.zip(seeds);
        let first = held.next().map_or(self.seed, |(_, seed)| seed);
        (first, held.collect())
    }

    /// How many of a seat's turns belong to another episode, with which this one shares its beginning.
    #[must_use]
    pub fn shared_turns(&self, seat: u32) -> u32 {
        self.forks.last().and_then(|fork| fork.turns.get(seat as usize)).copied().unwrap_or(0)
    }
}
