//! Guided retries: failed attempts are repeated with a hint from the environment (Agent-RLVR).

use futures::future::try_join_all;
use gymkhana_record::{Ending, EpisodeRecord};
use gymkhana_rules::Guided;

use super::GroupPlan;
use crate::episode::state::{Actor, EpisodePlan};
use crate::{Rollout, RolloutError};

impl Rollout {
    /// Plays a group's members and, for each failed one, its guided attempts. Attempt `k` of member `m` has the number
    /// `m + k * size`.
    pub(super) async fn run_guided(
        &self,
        group: &GroupPlan,
        guided: Guided,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        let chains = (0..group.size).map(|member| async move {
            let mut attempts = vec![self.run_member(group.member(member), actor).await?];
            for retry in 1..=guided.retries {
                let last = &mut attempts[retry as usize - 1];
                // The success rule decides provisionally here; rewards that compare members can change the result
                // later.
                self.score_group(std::slice::from_mut(last), &[]).await;
                let solved = last.success || last.ending == Ending::Dropped;
                let Some(hint) = last.hint.clone().filter(|_| !solved) else { break };
                last.clear_scores();
                let plan = EpisodePlan { guidance: Some(hint), ..group.member(member + retry * group.size) };
                attempts.push(self.run_member(plan, actor).await?);
            }
            for attempt in &mut attempts {
                attempt.clear_scores();
            }
            Ok::<_, RolloutError>(attempts)
        });
        let mut records: Vec<EpisodeRecord> = try_join_all(chains).await?.into_iter().flatten().collect();
        records.sort_by_key(|record| record.id);
        Ok(records)
    }
}
