//! The end of an episode: its scores, and the answer to its last turn.

use gymkhana_record::{EpisodeRecord, Failure};

use super::types::{EpisodeScore, TurnAnswer};
use crate::catalog::ServedEnvironment;
use crate::error::{ErrorKind, ServeError};

/// Largest size of the records that are scored together, in bytes of JSON.
const MAX_GROUP_BYTES: u64 = 64 << 20;
/// Share of a reward's memory that these records may have: it holds the texts more than once.
const MEMORY_SHARE: usize = 4;

impl EpisodeScore {
    /// The scores of a record.
    pub(super) fn of(record: &EpisodeRecord) -> Self {
        let of_reward = |failure: &&Failure| matches!(failure.at, gymkhana_record::Boundary::Reward(_));
        Self {
            rewards: record.rewards.clone(),
            success: record.success,
            plugins: record.scores.clone(),
            failures: record.failures.iter().filter(of_reward).cloned().collect(),
        }
    }
}

impl TurnAnswer {
    /// Adds the scores of the episode that this turn ended. The rewards of this turn grow by what the episode's reward is
    /// more than the sum of its environment's rewards, which is exactly 0 without reward plugins.
    pub(super) fn with_score(mut self, record: &EpisodeRecord) -> Self {
        let score = EpisodeScore::of(record);
        for (seat, reward) in self.rewards.iter_mut().enumerate() {
            let own = record.environment_rewards.iter().find(|own| own.seat as usize == seat);
            let paid = own.map_or(0.0, |own| own.rewards.iter().fold(0.0, |sum, reward| sum + reward));
            *reward += score.rewards.get(seat).map_or(0.0, |total| total - paid);
        }
        self.ending = Some(record.ending);
        self.failures.extend(score.failures.iter().cloned());
        self.score = Some(score);
        self
    }
}

/// Checks the size of records that are scored together: a reward copies them into its memory, in a few forms.
pub(super) fn check_scored(served: &ServedEnvironment, bytes: u64) -> Result<(), ServeError> {
    let memory = served.rollout().plugins().least_reward_memory();
    let (most, whose) = match memory.map(|(reward, memory)| ((memory / MEMORY_SHARE) as u64, reward)) {
        Some((most, reward)) if most < MAX_GROUP_BYTES => (most, format!(" of the memory of reward `{reward}`")),
        _ => (MAX_GROUP_BYTES, String::new()),
    };
    if bytes <= most {
        return Ok(());
    }
    let message = format!(
        "the records are too large to be scored together: {bytes} bytes, above the limit of {most}{whose}\nhint: score \
         fewer at a time, or shorter episodes"
    );
    Err(ServeError::agent(ErrorKind::TooLarge, message))
}
