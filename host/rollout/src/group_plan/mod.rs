//! Sampling plans: how the episodes of one group come about.
//!
//! A group has a budget of episodes. Plain groups play all of them from the start; other plans play more and keep a
//! part, let paths part where it promises something, or try failed tasks again with a hint. Whatever the plan, an
//! episode is a member of its group under a number of its own, with a seed that depends on that number alone, and what
//! is decided depends on what the episodes are and never on which of them was faster.

mod branch;
mod guided;
mod prefixes;
mod select;

use std::collections::BTreeSet;

use futures::future::try_join_all;
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Seed, TaskRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use branch::{Branch, Probe};
pub use guided::Guided;
pub use prefixes::Prefixes;
pub use select::{Oversample, Selection};

use crate::episode::state::{Actor, EpisodePlan};
use crate::{ForkError, Rollout, RolloutError};
use gymkhana_policy::Sampling;

/// Sampling plan: how the episodes of a group start, branch and are selected. `groups` is the default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SamplingPlan {
    /// All episodes begin at the start.
    Groups {},
    /// More episodes than the group's size are played, and a selection is kept (GRPO-RoC).
    Oversample(Oversample),
    /// Episodes branch after tool results where the policy's entropy rises (ARPO, AEPO). ΔH is the mean entropy of the
    /// turn's first `tokens` tokens minus that of the episode's first turn, over the logarithm of the vocabulary's
    /// size; the score is `base + slope * ΔH`.
    Branch(Branch),
    /// Episodes branch at the prefix whose continuations are most likely to differ in success (TRACE).
    Prefixes(Prefixes),
    /// Failed episodes are repeated with the environment's hint (Agent-RLVR).
    Guided(Guided),
}

impl Default for SamplingPlan {
    fn default() -> Self {
        Self::Groups {}
    }
}

/// One group to be played.
#[derive(Debug, Clone)]
pub struct GroupPlan {
    /// The first member's name.
    pub id: EpisodeId,
    /// What all its episodes are about.
    pub task: TaskRef,
    /// The run's seed of episodes; a member's seed is below it, by the member's name.
    pub seeds: Seed,
    /// How its policy chooses tokens.
    pub sampling: Sampling,
    /// The first member's place in the batch.
    pub place: u32,
    /// How many episodes are to be trained on.
    pub size: u32,
    /// The most turns of one seat, where it differs from the run's.
    pub turns: Option<u32>,
}

impl GroupPlan {
    /// The plan of one member.
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

/// A setting of a sampling plan that is out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("plan.{key} is {found} and must be {allowed}")]
pub struct PlanError {
    key: &'static str,
    found: String,
    allowed: &'static str,
}

/// Refuses a setting that is not in its range.
fn require(
    holds: bool,
    key: &'static str,
    found: impl std::fmt::Display,
    allowed: &'static str,
) -> Result<(), PlanError> {
    if holds { Ok(()) } else { Err(PlanError { key, found: found.to_string(), allowed }) }
}

impl SamplingPlan {
    /// The plan's name in run files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Groups {} => "groups",
            Self::Oversample(_) => "oversample",
            Self::Branch(_) => "branch",
            Self::Prefixes(_) => "prefixes",
            Self::Guided(_) => "guided",
        }
    }

    /// How many episodes a group of this size plays at most.
    #[must_use]
    pub fn members(&self, size: u32) -> u32 {
        match self {
            Self::Groups {} | Self::Branch(_) | Self::Prefixes(_) => size,
            Self::Oversample(oversample) => size.saturating_mul(oversample.factor),
            Self::Guided(guided) => size.saturating_mul(1 + guided.retries),
        }
    }

    /// Refuses settings out of range.
    ///
    /// # Errors
    /// Names the first such setting.
    pub fn check(&self, size: u32) -> Result<(), PlanError> {
        match self {
            Self::Groups {} => Ok(()),
            Self::Oversample(oversample) => oversample.check(),
            Self::Branch(branch) => branch.check(size),
            Self::Prefixes(prefixes) => prefixes.check(size),
            Self::Guided(guided) => guided.check(),
        }
    }
}

impl Rollout {
    /// Plays one group by a plan and scores its episodes together.
    ///
    /// # Errors
    /// If the host is at fault, or an environment cannot be forked where the plan needs it.
    pub async fn run_plan(
        &self,
        group: &GroupPlan,
        plan: &SamplingPlan,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, ForkError> {
        let mut records = match plan {
            SamplingPlan::Groups {} => self.run_members(group, 0..group.size, actor).await?,
            SamplingPlan::Oversample(_) => self.run_members(group, 0..plan.members(group.size), actor).await?,
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

    /// Plays members from the start, side by side, and does not score them.
    async fn run_members(
        &self,
        group: &GroupPlan,
        members: std::ops::Range<u32>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        try_join_all(members.map(|member| self.run_member(group.member(member), actor))).await
    }

    /// Tries again, from the start, what a fault of the model or the host ended on its way through a tree. An episode
    /// that others have left stays beside its new attempt: their records name it.
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
