//! Sections of a run file: keys, defaults and ranges.

mod checkpoint;
mod environment;
mod evaluation;
mod failures;
mod grants;
mod limits;
mod policy;
mod rewards;
mod sandbox;
mod seats;
mod server;
mod stages;
mod tools;

pub use checkpoint::{Checkpoint, HubModel};
pub use environment::{EnvironmentSection, Options};
pub use evaluation::EvaluationSection;
pub use failures::FailuresSection;
pub use grants::{HttpSection, ModelSection, PluginSection};
pub use limits::LimitsSection;
pub use policy::{PolicySection, ToolFormatChoice};
pub use rewards::RewardSection;
pub use sandbox::SandboxSection;
pub use seats::{SeatBinding, SeatSection};
pub use server::ServerSection;
pub use stages::{DynamicSampling, RlStage, SftStage, Stage};
pub use tools::ToolSection;
