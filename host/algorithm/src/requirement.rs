//! Companions of a preset: parts of the run file without which its paper's method is plain GRPO.

use serde::{Deserialize, Serialize};

/// A part of the run file, outside the algorithm's flags, that a preset needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PresetRequirement {
    /// A probe that scores the right answer before each turn.
    AnswerProbe,
    /// A sampling plan that branches episodes after tool results.
    BranchPlan,
    /// A sampling plan that samples more episodes than it keeps.
    OversamplePlan,
    /// A turn limit that grows with the steps of the stage.
    TurnSchedule,
    /// A reward that counts only once another reward reaches a bound.
    RewardGate,
    /// A reward that prefers few tool calls.
    CallEfficiencyReward,
    /// A context strategy that summarises earlier turns.
    SummaryContext,
}

impl PresetRequirement {
    /// Every requirement.
    pub const ALL: [Self; 7] = [
        Self::AnswerProbe,
        Self::BranchPlan,
        Self::OversamplePlan,
        Self::TurnSchedule,
        Self::RewardGate,
        Self::CallEfficiencyReward,
        Self::SummaryContext,
    ];

    /// The companion in words, with its article.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::AnswerProbe => "a probe of the right answer",
            Self::BranchPlan => "a plan that branches episodes",
            Self::OversamplePlan => "a plan that oversamples episodes",
            Self::TurnSchedule => "a turn limit that grows with the steps",
            Self::RewardGate => "a gate on a reward or on the environment's reward",
            Self::CallEfficiencyReward => "the reward plugin `tool-efficiency` among the plugins",
            Self::SummaryContext => "the context strategy `summary`",
        }
    }

    /// Lines of a run file that meet the requirement, as an example for an error's hint.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::AnswerProbe => "[probe]\nkind = \"answer\"\nfield = \"answer\"",
            Self::BranchPlan => "plan = { kind = \"branch\", roots = 4, threshold = 0.5 }",
            Self::OversamplePlan => "plan = { kind = \"oversample\", factor = 2, keep = \"clean\" }",
            Self::TurnSchedule => "turns = { from = 4, by = 2, every = 10 }",
            Self::RewardGate => "[plugins.NAME]\ngate = \"environment.success >= 0.5\"",
            Self::CallEfficiencyReward => "[plugins.tool-efficiency]",
            Self::SummaryContext => "[context]\nstrategy = \"summary\"\ntokens = 2048",
        }
    }
}
