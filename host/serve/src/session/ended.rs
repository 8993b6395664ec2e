//! The end of an episode: final views, scores and the record.

use gymkhana_driver::{NoHooks, unsandboxed};
use gymkhana_orchestration::is_tools_only;
use gymkhana_record::{Ending, EpisodeRecord, Failure};

use super::episode::LiveEpisode;
use super::types::{EpisodeScore, Step};
use crate::catalog::ServedEnvironment;

impl LiveEpisode {
    /// Reads the final views, scores the episode and writes the record. `ending` is that of an episode that the
    /// environment did not end.
    pub(super) async fn finish(self, served: &ServedEnvironment, ending: Ending) -> Box<EpisodeRecord> {
        let Self { episode, facts } = self;
        let ending = episode.data.ending.unwrap_or(ending);
        let record = EpisodeRecord {
            turn_limit: served.run_file().limits.turns,
            unsandboxed: without_sandbox(served),
            ..EpisodeRecord::new(facts.record, facts.task, facts.seed, ending)
        };
        let record = episode.finish(&NoHooks, ending, facts.begun, record).await;
        let scored = served.rollout().rescore(std::slice::from_ref(&record)).await;
        Box::new(scored.into_iter().next().unwrap_or(record))
    }
}

/// Full names of the plugins that ran without a sandbox. The environment of tool sessions is the host's own code.
fn without_sandbox(served: &ServedEnvironment) -> Vec<String> {
    let tools = served.tools().tools().iter().map(|tool| &tool.bound.plugin);
    let mut names = unsandboxed(std::iter::once(&served.bound().plugin).chain(tools));
    names.retain(|name| !is_tools_only(name));
    names
}

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

impl Step {
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
