//! Early stopping of episodes that repeat states or fail calls (ActiveVLN).

use gymkhana_record::{Ending, Failure, Turn};

use crate::episode::state::EpisodeState;

impl EpisodeState<'_> {
    /// Whether the rule ends the episode.
    pub(crate) async fn should_stop_early(&mut self) -> Result<bool, Failure> {
        let rule = self.rollout.limits.early_stop;
        if rule.failed_calls.is_some_and(|limit| self.failed_in_a_row() >= limit) {
            return Ok(true);
        }
        let Some(limit) = rule.repeats else { return Ok(false) };
        let Some(state) = self.state_digest().await? else { return Ok(false) };
        Ok(self.policy.seen.visit(state) > limit)
    }

    /// Number of consecutive failed calls at the end.
    fn failed_in_a_row(&self) -> u32 {
        let answers = self.episode.data.turns.iter().rev().filter_map(|turn| match turn {
            Turn::Answer { failed, .. } => Some(*failed),
            _ => None,
        });
        answers.take_while(|failed| *failed).count() as u32
    }

    /// The ending by the early-stop rule, if it applies.
    pub(crate) async fn early_stop(&mut self) -> Option<Ending> {
        match self.should_stop_early().await {
            Ok(early_stop) => early_stop.then_some(Ending::EarlyStopped),
            Err(failure) => {
                self.episode.data.failures.push(failure);
                Some(Ending::EnvironmentFailed)
            }
        }
    }
}
