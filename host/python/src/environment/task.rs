//! The task and the seed of each episode, drawn from the seed of the first.

use gymkhana_record::{Seed, TaskRef};
use gymkhana_sandbox::SplitInfo;

/// Number of tasks that are drawn from a split without end.
const ENDLESS: u64 = 1 << 31;

/// The sequence of episodes that one seed determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sequence {
    /// Seed of the first episode.
    root: Seed,
    /// Number of episodes begun.
    begun: u64,
}

impl Sequence {
    /// The sequence that begins with this seed.
    pub fn new(root: Seed) -> Self {
        Self { root, begun: 0 }
    }

    /// Seed of the next episode: the seed itself for the first one.
    pub fn next(&mut self) -> Seed {
        let number = self.begun;
        self.begun += 1;
        if number == 0 { self.root } else { self.root.child("episode").child(number) }
    }

    /// Number of episodes begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }
}

/// The task of the episode with this seed, at random.
pub fn drawn(split: &SplitInfo, seed: Seed) -> TaskRef {
    TaskRef { split: split.name.clone(), index: drawn_index(split.tasks, seed) }
}

/// Place of the task of the episode with this seed, among this many, or in an endless split.
fn drawn_index(tasks: Option<u64>, seed: Seed) -> u64 {
    seed.child("task").stream().below(tasks.unwrap_or(ENDLESS).max(1))
}
