//! The studies, one module each, and the table that runs them by name.

mod agent_program;
mod anchors;
mod branching;
mod entropy_band;
mod few_calls;
mod frozen_lake;
mod gating;
mod kuhn;
mod over_long;
mod recall;
mod samplers;
mod stale;
mod toy;
mod void_turns;

use anyhow::Result;
use gymkhana_benches::Effort;
use gymkhana_record::Seed;

use crate::name::StudyName;

/// The metrics of one training step, by name.
pub struct Row {
    /// The training step.
    pub step: u64,
    /// Names and values.
    pub figures: Vec<(&'static str, f64)>,
}

/// The arms of a study and the metric that compares them.
pub struct Study {
    /// The metric that is plotted.
    pub figure: &'static str,
    /// Values that the plot marks with a line: those named in the claim.
    pub marks: &'static [f64],
    /// The arms; the last is the control.
    pub arms: &'static [&'static str],
}

impl StudyName {
    /// The study's arms and metric.
    pub fn study(self) -> Study {
        match self {
            Self::VoidTurns => void_turns::STUDY,
            Self::EntropyBand => entropy_band::STUDY,
            Self::Stale => stale::STUDY,
            Self::OverLong => over_long::STUDY,
            Self::Anchors => anchors::STUDY,
            Self::FrozenLake => frozen_lake::STUDY,
            Self::Branching => branching::STUDY,
            Self::Gating => gating::STUDY,
            Self::FewCalls => few_calls::STUDY,
            Self::Recall => recall::STUDY,
            Self::Toy => toy::STUDY,
            Self::Kuhn => kuhn::STUDY,
            Self::Samplers => samplers::STUDY,
            Self::AgentProgram => agent_program::STUDY,
        }
    }

    /// Trains one arm with one seed.
    pub async fn run(self, arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
        match self {
            Self::VoidTurns => void_turns::run(arm, seed, effort).await,
            Self::EntropyBand => entropy_band::run(arm, seed, effort).await,
            Self::Stale => stale::run(arm, seed, effort).await,
            Self::OverLong => over_long::run(arm, seed, effort).await,
            Self::Anchors => anchors::run(arm, seed, effort).await,
            Self::FrozenLake => frozen_lake::run(arm, seed, effort).await,
            Self::Branching => branching::run(arm, seed, effort).await,
            Self::Gating => gating::run(arm, seed, effort).await,
            Self::FewCalls => few_calls::run(arm, seed, effort).await,
            Self::Recall => recall::run(arm, seed, effort).await,
            Self::Toy => toy::run(arm, seed, effort).await,
            Self::Kuhn => kuhn::run(arm, seed, effort).await,
            Self::Samplers => samplers::run(arm, seed, effort).await,
            Self::AgentProgram => agent_program::run(arm, seed, effort).await,
        }
    }
}
