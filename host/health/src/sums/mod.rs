//! Sums over episodes, groups and metrics of a step. Their size does not depend on the number of episodes, apart from
//! groups, which have a bound.

mod episodes;
mod groups;
mod malformed;
mod metrics;
mod positions;
mod stage;
mod times;

pub(crate) use episodes::{EpisodeSums, FunctionUse};
pub(crate) use groups::GroupTotals;
pub(crate) use malformed::{CUT, MalformedKinds, UNKNOWN_FUNCTION};
pub(crate) use metrics::{MetricTrend, StepFigures};
pub(crate) use positions::PartDifference;
pub(crate) use stage::{StageFigures, StageWindow};
