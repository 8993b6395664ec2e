//! The sections of a run file, each with its defaults and its ranges.

mod checkpoint;
mod grants;
mod parts;
mod sandbox;
mod seats;
mod server;
mod stages;

pub use checkpoint::{Checkpoint, HubModel};
pub use grants::{HttpSection, ModelSection, PluginSection};
pub use parts::{
    EnvironmentSection, EvaluationSection, FailuresSection, LimitsSection, Options, PolicySection, RewardSection,
    ToolSection,
};
pub use sandbox::SandboxSection;
pub use seats::{SeatBinding, SeatSection};
pub use server::ServerSection;
pub use stages::{DynamicSampling, RlStage, SftStage, Stage};
