//! Rescoring of recorded episodes.

use gymkhana_record::EpisodeRecord;

use crate::Rollout;

impl Rollout {
    /// Scores a recorded group with this set's rewards, which replace the recorded scores. The episodes are not
    /// replayed and do not change otherwise; models and tools are called again.
    pub async fn rescore(&self, recorded: &[EpisodeRecord]) -> Vec<EpisodeRecord> {
        let mut records = recorded.to_vec();
        records.iter_mut().for_each(EpisodeRecord::clear_scores);
        self.score_group(&mut records, &[]).await;
        records
    }
}
