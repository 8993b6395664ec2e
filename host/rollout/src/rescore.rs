//! Recorded episodes scored again, as if they had just ended.

use gymkhana_record::{Boundary, EpisodeRecord};

use crate::Rollout;

impl Rollout {
    /// Scores a recorded group with this set's rewards in the place of those that scored it. Its episodes are neither
    /// played again nor changed in any other way; what rewards ask of models and tools is asked anew.
    pub async fn rescore(&self, recorded: &[EpisodeRecord]) -> Vec<EpisodeRecord> {
        let mut records: Vec<EpisodeRecord> = recorded.iter().map(unscored).collect();
        self.score_group(&mut records, &[]).await;
        records
    }
}

/// The episode as it was before any reward looked at it.
fn unscored(record: &EpisodeRecord) -> EpisodeRecord {
    let rewards = |at: &Boundary| matches!(at, Boundary::Reward(_));
    let mut record = record.clone();
    record.scores.clear();
    record.failures.retain(|failure| !rewards(&failure.at));
    record.exchanges.retain(|exchange| !rewards(&exchange.at));
    record.costs.retain(|cost| !rewards(&cost.at));
    record.timing.reward_ms = 0.0;
    record
}
