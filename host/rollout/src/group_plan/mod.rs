//! Groups of episodes, played by a sampling plan.
//!
//! A group has a budget of episodes. Plain groups play all of them from the start. Other plans play more and keep a
//! part, branch paths at selected turns, or repeat failed attempts with a hint. In every plan, an episode is a member
//! of its group with its own number, its seed depends only on that number, and decisions depend only on the episodes,
//! not on their timing.

mod branch;
mod guided;
mod prefixes;
mod select;

use std::collections::BTreeSet;

use futures::future::try_join_all;
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Seed, TaskRef};
use gymkhana_rules::SamplingPlan;
use serde::{Deserialize, Serialize};

use crate::episode::state::{Actor, EpisodePlan};
use crate::{ForkError, Rollout, RolloutError};
use gymkhana_policy::Sampling;

/// Plan of one group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroupPlan {
    /// Id of the first member.
    pub id: EpisodeId,
    /// Task of all episodes.
    pub task: TaskRef,
    /// The run's seed of episodes; a member's seed is derived from it and the member's id.
    pub seeds: Seed,
    /// Sampling settings of the policy.
    pub sampling: Sampling,
    /// Place of the first member in the batch.
    pub place: u32,
    /// Number of episodes to train on.
    pub size: u32,
    /// Maximum turns per seat, if it differs from the run's.
    pub turns: Option<u32>,
}

impl GroupPlan {
    /// Plan of one member.
    #[must_use]
    pub fn member(&self, member: u32) -> EpisodePlan {
        let id = EpisodeId { member, ..self.id };
        EpisodePlan {
            id,
            task: self.task.clone(),
            seed: self.seeds.child(id),
            sampling: self.sampling,
            place: self.place + member,
            turns: self.turns,
            guidance: None,
        }
    }
}

impl Rollout {
    /// Plays one group by a plan and scores its episodes together.
    ///
    /// # Errors
    /// If the host fails, or the plan needs to fork an environment that cannot be forked.
    pub async fn run_plan(
        &self,
        group: &GroupPlan,
        plan: &SamplingPlan,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, ForkError> {
        let mut records = match plan {
            SamplingPlan::Groups {} | SamplingPlan::Oversample(_) => {
                let members = (0..plan.members(group.size)).map(|member| self.run_member(group.member(member), actor));
                try_join_all(members).await?
            }
            SamplingPlan::Branch(branch) => self.run_branching(group, branch, actor).await?,
            SamplingPlan::Prefixes(prefixes) => self.run_prefixes(group, *prefixes, actor).await?,
            SamplingPlan::Guided(guided) => self.run_guided(group, *guided, actor).await?,
        };
        self.score_group(&mut records, &[]).await;
        if let SamplingPlan::Oversample(oversample) = plan {
            select::select(&mut records, group.size as usize, oversample.keep);
        }
        Ok(records)
    }

    /// Repeats, from the start, episodes of a tree that a failure of the model or the host ended. An episode that has
    /// branches is kept next to its new attempt, because the branches' records refer to it.
    async fn try_again(
        &self,
        group: &GroupPlan,
        mut records: Vec<EpisodeRecord>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        let failed = |record: &EpisodeRecord| record.ending == Ending::Dropped && record.id.attempt < self.retries;
        let again = records.iter().filter(|record| failed(record)).map(|record| {
            let mut plan = group.member(record.id.member);
            plan.id.attempt = record.id.attempt + 1;
            self.run_member(plan, actor)
        });
        let again = try_join_all(again).await?;
        let parents: BTreeSet<EpisodeId> =
            records.iter().flat_map(|record| &record.forks).map(|fork| fork.parent).collect();
        records.retain(|record| !failed(record) || parents.contains(&record.id));
        records.extend(again);
        Ok(records)
    }
}
