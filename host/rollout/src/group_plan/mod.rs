//! Sampling plans: which episodes a group consists of.
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

/// A setting of a sampling plan that is out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("plan.{key} is out of range: {found}\nhint: use {allowed}")]
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
    /// Name of the plan in run files.
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

    /// Maximum number of episodes that a group of this size plays.
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
    /// If the host fails, or the plan needs to fork an environment that cannot be forked.
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

    /// Plays members from the start, concurrently and without scoring.
    async fn run_members(
        &self,
        group: &GroupPlan,
        members: std::ops::Range<u32>,
        actor: Actor<'_>,
    ) -> Result<Vec<EpisodeRecord>, RolloutError> {
        try_join_all(members.map(|member| self.run_member(group.member(member), actor))).await
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
