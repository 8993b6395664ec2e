//! The task and the seed of each episode, drawn from the seed of the first.

use gymkhana_record::{Seed, TaskRef};
use gymkhana_sandbox::SplitInfo;

use super::{DescribedEnvironment, TaskError};

/// Number of tasks that are drawn from a split without end.
const ENDLESS: u64 = 1 << 31;

/// What an episode begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextEpisode {
    /// Split of the task; the first one if there is none.
    pub split: Option<String>,
    /// Place of the task in its split; drawn by the seed if there is none.
    pub task: Option<u64>,
    /// Seed of this episode, from which those of later ones derive; derived from an earlier one if there is none.
    pub seed: Option<Seed>,
}

/// The sequence of episodes that one seed determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EpisodeSequence {
    /// Seed of the first episode.
    root: Seed,
    /// Number of episodes begun.
    begun: u64,
}

impl EpisodeSequence {
    /// The sequence that begins with this seed.
    #[must_use]
    pub fn new(root: Seed) -> Self {
        Self { root, begun: 0 }
    }

    /// Number of episodes begun.
    #[must_use]
    pub fn begun(self) -> u64 {
        self.begun
    }

    /// The task and the seed of the next episode: the sequence's own seed for the first one. Without a task, one is
    /// drawn.
    ///
    /// # Errors
    /// If the split or the task does not exist.
    pub fn next(
        &mut self,
        environment: &DescribedEnvironment,
        split: Option<&str>,
        task: Option<u64>,
    ) -> Result<(TaskRef, Seed), TaskError> {
        let split = environment.split(split)?;
        let given = task.map(|index| environment.task(Some(&split.name), index)).transpose()?;
        let number = self.begun;
        self.begun += 1;
        let seed = if number == 0 { self.root } else { self.root.child("episode").child(number) };
        Ok((given.unwrap_or_else(|| drawn(split, seed)), seed))
    }
}

/// The task of the episode with this seed, at random.
fn drawn(split: &SplitInfo, seed: Seed) -> TaskRef {
    let tasks = split.tasks.unwrap_or(ENDLESS).max(1);
    TaskRef { split: split.name.clone(), index: seed.child("task").stream().below(tasks) }
}
