//! Recorded episodes scored again, as if they had just ended.

use gymkhana_record::EpisodeRecord;

use crate::Rollout;

impl Rollout {
    /// Scores a recorded group with this set's rewards, which replace the recorded scores. The episodes are not played
    /// again and do not change otherwise; models and tools answer the rewards' questions again.
    pub async fn rescore(&self, recorded: &[EpisodeRecord]) -> Vec<EpisodeRecord> {
        let mut records = recorded.to_vec();
        records.iter_mut().for_each(EpisodeRecord::clear_scores);
        self.score_group(&mut records, &[]).await;
        records
    }
}
